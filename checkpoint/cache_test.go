package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// settle waits until the clock that stamps files has moved on: what is written
// before is told from what is written after.
func settle(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	deadline := time.Now().Add(10 * time.Second)
	start := stampNow(t, filepath.Join(dir, "first"))
	for now := start; now.Sub(start) < 120*time.Millisecond; now = stampNow(t, filepath.Join(dir, "next")) {
		if time.Now().After(deadline) {
			t.Fatal("the file system's clock stands still")
		}
		time.Sleep(5 * time.Millisecond) // the kernel's clock is not virtual
	}
}

func stampNow(t *testing.T, name string) time.Time {
	must(t, os.WriteFile(name, nil, 0o600))
	info, err := os.Stat(name)
	must(t, err)
	return info.ModTime()
}

// looking is an engine whose reading is counted.
type looking struct {
	*checkpoint.Engine
	t *testing.T
}

// save saves and returns how many bytes of files were read for it.
func (l looking) save(dir string, step int64) int64 {
	l.t.Helper()
	before := l.Progress().Read
	save(l.t, l.Engine, dir, step)
	return l.Progress().Read - before
}

func lookingAt(t *testing.T, s checkpoint.Store, cfg checkpoint.Config) looking {
	t.Helper()
	cfg.Store, cfg.Tenant, cfg.Job = s, "acme", "job1"
	cfg.Committer = &record{store: s, epoch: 1}
	e, err := checkpoint.New(cfg)
	must(t, err)
	return looking{e, t}
}

// TestUnchangedFilesAreNotRead changes one file in every way that an edit can
// hide, and expects it to be read again, and only it.
func TestUnchangedFilesAreNotRead(t *testing.T) {
	t.Parallel()
	old, edited := large("old"), large("new")
	size := int64(len(old))
	for _, tc := range []struct {
		name string
		edit func(file string) error
		read int64
	}{
		{"nothing is read of files that have not changed", func(string) error { return nil }, 0},
		{"an edit of the same size", func(f string) error { return os.WriteFile(f, []byte(edited), 0o644) }, size},
		{"an edit of the same size with its time put back", putBack(func(f string) error { return os.WriteFile(f, []byte(edited), 0o644) }), size},
		{"one through a shared mapping, with its time put back", putBack(func(f string) error { return mapped(f, edited) }), size},
		{"one of a byte in the middle, with its time put back", putBack(func(f string) error { return poke(f, 600_000, "X") }), size},
		{"another file in its place, with size and time of the first", putBack(func(f string) error {
			return errors.Join(os.WriteFile(f+".tmp", []byte(edited), 0o644), os.Rename(f+".tmp", f))
		}), size},
		{"a touch without an edit is read, and nothing of it sent", func(f string) error { return os.Chtimes(f, time.Now(), time.Now()) }, size},
		{"so is a hard link that someone made", func(f string) error { return os.Link(f, filepath.Dir(filepath.Dir(f))+"/held") }, size},
		{"a file written a moment before the save is not trusted afterwards", nil, size},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "checkpoint-1") // on a disk: tmpfs does not stamp what mappings do
			writeIn(t, dir, spec{"weights": old, "frozen": large("frozen")})
			settle(t)
			s := mem.New(mem.Config{})
			e := lookingAt(t, s, checkpoint.Config{})
			e.save(dir, 10)
			before := e.Progress().Sent
			if tc.edit == nil {
				for step := int64(11); ; step++ { // reads it in the very tick of its last change, if the machine is not too busy
					written := time.Now()
					must(t, os.WriteFile(dir+"/weights", []byte(edited), 0o644))
					e.save(dir, step)
					if time.Since(written) < 40*time.Millisecond {
						break
					}
					if step == 19 {
						t.Skip("this machine is too busy to read a file within 40 ms of its writing")
					}
				}
				before = e.Progress().Sent
			} else {
				must(t, tc.edit(filepath.Join(dir, "weights")))
			}
			if read := e.save(dir, 20); read != tc.read {
				t.Errorf("%d bytes were read, want %d", read, tc.read)
			}
			data, err := os.ReadFile(dir + "/weights")
			must(t, err)
			if sent := e.Progress().Sent - before; (sent > 0) != (string(data) != old && tc.edit != nil) {
				t.Errorf("%d bytes were sent", sent)
			}
			got, err := restore(t, e.Engine, e.refs())
			must(t, err)
			same(t, snapshot(t, got.Path), snapshot(t, dir))
		})
	}
}

func (l looking) refs() []checkpoint.Ref {
	return l.Config().Committer.(*record).refs
}

// putBack makes an edit that leaves size and time of modification as they were.
func putBack(edit func(string) error) func(string) error {
	return func(f string) error {
		was, err := os.Stat(f)
		if err != nil {
			return err
		}
		return errors.Join(edit(f), os.Chtimes(f, was.ModTime(), was.ModTime()))
	}
}

func poke(f string, off int64, text string) error {
	file, err := os.OpenFile(f, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(text), off)
	return errors.Join(err, file.Close())
}

// mapped writes through a shared mapping, to pages that are clean.
func mapped(f, text string) error {
	file, err := os.OpenFile(f, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return err
	}
	b, err := unix.Mmap(int(file.Fd()), 0, len(text), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(b, text)
	return unix.Munmap(b)
}

// TestRehash: what no time of a file shows, as an edit below the file system
// would not, is found at the latest by the upload that reads everything.
func TestRehash(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"weights": large("w")})
	settle(t)
	e := lookingAt(t, mem.New(mem.Config{}), checkpoint.Config{Rehash: 3})
	var read []bool
	for step := range int64(7) {
		read = append(read, e.save(dir, step) > 0)
	}
	for i, want := range []bool{true, false, true, false, false, true, false} {
		if read[i] != want {
			t.Errorf("upload %d read the tree: %v, want %v", i+1, read[i], want)
		}
	}
}

// TestCacheFile: a new process knows what the last one has read, and is not
// misled by a file that is not its own.
func TestCacheFile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(file string) error
		job   string
		knows bool
	}{
		{"a new process reads nothing again", nil, "job1", true},
		{"a damaged file is ignored", func(f string) error { return poke(f, 200, "XXXX") }, "job1", false},
		{"one cut short", func(f string) error { return os.Truncate(f, 100) }, "job1", false},
		{"an empty one", func(f string) error { return os.Truncate(f, 0) }, "job1", false},
		{"a directory in its place", func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) }, "job1", false},
		{"another job's under our name", func(f string) error { return os.Rename(f, strings.TrimSuffix(f, "1")+"2") }, "job2", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, "checkpoint-1", spec{"weights": large("w"), "little": "x"})
			settle(t)
			where, s := t.TempDir(), mem.New(mem.Config{})
			first := lookingAt(t, s, checkpoint.Config{CacheDir: where})
			first.save(dir, 10)
			files, err := os.ReadDir(where)
			must(t, err)
			if len(files) != 1 {
				t.Fatalf("%d files in the cache's directory, want one", len(files))
			}
			if tc.spoil != nil {
				must(t, tc.spoil(filepath.Join(where, files[0].Name())))
			}
			next, err := checkpoint.New(checkpoint.Config{Store: s, Tenant: "acme", Job: tc.job, CacheDir: where})
			must(t, err)
			f, err := next.Predict(checkpoint.SaveRequest{Dir: dir, Epoch: 1})
			must(t, err)
			if (f.Unread == 0) != tc.knows {
				t.Errorf("%d bytes count as unread, want it known: %v", f.Unread, tc.knows)
			}
			if _, err := next.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 20}); err != nil {
				t.Errorf("Upload = %v", err)
			}
		})
	}
}

// TestForeignFileSystem: a file system whose server keeps the time is read each
// time. /proc is one that is at hand; its files say that they are empty, so only
// the rule is looked at.
func TestForeignFileSystem(t *testing.T) {
	t.Parallel()
	var st syscall.Statfs_t
	must(t, syscall.Statfs("/proc", &st))
	if st.Type == unix.TMPFS_MAGIC || st.Type == unix.EXT4_SUPER_MAGIC {
		t.Skip("no foreign file system at hand")
	}
	f, err := os.Open("/proc/self/stat")
	must(t, err)
	defer f.Close()
	if checkpoint.KeepsTime(f) {
		t.Error("/proc counts as a file system that stamps every change")
	}
}
