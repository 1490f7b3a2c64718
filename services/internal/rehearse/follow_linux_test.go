package rehearse

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// until waits for what comes soon.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestEveryStepThatIsToldInTimeIsHeard(t *testing.T) {
	t.Parallel()
	seller := t.TempDir()
	f := newFollower(seller, time.Now)
	ctx, end := context.WithCancel(t.Context())
	f.follow(ctx, lease(1))
	f.follow(ctx, lease(1)) // once is enough
	dir := machineOf(seller, lease(1))
	if err := os.MkdirAll(dir, 0o700); err != nil { // after the follower began to look
		t.Fatal(err)
	}
	tell := func(text string) {
		t.Helper()
		path := filepath.Join(dir, progressFile)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	for step := 1; step <= 20; step++ {
		tell(fmt.Sprintf(`{"step": %d, "loss": %g}`, step, steady(int64(step))))
		until(t, fmt.Sprintf("step %d is heard", step), func() bool { return len(f.all()) == step })
	}
	tell(`{"step": 20, "loss": 1}`) // again: told already
	tell(`{"step": 21, "loss": 1e999}`)
	tell(`{"step": -1}`)
	tell(`half a`)
	tell(`{"step": 22}`)
	until(t, "the last is heard", func() bool { all := f.all(); return all[len(all)-1].Step == 22 })
	end()
	f.wg.Wait()
	for i, told := range f.all()[:20] {
		if told.Step != int64(i+1) || told.Loss == nil || *told.Loss != steady(told.Step) || told.Lease != lease(1) {
			t.Errorf("heard %+v", told)
		}
	}
	if n := len(f.all()); n != 21 {
		t.Errorf("%d tellings", n)
	}
}

func TestAProgressFileThatIsNoneIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link, dir, filepath.Join(dir, "none")} {
		if _, ok := readTelling(path); ok {
			t.Errorf("%s told something", path)
		}
	}
}

func TestTheMemoryIsThatOfTheJobsProcessesAndTheirDescendants(t *testing.T) {
	t.Parallel()
	const job = "01jx3kq8zr5v9m2c7t4b6n0d1e"
	c := exec.CommandContext(t.Context(), "bash", "-c", `env -i sleep 60 & wait`) // a child that drops the mark
	c.Env = append(os.Environ(), "SPOTFERRY_JOB_ID="+job)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	m := newMemory(job)
	until(t, "both are found", func() bool { return m.sample() == 2 })
	if m.peak < 1<<20 {
		t.Errorf("peak of %d bytes", m.peak)
	}
	_ = c.Cancel()
	_ = c.Wait()
	until(t, "both are gone", func() bool { return m.sample() == 0 })
	if m.peak < 1<<20 {
		t.Error("the peak was forgotten")
	}
}

func TestThisMachineIsDescribed(t *testing.T) {
	t.Parallel()
	m := ThisMachine(2)
	if m.MemoryBytes < 1<<28 || m.CPUs != 2 || m.String() == "" {
		t.Errorf("%+v", m)
	}
}
