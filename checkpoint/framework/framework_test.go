package framework_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/framework"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	sets := map[string]string{"step-5.pt": "w", "step-5.opt.pt": "o", "step-5.done": "", "step-50.pt": "w", "step-50.done": "",
		"step-6.pt": "not done", "notes.done": "", ".step-7.done": "", "step-8.done/x": ""}
	dirs := map[string]string{"epoch=3-step=1500/w": "x", "epoch=3-step=1500/DONE": "", "it_0000200/w": "x", "logs/x": "", ".hidden9/DONE": "", "5": "a file"}
	for _, tc := range []struct {
		name, marker string
		files        map[string]string
		names        []string
		complete     []string
	}{
		{"directories, by a file in them", "DONE", dirs, []string{"epoch=3-step=1500", "it_0000200"}, []string{"epoch=3-step=1500"}},
		{"sets of files, by one beside them", "*.done", sets, []string{"step-50", "step-5"}, []string{"step-50", "step-5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, tc.files)
			a := j.adapter("plain", framework.Config{Marker: tc.marker})
			var names, complete []string
			for _, c := range j.candidates(a) {
				names = append(names, c.Name)
				if ok, _ := j.settle(a, c); ok {
					complete = append(complete, c.Name)
				}
			}
			if !slices.Equal(names, tc.names) || !slices.Equal(complete, tc.complete) {
				t.Errorf("candidates %q, complete %q; want %q, %q", names, complete, tc.names, tc.complete)
			}
		})
	}
}

func TestHoldOfASet(t *testing.T) {
	t.Parallel()
	j := newJob(t, map[string]string{"step-5.pt": "w", "step-5.done": "", "step-50.pt": "x"})
	a := j.adapter("plain", framework.Config{Marker: "*.done"})
	c := j.candidates(a)[0]
	j.settle(a, c)
	must(t, a.Hold(j.root, c, ".held/step-5"))
	entries, err := os.ReadDir(j.dir + "/.held/step-5")
	if err != nil || len(entries) != 2 {
		t.Errorf("held %v, %v; want the two files", entries, err)
	}
}

// TestHoldSurvivesRotation: once held, the trainer may delete the checkpoint,
// and the save goes on; the restored tree has its own name again.
func TestHoldSurvivesRotation(t *testing.T) {
	t.Parallel()
	files := hfTree(t, 30)
	files["checkpoint-30/sub/deep/file"] = "x"
	j := newJob(t, files)
	must(t, os.Symlink("config.json", j.dir+"/checkpoint-30/link"))
	must(t, os.Chmod(j.dir+"/checkpoint-30/sub/deep", 0o555))
	a := j.adapter("hf", framework.Config{})
	c := j.candidates(a)[0]
	if err := a.Hold(j.root, c, ".held/now"); err == nil {
		t.Error("held before it was found complete")
	}
	j.settle(a, c)
	j.write(".held/now/stale", "of a killed agent")
	must(t, a.Hold(j.root, c, ".held/now"))
	must(t, os.Chmod(j.dir+"/checkpoint-30/sub/deep", 0o755)) // or only root could delete it
	must(t, os.RemoveAll(j.dir+"/checkpoint-30"))

	e, err := checkpoint.New(checkpoint.Config{Store: mem.New(mem.Config{}), Tenant: "acme", Job: "job1"})
	must(t, err)
	ref, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: j.dir, Sub: ".held/now", As: c.Name, Epoch: 1, Step: c.Step, Framework: a.Name()})
	must(t, err)
	got, err := e.Restore(t.Context(), checkpoint.RestoreRequest{Refs: []checkpoint.Ref{ref}, Dir: j.dir})
	must(t, err)
	if got.Name != "checkpoint-30" || got.Ref.Files != len(files) {
		t.Errorf("restored %q with %d files, want checkpoint-30 with %d", got.Name, got.Ref.Files, len(files))
	}
	for name, content := range files {
		if data, err := os.ReadFile(filepath.Join(j.dir, name)); err != nil || string(data) != content {
			t.Errorf("%s = %d bytes, %v", name, len(data), err)
		}
	}
	must(t, framework.Release(j.root, ".held"))
	if ok, why := j.settle(a, j.candidates(a)[0]); !ok {
		t.Errorf("what was restored is not complete: %s", why)
	}
}

// TestHoldRefuses whatever is no longer what was judged: half a rotation must
// never become a checkpoint.
func TestHoldRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		move func(dir string) error
		want error
	}{
		{"a tree being deleted", func(d string) error { return os.Remove(d + "/optimizer.pt") }, checkpoint.ErrVanished},
		{"a tree that is gone", os.RemoveAll, checkpoint.ErrVanished},
		{"a file written anew", func(d string) error {
			return errors.Join(os.Remove(d+"/config.json"), os.WriteFile(d+"/config.json", []byte("{}"), 0o644))
		}, checkpoint.ErrChanged},
		{"a file made a link to the host", func(d string) error {
			return errors.Join(os.Remove(d+"/config.json"), os.Symlink("/etc/passwd", d+"/config.json"))
		}, checkpoint.ErrChanged},
		{"a file made a FIFO", func(d string) error {
			return errors.Join(os.Remove(d+"/config.json"), unix.Mkfifo(d+"/config.json", 0o644))
		}, checkpoint.ErrChanged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, hfTree(t, 30))
			a := j.adapter("hf", framework.Config{})
			c := j.candidates(a)[0]
			j.settle(a, c)
			must(t, tc.move(j.dir+"/checkpoint-30"))
			if err := a.Hold(j.root, c, ".held"); !errors.Is(err, tc.want) {
				t.Errorf("Hold = %v, want %v", err, tc.want)
			}
			if _, err := os.Lstat(j.dir + "/.held"); err == nil {
				t.Error("half a copy is left")
			}
		})
	}
}

// TestVanishes deletes a candidate between listing and looking.
func TestVanishes(t *testing.T) {
	t.Parallel()
	j := newJob(t, hfTree(t, 30))
	a := j.adapter("hf", framework.Config{})
	c := j.candidates(a)[0]
	must(t, os.RemoveAll(j.dir+"/checkpoint-30"))
	if _, _, err := a.Complete(j.root, c); !errors.Is(err, checkpoint.ErrVanished) {
		t.Errorf("Complete = %v, want ErrVanished", err)
	}
}

func TestSetAside(t *testing.T) {
	t.Parallel()
	j := newJob(t, hfTree(t, 30), hfTree(t, 40), map[string]string{"checkpoint-50/torn": "", "runs/x": ""})
	a := j.adapter("hf", framework.Config{})
	for range 2 { // a second time has nothing to do
		_, err := framework.SetAside(j.root, a, "checkpoint-40", ".aside")
		must(t, err)
	}
	if cs := j.candidates(a); len(cs) != 1 || cs[0].Name != "checkpoint-40" {
		t.Errorf("candidates %v, want the restored one alone", cs)
	}
	for _, name := range []string{".aside/checkpoint-30/config.json", ".aside/checkpoint-50/torn", "runs/x"} {
		if _, err := os.Stat(filepath.Join(j.dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		files  map[string]string
		marker string
		want   string
	}{
		{"nothing before the first checkpoint", map[string]string{"runs/x": ""}, "", ""},
		{"Trainer by its directories", map[string]string{"checkpoint-5/x": ""}, "", "hf"},
		{"plain when there is a marker", map[string]string{"checkpoint-5/x": ""}, "DONE", "plain"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, tc.files)
			a, err := framework.Detect(j.root, framework.Config{Marker: tc.marker})
			must(t, err)
			got := ""
			if a != nil {
				got = a.Name()
			}
			if got != tc.want {
				t.Errorf("Detect = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  framework.Config
		part string
	}{
		{"hf", framework.Config{Quiet: -time.Second}, "negative"},
		{"plain", framework.Config{}, "needs a marker"},
		{"plain", framework.Config{Marker: "a/b"}, "not a file's name"},
		{"plain", framework.Config{Marker: "*"}, "not a file's name"},
		{"plain", framework.Config{Marker: ".."}, "not a file's name"},
		{"jax", framework.Config{}, "unknown framework"},
	} {
		if _, err := framework.New(tc.name, tc.cfg); err == nil || !strings.Contains(err.Error(), tc.part) {
			t.Errorf("New(%q, %+v) = %v, want %q", tc.name, tc.cfg, err, tc.part)
		}
	}
}
