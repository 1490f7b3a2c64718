package frameworktest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/framework/frameworktest"
)

// TestMain is also the writer that TestKilledChild kills.
func TestMain(m *testing.M) {
	if args := os.Getenv("FRAMEWORKTEST_ARGS"); args != "" {
		if err := frameworktest.Main(strings.Fields(args), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quietly(string) error { return nil }

// tree returns the files below a directory.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		files[strings.TrimPrefix(p, dir+"/")] = string(b)
		return err
	}))
	return files
}

func TestWritesWhatItSays(t *testing.T) {
	t.Parallel()
	for _, l := range frameworktest.Layouts() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			dir, again := t.TempDir(), t.TempDir()
			complete, points := 0, []string{}
			must(t, l.Write(dir, 3, 1, func(point string) error {
				points = append(points, point)
				if point == frameworktest.Complete {
					complete++
					if err := l.Verify(dir, 3, 1); err != nil {
						t.Errorf("at the point of completeness: %v", err)
					}
				}
				return nil
			}))
			if complete != 1 || len(points) < 10 {
				t.Errorf("%d points, %d of completeness", len(points), complete)
			}
			must(t, l.Write(again, 3, 1, quietly))
			if a, b := tree(t, dir), tree(t, again); !reflect.DeepEqual(a, b) {
				t.Errorf("two writes differ: %q and %q", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
			}
			for _, other := range []struct {
				step int64
				seed uint64
			}{{4, 1}, {3, 2}} {
				if reflect.DeepEqual(l.Files(3, 1), l.Files(other.step, other.seed)) {
					t.Errorf("step %d of seed %d has the same files", other.step, other.seed)
				}
			}
			if err := l.Verify(dir, 3, 2); err == nil {
				t.Error("a checkpoint of another seed passes")
			}
			if got, err := l.Newest(dir); err != nil && l.Adapter != "lightning" || err == nil && got != 3 {
				t.Errorf("Newest = %d, %v", got, err)
			}
		})
	}
}

func TestWritingSeesWhatIsOpen(t *testing.T) {
	t.Parallel()
	l, err := frameworktest.ByName("hf")
	must(t, err)
	dir, seen := t.TempDir(), 0
	must(t, l.Write(dir, 1, 1, func(point string) error {
		open, err := frameworktest.Writing(dir)
		must(t, err)
		if _, file, ok := strings.Cut(point, ": write "); ok {
			file, _, _ = strings.Cut(file, " +")
			if !slices.Equal(open, []string{file}) {
				t.Errorf("before %q, %q are open", point, open)
			}
			seen++
		} else if strings.Contains(point, ": create ") && len(open) > 0 {
			t.Errorf("before %q, %q are open", point, open)
		}
		return nil
	}))
	if seen == 0 {
		t.Error("no file was seen open")
	}
}

// TestKilledChild kills a real writer in the middle of a file: what it had
// written is there, and no more.
func TestKilledChild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "FRAMEWORKTEST_ARGS=-layout dcp -step 5 -lockstep -dir "+dir)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	points := bufio.NewScanner(out)
	for writes := 0; points.Scan(); {
		if strings.Contains(points.Text(), "write step-5/__1_0.distcp") {
			if writes++; writes == 2 {
				must(t, cmd.Process.Kill())
				break
			}
		}
		_, err := fmt.Fprintln(in)
		must(t, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	info, err := os.Stat(filepath.Join(dir, "step-5/__1_0.distcp"))
	if err != nil || info.Size() != 10 {
		t.Errorf("the torn file: %v, %v; want its first 10 bytes", info, err)
	}
	if err := frameworktest.Main([]string{"-layout", "nothing"}, nil, nil); err == nil {
		t.Error("a layout nobody knows is accepted")
	}
}

var errKilled = errors.New("killed")

func TestJobGoesOn(t *testing.T) {
	t.Parallel()
	l, err := frameworktest.ByName("deepspeed")
	must(t, err)
	var steps []int64
	j := frameworktest.Job{Layout: l, Dir: t.TempDir(), Seed: 3, Steps: 10, Every: 4,
		Told: func(step int64) error { steps = append(steps, step); return nil },
		At: func(point string) error {
			if strings.Contains(point, "rank 1: write global_step8/") {
				return errKilled
			}
			return nil
		}}
	if err := j.Run(t.Context()); !errors.Is(err, errKilled) {
		t.Fatalf("Run = %v, want killed", err)
	}
	j.From, j.At = j.Dir+"/global_step8", nil
	// Rank 0 has written latest, which names a checkpoint that lacks a rank.
	if err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "resuming deepspeed") {
		t.Errorf("Run from a torn checkpoint = %v", err)
	}
	must(t, os.RemoveAll(filepath.Join(j.Dir, "global_step8")))
	must(t, os.WriteFile(filepath.Join(j.Dir, "latest"), []byte("global_step4"), 0o644))
	steps = nil
	must(t, j.Run(t.Context()))
	if want := []int64{5, 6, 7, 8, 9, 10}; !slices.Equal(steps, want) {
		t.Errorf("steps after the resume %v, want %v", steps, want)
	}
	must(t, l.Verify(j.Dir, 10, 3))
}
