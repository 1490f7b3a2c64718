package checkpoint_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

// TestUnreadable looks at a tree as a user who may not: root reads everything,
// so the thread that does the listing becomes nobody.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoint-1")
	writeIn(t, dir, spec{"closed/f": "x"})
	must(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)) // made by the testing package for us alone
	must(t, os.Chmod(dir+"/closed", 0))
	t.Cleanup(func() { _ = os.Chmod(dir+"/closed", 0o700) })
	e, _ := engine(t, mem.New(mem.Config{}))
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				done <- err
				return
			}
		}
		_, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1})
		done <- err
	}()
	if err := <-done; !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), `"closed"`) {
		t.Errorf("Upload = %v, want no permission for the directory by name", err)
	}
}

const fullEnv = "CHECKPOINT_TEST_FULL_DISK"

// TestMachineIsFull restores onto a disk that is too small: it says so, leaves
// nothing, does not blame the checkpoint, and works once there is room. It runs
// again in a child that may mount a file system of its own.
func TestMachineIsFull(t *testing.T) {
	if where := os.Getenv(fullEnv); where != "" {
		restoreOntoFullDisk(t, where)
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMachineIsFull$", "-test.v")
	cmd.Env = append(os.Environ(), fullEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOSPC) || strings.Contains(string(out), "--- SKIP") {
		t.Skipf("no name space of our own: %v %s", err, out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func restoreOntoFullDisk(t *testing.T, where string) {
	e, rec := engine(t, mem.New(mem.Config{}))
	save(t, e, write(t, "checkpoint-10", before), 10)
	save(t, e, write(t, "checkpoint-20", spec{"a": string(storetest.Content(600_000))}), 20)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skipf("making mounts private: %v", err)
	}
	if err := unix.Mount("tmpfs", where, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting: %v", err)
	}
	must(t, os.WriteFile(where+"/ballast", storetest.Content(600_000), 0o600))
	req := checkpoint.RestoreRequest{Refs: rec.refs, Dir: where + "/ckpt"}
	got, err := e.Restore(t.Context(), req)
	if !errors.Is(err, checkpoint.ErrNoSpace) || len(got.Rejected) > 0 {
		t.Errorf("Restore = %v, rejected %v; want ErrNoSpace alone", err, got.Rejected)
	}
	if left, err := os.ReadDir(req.Dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v is left", left, err)
	}
	must(t, os.Remove(where+"/ballast"))
	if got, err := e.Restore(t.Context(), req); err != nil || got.Ref.Step != 20 {
		t.Errorf("Restore with room = step %d, %v; want 20", got.Ref.Step, err)
	}
}
