package main

import (
	"bytes"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAJobMovesThroughADirectoryThatTheGatewayServes trains with its checkpoints encrypted where
// machines reach them by signed requests alone.
func TestAJobMovesThroughADirectoryThatTheGatewayServes(t *testing.T) {
	at, dir := freeAddress(t), filepath.Join(t.TempDir(), "objects")
	s := quick(t, "--encrypt", "--store", "served://"+at+dir+"?listen="+at)
	s.movesThrough(dir)
}

// TestAJobMovesThroughABucket is the same with a real S3 server. It sets the environment, so it runs alone.
func TestAJobMovesThroughABucket(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the whole system for most of a minute")
	}
	program, err := exec.LookPath("versitygw")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("versitygw is not on PATH")
	}
	if err != nil {
		t.Skip("needs a real S3 server: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
	}
	at, dir := freeAddress(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(program, "--access", "the-key", "--secret", "the-secret-key", "--port", at, "--quiet", "posix", dir)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	until(t, "the S3 server answers", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	t.Setenv("AWS_ACCESS_KEY_ID", "the-key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "the-secret-key")
	install(t, "--scale", "60", "--divide", "10", "--encrypt", "--store", "s3://bucket/some/where?endpoint=http://"+at).movesThrough(dir)
}

// movesThrough has a job lose a machine with and without notice while its checkpoints are in dir.
func (s *installation) movesThrough(dir string) {
	t := s.t
	s.serve()
	c := calm{name: "keyless", steps: 120, saveEvery: 20, hidden: 96, seed: 5, pace: 60 * time.Millisecond}
	job := s.submitText(c.onNotice())
	s.trainsPast(job, 1, 30)
	s.drill(job, "with notice")
	s.trainsPast(job, 2, 70)
	s.drill(job, "without", "--no-notice")
	j := s.closed(job)
	if want := uninterrupted(t, c.script(0)); j.Status != "succeeded" || j.Checkpoint.Weights != want {
		t.Errorf("the job is %s (%s) with weights %s, want %s", j.Status, j.Detail, j.Checkpoint.Weights, want)
	}
	out := filepath.Join(t.TempDir(), "out")
	if r := s.command("checkpoint", "restore", job, "newest", out); r.code != 0 {
		t.Errorf("checkpoint restore exited with %d: %s", r.code, r.err)
	}
	clear, err := os.ReadFile(filepath.Join(out, "checkpoint-120", "trainer_state.json"))
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(path, "/data/") {
			return err
		}
		objects++
		b, err := os.ReadFile(path)
		if bytes.Contains(b, clear) || bytes.Contains(b, []byte("__metadata__")) || bytes.Contains(b, []byte(`"dtype"`)) {
			t.Errorf("%s can be read without the key", path)
		}
		return err
	})
	if err != nil || objects == 0 {
		t.Errorf("%d objects in the store, %v", objects, err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "store")); len(left) > 0 {
		t.Errorf("the directory that is not the store has %d entries", len(left))
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
