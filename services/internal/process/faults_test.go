package process

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("FAULTS_TEST_DIR"); dir != "" {
		f := NewFlags("bidder", "buys", io.Discard)
		if f.Read([]string{"--crash-dir", dir}, os.Getenv) == nil {
			f.Faults.Point("after intent")
		}
		os.Exit(7)
	}
	os.Exit(m.Run())
}

func TestAProgramDiesOnceAtAPointThatWasNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "hit"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func() syscall.WaitStatus {
		t.Helper()
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), exe)
		c.Env = append(os.Environ(), "FAULTS_TEST_DIR="+dir)
		_ = c.Run()
		return c.ProcessState.Sys().(syscall.WaitStatus)
	}
	for _, tc := range []struct {
		name, arm string
		dies      bool
	}{
		{"when nothing is named", "", false},
		{"when another program's is", "failover.after-intent", false},
		{"when another point is", "bidder.before-intent", false},
		{"when it is", "bidder.after-intent", true},
		{"and not a second time", "", false},
	} {
		if tc.arm != "" {
			if err := os.WriteFile(filepath.Join(dir, tc.arm), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if ws := run(); (ws.Signaled() && ws.Signal() == syscall.SIGKILL) != tc.dies || !tc.dies && ws.ExitStatus() != 7 {
			t.Errorf("%s: %v", tc.name, ws)
		}
	}
	if hit, err := os.ReadDir(filepath.Join(dir, "hit")); err != nil || len(hit) != 1 {
		t.Errorf("hit: %v, %v", hit, err)
	}
}

func TestFaultsAreHiddenAndNothingHappensWithoutThem(t *testing.T) {
	t.Parallel()
	var help strings.Builder
	f := NewFlags("bidder", "buys", &help)
	f.Usage()
	if strings.Contains(help.String(), "crash") || strings.Contains(help.String(), "skew") {
		t.Errorf("the help text tells of faults:\n%s", help.String())
	}
	if err := f.Read(nil, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	f.Faults.Point("after intent")
	if d := time.Until(f.Faults.Now()); d < -time.Minute || d > time.Minute {
		t.Errorf("the clock is %s off", d)
	}
	if err := f.Read([]string{"--clock-skew", "-1h"}, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if d := time.Until(f.Faults.Now()); d > -59*time.Minute {
		t.Errorf("the clock is %s off, want an hour", d)
	}
}
