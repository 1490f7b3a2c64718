package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spotferry/spotferry/failover/agent"
)

func TestAChangeOfADirectoryIsToldUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	changed, err := agent.DirChanges(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "progress.json")
	for name, change := range map[string]func() error{
		"a file is written": func() error { return os.WriteFile(path, []byte("1"), 0o600) },
		"a file is put in its place": func() error {
			other := filepath.Join(t.TempDir(), "new")
			if err := os.WriteFile(other, []byte("2"), 0o600); err != nil {
				return err
			}
			return os.Rename(other, path)
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Errorf("%s, and nothing is told", name)
		}
	}
	cancel()
	for range changed { // until it is closed
	}
	if _, err := agent.DirChanges(t.Context(), path); err == nil {
		t.Error("a file was taken for a directory")
	}
}
