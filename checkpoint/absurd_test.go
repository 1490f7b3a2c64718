package checkpoint_test

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// TestAbsurdTrees: whatever a job leaves in its directory is either kept
// faithfully or refused by name. Nothing is followed out of the tree, and
// nothing makes the save wait.
func TestAbsurdTrees(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 255)
	for _, tc := range []struct {
		name  string
		spec  spec
		make  func(dir string) error
		want  error  // nil: kept bit for bit
		named string // what the refusal says
	}{
		{"an empty tree is a tree", spec{}, nil, nil, ""},
		{"a file without a byte", spec{"zero": ""}, nil, nil, ""},
		{"a name with a newline, a quote and a tab", spec{"a\n\"b\"\t": "x"}, nil, nil, ""},
		{"names in other scripts, and HTML", spec{"模型.bin": "x", "<&>\u2028": "y"}, nil, nil, ""},
		{"a name of 255 bytes", spec{long: "x", "d/" + long: "y"}, nil, nil, ""},
		{"names that differ in case only", spec{"A": "1", "a": "2"}, nil, nil, ""},
		{"names around the dot in the order of bytes", spec{"-x": "1", "!": "2", "..a": "3", ".a": "4", "a-b": "5", "a/b": "6", "a.c": "7"}, nil, nil, ""},
		{"an empty directory, and a deep one", spec{"empty/": "", strings.Repeat("d/", 60) + "leaf": "x"}, nil, nil, ""},
		{"a file that may not be written", spec{"ro": "0400 x"}, nil, nil, ""},
		{"a file that may not be touched at all, as root", spec{"none": "0000 y"}, onlyRoot, nil, ""},
		{"a directory that may not be written to", spec{"d/f": "x"}, func(d string) error { return os.Chmod(d+"/d", 0o555) }, nil, ""},
		{"a hard link is two files", spec{"a": "x"}, func(d string) error { return os.Link(d+"/a", d+"/b") }, nil, ""},
		{"a sparse file is its content", spec{}, func(d string) error { return os.WriteFile(d+"/s", nil, 0o644) }, nil, ""},
		{"links within the tree, also to nothing and to each other", spec{"a": "x", "l1": "->a", "d/l2": "->../l1", "d/l3": "->nothing", "o": "->p", "p": "->d/.."}, nil, nil, ""},

		{"a FIFO", spec{"a": "x"}, func(d string) error { return unix.Mkfifo(d+"/pipe", 0o644) }, checkpoint.ErrUnsafe, "pipe"},
		{"a socket", spec{}, func(d string) error { return unix.Mknod(d+"/sock", unix.S_IFSOCK|0o644, 0) }, checkpoint.ErrUnsafe, "sock"},
		{"a device", spec{}, func(d string) error { return unix.Mknod(d+"/null", unix.S_IFCHR|0o644, 259) }, checkpoint.ErrUnsafe, "null"},
		{"a link to the root", spec{"root": "->/"}, nil, checkpoint.ErrUnsafe, "root"},
		{"a link to a secret of the host", spec{"d/chunk": "->/etc/passwd"}, nil, checkpoint.ErrUnsafe, "d/chunk"},
		{"a link up and out", spec{"d/up": "->../../x"}, nil, checkpoint.ErrUnsafe, "d/up"},
		{"a chain of links, each harmless by itself", spec{"d/top": "->..", "out": "->d/top/../x"}, nil, checkpoint.ErrUnsafe, "out"},
		{"links in a circle", spec{"a": "->b", "b": "->a"}, nil, checkpoint.ErrUnsafe, "a"},
		{"a name that is not UTF-8", spec{"bad\xff": "x"}, nil, checkpoint.ErrUnsafe, `bad\xff`},
		{"a name with a backslash", spec{`a\b`: "x"}, nil, checkpoint.ErrUnsafe, `a\\b`},
		{"a link that is not UTF-8", spec{"l": "->\xfe"}, nil, checkpoint.ErrUnsafe, `"l"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, "checkpoint-1", tc.spec)
			if tc.make != nil {
				if err := tc.make(dir); errors.Is(err, fs.ErrPermission) {
					t.Skip("making it needs rights we do not have")
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if strings.HasPrefix(tc.name, "a sparse") {
				must(t, os.Truncate(dir+"/s", 20<<20))
			}
			s := mem.New(mem.Config{})
			e, rec := engine(t, s)
			_, err := e.Save(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
			if tc.want != nil {
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.named) {
					t.Fatalf("Save = %v, want %v naming %s", err, tc.want, tc.named)
				}
				if names := s.Names(); len(names) > 0 {
					t.Errorf("%q was sent before the refusal", names)
				}
				return
			}
			must(t, err)
			got, err := restore(t, e, rec.refs)
			must(t, err)
			t.Cleanup(func() { _ = os.Chmod(got.Path+"/d", 0o755) })
			same(t, snapshot(t, got.Path), snapshot(t, dir))
		})
	}
}

func onlyRoot(string) error {
	if os.Geteuid() != 0 {
		return fs.ErrPermission
	}
	return nil
}

func TestSpecialBitsAreDropped(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"tool": "x", "d/": ""})
	must(t, os.Chmod(dir+"/tool", 0o755|fs.ModeSetuid))
	must(t, os.Chmod(dir+"/d", 0o775|fs.ModeSetgid|fs.ModeSticky))
	e, rec := engine(t, mem.New(mem.Config{}))
	save(t, e, dir, 1)
	got, err := restore(t, e, rec.refs)
	must(t, err)
	for name, want := range map[string]fs.FileMode{"tool": 0o755, "d": 0o775 | fs.ModeDir} {
		if info, err := os.Lstat(filepath.Join(got.Path, name)); err != nil || info.Mode() != want {
			t.Errorf("%s is %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

// TestTreeMoves changes a tree while it is saved: at the first put, when it has
// been listed and one file has been read.
func TestTreeMoves(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 100_000)
	for _, tc := range []struct {
		name string
		move func(dir string) error
		want error
	}{
		{"a file that vanishes is not a crash", func(d string) error { return os.Remove(d + "/z") }, checkpoint.ErrVanished},
		{"nor is one whose directory vanishes", func(d string) error { return os.RemoveAll(d + "/y") }, checkpoint.ErrVanished},
		{"nor is the whole tree", func(d string) error { return os.RemoveAll(d) }, checkpoint.ErrVanished},
		{"one already read is missed all the same", func(d string) error { return os.Remove(d + "/a") }, checkpoint.ErrVanished},
		{"a file that grows", func(d string) error { return appendTo(d+"/z", "more") }, checkpoint.ErrChanged},
		{"one already read that grows", func(d string) error { return appendTo(d+"/a", "more") }, checkpoint.ErrChanged},
		{"a file that is cut short", func(d string) error { return os.Truncate(d+"/z", 1) }, checkpoint.ErrChanged},
		{"the file being sent, cut short", func(d string) error { return os.Truncate(d+"/a", 1<<20) }, checkpoint.ErrChanged},
		{"the file being sent, rewritten in place with its size", func(d string) error {
			return os.WriteFile(d+"/a", []byte(strings.ToUpper(big)), 0o644)
		}, checkpoint.ErrChanged},
		{"a file replaced by a link out of the tree", func(d string) error {
			return errors.Join(os.Remove(d+"/z"), os.Symlink("/etc/passwd", d+"/z"))
		}, errAny},
		{"a file replaced by a FIFO does not make us wait", func(d string) error {
			return errors.Join(os.Remove(d+"/z"), unix.Mkfifo(d+"/z", 0o644))
		}, errAny},
		{"a file replaced by a directory", func(d string) error {
			return errors.Join(os.Remove(d+"/z"), os.Mkdir(d+"/z", 0o755))
		}, checkpoint.ErrChanged},
		{"a file that appears", func(d string) error { return os.WriteFile(d+"/new", nil, 0o644) }, checkpoint.ErrChanged},
		{"a mode that changes", func(d string) error { return os.Chmod(d+"/a", 0o600) }, checkpoint.ErrChanged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, "checkpoint-1", spec{"a": big, "y/f": "x", "z": "last"})
			var moved bool
			s := mem.New(mem.Config{Plan: func(op mem.Op) mem.Fault {
				if op.Verb == mem.Put && !moved {
					moved = true
					return mem.Fault{Before: tc.move(dir)}
				}
				return mem.Fault{}
			}})
			e, rec := engine(t, s)
			_, err := e.Save(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
			if err == nil || tc.want != errAny && !errors.Is(err, tc.want) {
				t.Errorf("Save = %v, want %v", err, tc.want)
			}
			if len(rec.refs) > 0 {
				t.Error("it was committed")
			}
			for _, name := range s.Names() {
				if strings.HasSuffix(name, ".manifest") {
					t.Error("a manifest was written")
				}
				s.Edit(name, func(b []byte) []byte {
					if sum := blake3.Sum256(b); filepath.Base(name) != hex.EncodeToString(sum[:]) {
						t.Errorf("%s has other bytes than its name says", name)
					}
					return b
				})
			}
		})
	}
}

var errAny = errors.New("any error")

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
