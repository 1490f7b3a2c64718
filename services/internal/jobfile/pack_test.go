package jobfile

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tree makes a directory from lines "path mode text", "path/", "path -> target".
func tree(t *testing.T, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, line := range lines {
		name, text, _ := strings.Cut(line, "=")
		full := filepath.Join(dir, name)
		link, to, isLink := strings.Cut(line, " -> ")
		var err error
		switch {
		case isLink:
			full = filepath.Join(dir, link)
			if err = os.MkdirAll(filepath.Dir(full), 0o755); err == nil {
				err = os.Symlink(to, full)
			}
		case strings.HasSuffix(line, "/"):
			err = os.MkdirAll(full, 0o755)
		default:
			if err = os.MkdirAll(filepath.Dir(full), 0o755); err == nil {
				err = os.WriteFile(full, []byte(text), 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func pack(t *testing.T, dir string) (names []string, raw []byte) {
	t.Helper()
	var b bytes.Buffer
	files, err := Pack(context.Background(), dir, &b)
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.Clone(b.Bytes())
	regular := 0
	for tr := tar.NewReader(&b); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(time.Unix(0, 0)) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s keeps a time or an owner: %v %d %q", h.Name, h.ModTime, h.Uid, h.Uname)
		}
		if h.Typeflag == tar.TypeReg {
			regular++
		}
		names = append(names, fmt.Sprintf("%s %o %s", h.Name, h.Mode, h.Linkname))
	}
	if regular != files {
		t.Errorf("Pack says %d files, the archive has %d", files, regular)
	}
	return names, raw
}

func TestPackKeepsNamesModesAndInwardLinks(t *testing.T) {
	t.Parallel()
	dir := tree(t, "b=2", "a/x.sh=#!", "a/in -> ../b", "a/dangling -> nothing", "empty/", ".git/config=x", ".hidden=h", "a/.git/x=y", "näme\nx=n")
	if err := os.Chmod(filepath.Join(dir, "a/x.sh"), 0o4755); err != nil {
		t.Fatal(err)
	}
	names, _ := pack(t, dir)
	want := []string{".hidden 644 ", "a/ 755 ", "a/dangling 777 nothing", "a/in 777 ../b", "a/x.sh 755 ", "b 644 ", "empty/ 755 ", "näme\nx 644 "}
	if fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("packed %q\nwant %q", names, want)
	}
}

func TestPackGivesTheSameBytesForTheSameFiles(t *testing.T) {
	t.Parallel()
	lines := []string{"z=1", "a/b/c=2", "a-b=3", "a.b=4", "ü=5"}
	_, first := pack(t, tree(t, lines...))
	dir := tree(t, "ü=5", "a.b=4", "a-b=3", "a/b/c=2", "z=1")
	if err := os.Chtimes(filepath.Join(dir, "z"), time.Unix(1, 0), time.Unix(1e9, 5)); err != nil {
		t.Fatal(err)
	}
	if _, second := pack(t, dir); !bytes.Equal(first, second) {
		t.Error("the same files written in another order and at another time give other bytes")
	}
}

func TestPackRefusesWhatCannotTravel(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for _, tc := range []struct {
		name string
		make func(t *testing.T, dir string)
		want string
	}{
		{"a link to somewhere else", func(t *testing.T, dir string) { symlink(t, outside, dir+"/l") }, "which is outside"},
		{"a link above", func(t *testing.T, dir string) { symlink(t, "../x", dir+"/l") }, "which is outside"},
		{"a chain of links that looks inside", func(t *testing.T, dir string) {
			mkdir(t, dir+"/a")
			symlink(t, "..", dir+"/a/d")
			symlink(t, "a/d/../y", dir+"/l")
		}, "which is outside"},
		{"a pipe", func(t *testing.T, dir string) {
			if err := syscall.Mkfifo(dir+"/p", 0o644); err != nil {
				t.Fatal(err)
			}
		}, "named pipe"},
		{"a socket", func(t *testing.T, dir string) {
			l, err := net.Listen("unix", dir+"/s")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "socket"},
		{"a terabyte with nothing in it", func(t *testing.T, dir string) {
			if err := os.Truncate(touch(t, dir+"/f"), 1<<40); err != nil {
				t.Fatal(err)
			}
		}, "larger than 1024 MiB"},
		{"an ignore file that is a pipe", func(t *testing.T, dir string) {
			if err := syscall.Mkfifo(dir+"/.gitignore", 0o644); err != nil {
				t.Fatal(err)
			}
		}, ".gitignore"},
		{"no directory", func(t *testing.T, dir string) {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
		}, "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "w") // short: a socket's path has to be
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			tc.make(t, dir)
			if _, err := Pack(context.Background(), dir, io.Discard); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Pack = %v, want %q", err, tc.want)
			}
		})
	}
}

func symlink(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, at string) {
	t.Helper()
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
}

func touch(t *testing.T, at string) string {
	t.Helper()
	if err := os.WriteFile(at, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}

// growing is a writer that lets the file being packed grow.
type growing struct{ file string }

func (g growing) Write(p []byte) (int, error) {
	f, err := os.OpenFile(g.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	_, err = f.WriteString("more")
	return len(p), err
}

func TestPackSeesAFileThatGrows(t *testing.T) {
	t.Parallel()
	dir := tree(t, "log=x")
	_, err := Pack(context.Background(), dir, growing{filepath.Join(dir, "log")})
	if err == nil || !strings.Contains(err.Error(), `"log" changed while it was read`) {
		t.Errorf("Pack = %v", err)
	}
}

func TestPackEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Pack(ctx, tree(t, "a=1"), io.Discard); err == nil {
		t.Error("packed after the end")
	}
}

func TestPackLeavesOutWhatIsIgnored(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		files []string
		want  string
	}{
		{"secrets and data by .gitignore", []string{".gitignore=.env\n*.bin\n!keep.bin\ndata/\n", ".env=s", "a.bin=", "keep.bin=", "data/x=", "src/.env=s", "src/m.py="}, ".gitignore keep.bin src/ src/m.py"},
		{"patterns tied to their directory", []string{".gitignore=/out\ndoc/*.txt\n", "out=", "src/out=", "doc/a.txt=", "src/doc/a.txt="}, ".gitignore doc/ src/ src/doc/ src/doc/a.txt src/out"},
		{"directories at any depth", []string{".gitignore=**/cache/**\na/**/z\n", "cache/x=", "b/cache/y=", "a/z=", "a/b/c/z=", "a/b/y="}, ".gitignore a/ a/b/ a/b/c/ a/b/y b/ b/cache/ cache/"},
		{"a .gitignore below", []string{"sub/.gitignore=*.log\n!important.log\n", "x.log=", "sub/x.log=", "sub/important.log="}, "sub/ sub/.gitignore sub/important.log x.log"},
		{"classes, question marks and escapes", []string{".gitignore=[a-c]1\n[!x]2\n?3\n\\#4\n\\!5\ne\\*\n", "a1=", "d1=", "x2=", "y2=", "z3=", "zz3=", "#4=", "!5=", "e*=", "ee="}, ".gitignore d1 ee x2 zz3"},
		{"comments and empty lines", []string{".gitignore=# x\n\n   \nx \n", "# x=", "x="}, "# x .gitignore"},
		{".skyignore instead of .gitignore", []string{".skyignore=*.bin\n", ".gitignore=*.py\n", "a.bin=", "a.py="}, ".gitignore .skyignore a.py"},
		{"nothing taken back below an ignored directory", []string{".gitignore=data\n!data/x\n", "data/x="}, ".gitignore"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			names, _ := pack(t, tree(t, tc.files...))
			for i := range names {
				names[i] = names[i][:strings.LastIndexByte(strings.TrimSuffix(names[i], " "), ' ')]
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("packed %q, want %q", got, tc.want)
			}
		})
	}
}
