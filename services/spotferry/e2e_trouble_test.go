package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDevSaysInOneLineWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, dir string)
		exit    exit
		says    string
	}{
		{"a directory with somebody's files", func(t *testing.T, dir string) { put(t, dir, "thesis.tex", "x") }, exitInternal, `holds no Spotferry state: choose another --state`},
		{"a state file of something else", func(t *testing.T, dir string) { put(t, dir, "state.json", `{"kernel": "x"}`) }, exitInternal, "is not a state file of Spotferry"},
		{"a state file that is cut short", func(t *testing.T, dir string) { put(t, dir, "state.json", `{"format": 1, "ver`) }, exitInternal, "is not a state file of Spotferry"},
		{"a state of a newer program", func(t *testing.T, dir string) { put(t, dir, "state.json", `{"format": 99, "version": "v9.0.0"}`) }, exitInternal, "written by a newer Spotferry (v9.0.0, format 99"},
		{"a state that cannot be read", func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "state.json")) }, exitInternal, "reading the state"},
		{"a file where the directory should be", func(t *testing.T, dir string) {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Dir(dir), filepath.Base(dir), "")
		}, exitInternal, "not a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			mkdir(t, dir)
			tc.prepare(t, dir)
			for _, c := range [][]string{{"dev"}, {"job", "ls"}} {
				r := command(t, append(c, "--state", dir)...)
				if tc.says == "" || c[0] == "dev" {
					oneLine(t, r, tc.exit, tc.says)
				} else if r.code == 0 || r.out != "" {
					t.Errorf("%v on it exits with %d and prints %q", c, r.code, r.out)
				}
			}
		})
	}
}

// oneLine wants a refusal: an exit code, a sentence, at most one more line with the remedy.
func oneLine(t *testing.T, r result, code exit, says string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.err), "\n")
	if exit(r.code) != code || r.out != "" || !strings.HasPrefix(lines[0], "spotferry: ") || !strings.Contains(lines[0], says) || len(lines) > 2 {
		t.Errorf("exit %d, out %q, err %q; want exit %d and one line with %q", r.code, r.out, r.err, code, says)
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestDevOnADiskThatIsFull(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, size string }{
		{"no room for anything", "16k"},
		{"less room than the bus keeps free", "24m"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			disk := t.TempDir()
			if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size="+tc.size); err != nil {
				t.Skipf("a small disk cannot be mounted here: %v", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
			p := begin(t, "dev", "--state", filepath.Join(disk, "state"))
			until(t, "dev gives up", p.over)
			oneLine(t, result{p.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}, exitInternal, "")
			if said := p.stderr.String(); !strings.Contains(said, "no space left") && !strings.Contains(said, "full") && !strings.Contains(said, "room") {
				t.Errorf("it says %q, and not that the disk is full", said)
			}
		})
	}
}

func TestADiskThatFillsUpWhileAJobRunsCostsTimeAndNothingElse(t *testing.T) {
	s := quick(t)
	if err := unix.Mount("tmpfs", s.dir, "tmpfs", 0, "size=240m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(s.dir, unix.MNT_DETACH) })
	s.serve()
	c := calm{name: "cramped", steps: 160, saveEvery: 20, hidden: 64, seed: 4, pace: 50 * time.Millisecond}
	job := s.submit(c)
	until(t, "it has saved", func() bool { _, step := s.trainerOf(job); return step > 25 })
	ballast := filepath.Join(s.dir, "bin", "ballast")
	fill(t, ballast)
	_, full := s.trainerOf(job)
	until(t, "it trains on, or dies of it", func() bool { p, step := s.trainerOf(job); return step > full+30 || !p.alive() })
	if s.running.over() {
		t.Fatalf("dev ended: %s", s.running.stderr)
	}
	if j := ask1[jobShown](s, "job", "show", job); j.Over {
		t.Errorf("on a full disk the job ended: %s (%s)", j.Status, j.Detail)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if j := s.closed(job); j.Status != "succeeded" || j.Checkpoint.Weights != uninterrupted(t, c.script(0)) {
		t.Errorf("the job is %s (%s), with weights %s", j.Status, j.Detail, j.Checkpoint.Weights)
	}
	s.settled(job)
}

// fill writes a file until there is no room for more.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(b)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}
