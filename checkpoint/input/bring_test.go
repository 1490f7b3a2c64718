package input

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilesComeWithOrWithoutACache(t *testing.T) {
	t.Parallel()
	for name, bend := range map[string]func(*File){
		"as listed":                 nil,
		"of unknown size":           func(f *File) { f.Size = -1 },
		"that have no key":          func(f *File) { f.Key = "" },
		"that come only as a whole": func(f *File) { f.Whole = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &memory{bend: bend, files: map[string][]byte{"a": content(1, 10), "deep/er/b": content(2, partSize+5), "empty": nil}}
			dir := t.TempDir()
			for _, machine := range []machine{newMachine(t, nil), newMachine(t, withCache(t, dir, nil)), newMachine(t, withCache(t, dir, nil))} {
				got, err := machine.Mount(t.Context(), m, machine.root, "data")
				if err != nil || got.Files != 3 {
					t.Fatalf("Mount = %+v, %v", got, err)
				}
				for name, data := range m.files {
					machine.has(t, "data/"+name, data)
				}
				left, err := os.ReadDir(machine.cfg.Scratch)
				for _, l := range left {
					t.Errorf("left behind: %s", l.Name())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestAFileThatIsASourceIsTheMount(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"": content(1, 10)}}
	machine := newMachine(t, nil)
	if _, err := machine.Mount(t.Context(), m, machine.root, "models/tiny.bin"); err != nil {
		t.Fatal(err)
	}
	machine.has(t, "models/tiny.bin", m.files[""])
}

func TestAnInterruptedFetchGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	const size = 5*partSize + 7
	m := &memory{files: map[string][]byte{"big": content(3, size), "small": content(4, 100)}}
	machine := newMachine(t, func(c *Config) { c.Workers = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	m.fault = func(name string, off int64) error {
		if name == "big" && off == 3*partSize {
			cancel()
			return context.Canceled
		}
		return nil
	}
	if _, err := machine.Mount(ctx, m, machine.root, "data"); !errors.Is(err, context.Canceled) {
		t.Fatalf("Mount = %v", err)
	}
	if _, err := machine.root.Lstat("data/big"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("half a file has its name")
	}
	m.fault = nil
	if _, err := machine.Mount(t.Context(), m, machine.root, "data"); err != nil {
		t.Fatal(err)
	}
	machine.has(t, "data/big", m.files["big"])
	machine.has(t, "data/small", m.files["small"])
	// The small one may have been on its way when everything was cancelled.
	asked := m.bytes
	if asked != size+100 && asked != size+200 {
		t.Errorf("%d bytes were asked for, want each of the large file once: %d", asked, size+100)
	}
	if _, err := machine.Mount(t.Context(), m, machine.root, "data"); err != nil || m.bytes != asked {
		t.Errorf("what is in place was fetched again: %d bytes, %v", m.bytes-asked, err)
	}
}

func TestAPartThatIsNotWhatTheJournalSaysIsFetchedAgain(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"big": content(3, 3*partSize)}}
	machine := newMachine(t, func(c *Config) { c.Workers = 1 })
	broken := errors.New("broken")
	m.fault = func(_ string, off int64) error {
		if off == 2*partSize {
			return broken
		}
		return nil
	}
	if _, err := machine.Mount(t.Context(), m, machine.root, "data"); !errors.Is(err, broken) {
		t.Fatalf("Mount = %v", err)
	}
	list, _ := m.List(t.Context())
	path := stagePath(machine.cfg.Scratch, list[0])
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), partSize+9); err != nil {
		t.Fatal(err)
	}
	f.Close()
	journal, err := os.OpenFile(path+".parts", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"7 00\n", "-1 aa\n", "not a line\n", "2 " + strings.Repeat("0", 64) + "\n", "1 ab"} {
		if _, err := journal.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	journal.Close()
	m.fault, m.bytes = nil, 0
	if _, err := machine.Mount(t.Context(), m, machine.root, "data"); err != nil {
		t.Fatal(err)
	}
	machine.has(t, "data/big", m.files["big"])
	if m.bytes != 2*partSize {
		t.Errorf("%d bytes were fetched, want the damaged part and the missing one", m.bytes)
	}
}

func TestTroubleThatPassesIsOvercome(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"a": content(1, 2*partSize)}}
	machine := newMachine(t, nil)
	left := 3
	m.fault = func(string, int64) error {
		if left--; left >= 0 {
			return errors.New("a moment")
		}
		return nil
	}
	if _, err := machine.Mount(t.Context(), m, machine.root, "."); err != nil {
		t.Fatal(err)
	}
	machine.has(t, "a", m.files["a"])
}

func TestWhatCannotBePlacedIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		files []string
		say   string
	}{
		{"a name that climbs out", []string{"../x"}, `"../x" is no name`},
		{"a name that climbs out further down", []string{"a/../../x"}, "is no name"},
		{"a name from the root", []string{"/etc/x"}, "is no name"},
		{"an empty part", []string{"a//b"}, "is no name"},
		{"a zero", []string{"a\x00b"}, "is no name"},
		{"a part longer than names are", []string{strings.Repeat("n", 241)}, "too long"},
		{"a file that is a directory", []string{"a", "a/b/c"}, `"a" is a file and a directory`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := &memory{files: map[string][]byte{}}
			for _, f := range tc.files {
				m.files[f] = []byte("x")
			}
			machine := newMachine(t, nil)
			_, err := machine.Mount(t.Context(), m, machine.root, "data")
			if r, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(r.What, tc.say) || r.Remedy == "" || m.opens > 0 {
				t.Errorf("Mount = %v, after %d requests", err, m.opens)
			}
		})
	}
}

func TestNothingLeadsOutOfTheRoot(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"x": []byte("evil")}}
	machine := newMachine(t, nil)
	outside := t.TempDir()
	if err := machine.root.Symlink(outside, "link"); err != nil {
		t.Fatal(err)
	}
	if _, err := machine.Mount(t.Context(), m, machine.root, "link"); err == nil {
		t.Error("it went through a link that leads out")
	}
	if found, err := os.ReadDir(outside); err != nil || len(found) > 0 {
		t.Errorf("outside there is %v, %v", found, err)
	}
}

func TestADirectoryInAFilesPlaceIsRefused(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"": []byte("x")}}
	for _, bend := range []func(*Config){nil, withCache(t, t.TempDir(), nil)} {
		machine := newMachine(t, bend)
		if err := machine.root.MkdirAll("data/in", 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := machine.Mount(t.Context(), m, machine.root, "data")
		if _, ok := errors.AsType[*Refusal](err); !ok {
			t.Errorf("Mount = %v", err)
		}
	}
}

func TestWhatTheDiskCannotHoldIsRefusedBeforeItIsFetched(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"a": content(1, 1000)}}
	machine := newMachine(t, func(c *Config) { c.Room = func(string) (int64, error) { return 999, nil } })
	_, err := machine.Mount(t.Context(), m, machine.root, ".")
	if r, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(r.Remedy, "disk_size") || m.opens > 0 {
		t.Errorf("Mount = %v", err)
	}
}

func TestAWrongSumIsRefusedOnceItIsSureToBeWrong(t *testing.T) {
	t.Parallel()
	data := content(1, partSize+1)
	right := sha256.Sum256(data)
	for name, sum := range map[string]string{"right": hex.EncodeToString(right[:]), "wrong": strings.Repeat("ab", 32)} {
		m := &memory{files: map[string][]byte{"": data}, bend: func(f *File) { f.Sum = "sha256:" + sum }}
		machine := newMachine(t, withCache(t, t.TempDir(), nil))
		_, err := machine.Mount(t.Context(), m, machine.root, "x")
		if name == "right" {
			if err != nil {
				t.Errorf("Mount = %v", err)
			}
			continue
		}
		if _, ok := errors.AsType[*Refusal](err); ok || err == nil {
			t.Errorf("the first time: %v", err)
		}
		_, err = machine.Mount(t.Context(), m, machine.root, "x")
		if r, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(r.What, hex.EncodeToString(right[:])) {
			t.Errorf("the second time: %v", err)
		}
		if _, err := machine.root.Lstat("x"); !errors.Is(err, fs.ErrNotExist) {
			t.Error("it was placed")
		}
	}
}

func TestAFullDiskOfTheCacheIsNoTroubleOfTheJob(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"a": content(1, 1000)}}
	dir := t.TempDir()
	machine := newMachine(t, withCache(t, dir, nil))
	// The first write is into the cache, and has no room there.
	failed := false
	m.fault = func(string, int64) error {
		if !failed {
			failed = true
			return unix.ENOSPC
		}
		return nil
	}
	if _, err := machine.Mount(t.Context(), m, machine.root, "."); err != nil {
		t.Fatal(err)
	}
	machine.has(t, "a", m.files["a"])
	if left, err := filepath.Glob(filepath.Join(dir, "acme", "partial", "*")); err != nil || len(left) > 0 {
		t.Errorf("the cache has %v left, %v", left, err)
	}
}
