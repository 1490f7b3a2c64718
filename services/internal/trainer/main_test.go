package trainer

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestMain lets the test binary be the trainer: the tests about signals and
// kills start it again with this variable set.
func TestMain(m *testing.M) {
	if os.Getenv("TRAINER_TEST_CHILD") == "" {
		os.Exit(m.Run())
	}
	var cfg Config
	fs := flag.NewFlagSet("trainer", flag.ExitOnError)
	cfg.Flags(fs)
	_ = fs.Parse(os.Args[1:])
	err := Run(context.Background(), cfg, os.Getenv, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(ExitCode(err))
}

func noEnv(string) string { return "" }

func envOf(m map[string]string) func(string) string {
	return func(k string) string { return m[k] }
}

// tiny is a run that takes a few milliseconds.
func tiny(t *testing.T) Config {
	t.Helper()
	return Config{Steps: 24, SaveEvery: 4, LogEvery: 1, Hidden: 8, Seed: 7, Output: filepath.Join(t.TempDir(), "out")}
}

// train runs cfg with nobody to signal it.
func train(cfg Config) error {
	return run(context.Background(), cfg, noEnv, io.Discard, nil, time.Now)
}

func mustTrain(t *testing.T, cfg Config) {
	t.Helper()
	if err := train(cfg); err != nil {
		t.Fatal(err)
	}
}

// contents reads every file of a checkpoint.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// onLine is a standard output that calls a function with each line on it.
type onLine func(line map[string]any)

func (f onLine) Write(p []byte) (int, error) {
	for raw := range bytes.Lines(p) {
		var line map[string]any
		if err := json.Unmarshal(raw, &line); err != nil {
			return 0, fmt.Errorf("not a line of JSON: %q", raw)
		}
		f(line)
	}
	return len(p), nil
}

func readRows(t *testing.T, path string) []Evidence {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows []Evidence
	for raw := range bytes.Lines(data) {
		var row Evidence
		if err := json.Unmarshal(raw, &row); err != nil {
			t.Fatalf("row %q: %v", raw, err)
		}
		rows = append(rows, row)
	}
	return rows
}
