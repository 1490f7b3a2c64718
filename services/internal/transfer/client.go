package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/checkpoint/store/s3"
	"github.com/spotferry/spotferry/services/internal/machine"
)

// put is what a put says of itself.
type put struct {
	Ref  checkpoint.Ref `json:"ref"`
	Sent int64          `json:"sent"` // by this put
}

// client is the engine as a tool like the others, as long-lived as the agent that
// it is part of: it puts once for each line that it reads, and answers with one.
// A get is a machine of its own, which knows only the newest checkpoint.
func client(ctx context.Context, verb string, args []string) error {
	flags := flag.NewFlagSet(verb, flag.ContinueOnError)
	where := flags.String("store", "", "dir:PATH or s3:BUCKET")
	src := flags.String("src", "", "directory to put")
	dst := flags.String("dst", "", "directory to restore into")
	compress := flags.String("compress", "", "on, off or nothing for automatic")
	state := flags.String("state", "", "directory that remembers the newest checkpoint and what was read")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, err := openStore(*where)
	if err != nil {
		return err
	}
	e, err := checkpoint.New(checkpoint.Config{Store: store, Tenant: "bench", Job: "bench", CacheDir: *state,
		Compress: checkpoint.Compression(*compress)})
	if err != nil {
		return err
	}
	machine.LittleMemory()
	file := filepath.Join(*state, "newest.json")
	if verb == "get" {
		var newest put
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &newest); err != nil {
			return err
		}
		_, err = e.Restore(ctx, checkpoint.RestoreRequest{Refs: []checkpoint.Ref{newest.Ref}, Dir: *dst})
		return err
	}
	var step, sent int64
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		step++
		ref, err := e.Upload(ctx, checkpoint.SaveRequest{Dir: *src, Epoch: 1, Step: step})
		if err != nil {
			return err
		}
		was := sent
		sent = e.Progress().Sent
		text, err := json.Marshal(put{Ref: ref, Sent: sent - was})
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return nil
}

func openStore(where string) (checkpoint.Store, error) {
	kind, rest, _ := strings.Cut(where, ":")
	switch kind {
	case "dir":
		return dir.Open(dir.Config{Path: rest})
	case "s3":
		return s3.Open(s3.Config{Bucket: rest, Endpoint: os.Getenv("SPOTFERRY_BENCH_S3"), Access: s3Key, Secret: s3Secret})
	}
	return nil, fmt.Errorf("-store %q: want dir:PATH or s3:BUCKET", where)
}
