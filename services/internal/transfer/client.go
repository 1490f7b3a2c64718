package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/checkpoint/store/s3"
)

// put is what a put says of itself.
type put struct {
	Ref  checkpoint.Ref `json:"ref"`
	Sent int64          `json:"sent"`
}

// client is the engine as a tool like the others: one put or one get and the end.
// What an agent keeps between two saves it keeps in the state directory.
func client(ctx context.Context, verb string, args []string) error {
	flags := flag.NewFlagSet(verb, flag.ContinueOnError)
	where := flags.String("store", "", "dir:PATH or s3:BUCKET")
	src := flags.String("src", "", "directory to put")
	dst := flags.String("dst", "", "directory to restore into")
	state := flags.String("state", "", "directory that remembers the newest checkpoint and what was read")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, err := openStore(*where)
	if err != nil {
		return err
	}
	e, err := checkpoint.New(checkpoint.Config{Store: store, Tenant: "bench", Job: "bench", CacheDir: *state})
	if err != nil {
		return err
	}
	file := filepath.Join(*state, "newest.json")
	var newest put
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &newest); err != nil {
			return err
		}
	}
	if verb == "get" {
		_, err := e.Restore(ctx, checkpoint.RestoreRequest{Refs: []checkpoint.Ref{newest.Ref}, Dir: *dst})
		return err
	}
	if newest.Ref.Name != "" {
		if err := e.Adopt(ctx, newest.Ref); err != nil {
			return err
		}
	}
	ref, err := e.Upload(ctx, checkpoint.SaveRequest{Dir: *src, Epoch: 1, Step: newest.Ref.Step + 1})
	if err != nil {
		return err
	}
	text, err := json.Marshal(put{Ref: ref, Sent: e.Progress().Sent})
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(text))
	return errors.Join(err, os.WriteFile(file, text, 0o600))
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
