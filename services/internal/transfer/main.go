// Transfer measures how fast checkpoints get away and back, beside the tools
// people would use instead: cp, restic, rclone and s5cmd, to a directory and to
// a real S3 server on this machine. All are child processes of one run, in turn,
// several rounds; the medians are what counts, and of those the ratios.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "transfer:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && (args[0] == "put" || args[0] == "get") {
		return client(ctx, args[0], args[1:])
	}
	flags := flag.NewFlagSet("transfer", flag.ContinueOnError)
	dir := flags.String("dir", os.TempDir(), "where the data set, the targets and the S3 server's files go: on the disk to be measured, with 25 GB free")
	rounds := flags.Int("rounds", 3, "how often everything is done; the median counts")
	compress := flags.String("compress", "", "whether the engine encodes chunks: on, off or nothing for automatic")
	only := flags.String("only", "", "names of the contenders to measure, comma-separated; empty: all")
	output := flags.String("o", "table", "table or json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *rounds < 1 {
		return errors.New("want no arguments, and at least one round")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{self: self, compress: *compress, sessions: map[string]*session{}}
	if b.dir, err = os.MkdirTemp(*dir, "transfer-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.look()
	if *only != "" {
		b.only = strings.Split(*only, ",")
	}
	if b.s3, err = startGateway(ctx, b.path("s3")); err != nil {
		return err
	}
	defer b.s3.stop()
	r, err := b.measure(ctx, *rounds)
	if err != nil {
		return err
	}
	if *output == "json" {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	r.print(os.Stdout)
	return nil
}

// empty makes a directory anew.
func empty(dirs ...string) error {
	for _, d := range dirs {
		entries, err := os.ReadDir(d)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(d, e.Name())); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}
