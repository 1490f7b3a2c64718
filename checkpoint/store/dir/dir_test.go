package dir_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

func open(t *testing.T, cfg dir.Config) *dir.Store {
	t.Helper()
	s, err := dir.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, dir.Config{Path: t.TempDir()}) })
}

// TestTwoProcesses: the winner is unique among stores opened separately, too.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	where := t.TempDir()
	var wins atomic.Int32
	var wg sync.WaitGroup
	for range 6 {
		s := open(t, dir.Config{Path: where})
		wg.Go(func() {
			switch err := s.Put(t.Context(), "v1/race", strings.NewReader("content"), 7); {
			case err == nil:
				wins.Add(1)
			case !errors.Is(err, checkpoint.ErrExists):
				t.Errorf("Put = %v", err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 {
		t.Errorf("%d winners", wins.Load())
	}
	left, err := os.ReadDir(filepath.Join(where, ".unfinished"))
	if err != nil || len(left) > 0 {
		t.Errorf("unfinished work is left: %v, %v", left, err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	where := t.TempDir()
	must(t, os.Mkdir(filepath.Join(where, ".unfinished"), 0o700))
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, age := range map[string]time.Duration{"old": 2 * time.Hour, "young": time.Minute, "future": -time.Hour} {
		p := filepath.Join(where, ".unfinished", name)
		must(t, os.WriteFile(p, nil, 0o600))
		must(t, os.Chtimes(p, now.Add(-age), now.Add(-age)))
	}
	open(t, dir.Config{Path: where, StaleAfter: time.Hour, Now: func() time.Time { return now }})
	for name, want := range map[string]bool{"old": false, "young": true, "future": true} {
		if _, err := os.Stat(filepath.Join(where, ".unfinished", name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}

// TestForeignEntries: what someone else put into the directory is not an object,
// and is not followed.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	where := t.TempDir()
	s := open(t, dir.Config{Path: where})
	must(t, os.Symlink("/etc/passwd", filepath.Join(where, "secret")))
	must(t, os.Symlink("/etc", filepath.Join(where, "etc")))
	must(t, syscall.Mkfifo(filepath.Join(where, "pipe"), 0o600))
	for _, name := range []string{"secret", "etc/passwd", "pipe"} {
		if r, err := s.Get(t.Context(), name); err == nil {
			data, _ := io.ReadAll(r)
			t.Errorf("Get(%s) = %.20q", name, data)
		}
		if size, err := s.Stat(t.Context(), name); err == nil {
			t.Errorf("Stat(%s) = %d", name, size)
		}
	}
	if names, err := s.List(t.Context(), ""); err != nil || len(names) > 0 {
		t.Errorf("List = %v, %v", names, err)
	}
	if err := s.Put(t.Context(), "etc/new", strings.NewReader("x"), 1); err == nil {
		t.Error("Put followed a link out of the store")
	}
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]dir.Config{
		"no path":          {},
		"a negative age":   {Path: t.TempDir(), StaleAfter: -1},
		"a path in a file": {Path: "/etc/passwd/store"},
		"a path of a NUL":  {Path: "\x00"},
	} {
		if _, err := dir.Open(cfg); err == nil {
			t.Errorf("Open accepted %s", name)
		}
	}
}

const fullEnv = "DIR_TEST_FULL_DISK"

// TestFullDisk runs again in a child that may mount a file system of one
// megabyte for itself alone.
func TestFullDisk(t *testing.T) {
	if where := os.Getenv(fullEnv); where != "" {
		fullDisk(t, where)
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), fullEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOSPC) || strings.Contains(string(out), "--- SKIP") {
		t.Skipf("no name space of our own: %v %s", err, out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func fullDisk(t *testing.T, where string) {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Skipf("making mounts private: %v", err)
	}
	if err := syscall.Mount("tmpfs", where, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting: %v", err)
	}
	s := open(t, dir.Config{Path: where})
	half := string(storetest.Content(600_000))
	must(t, s.Put(t.Context(), "v1/one", strings.NewReader(half), int64(len(half))))
	for range 3 {
		err := s.Put(t.Context(), "v1/two", strings.NewReader(half), int64(len(half)))
		if !errors.Is(err, checkpoint.ErrNoSpace) || !strings.Contains(fmt.Sprint(err), where) {
			t.Fatalf("Put = %v, want ErrNoSpace with where and what to do", err)
		}
		if _, err := s.Stat(t.Context(), "v1/two"); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("Stat = %v, want ErrNotFound", err)
		}
	}
	must(t, s.Delete(t.Context(), "v1/one"))
	must(t, s.Put(t.Context(), "v1/two", strings.NewReader(half), int64(len(half))))
}
