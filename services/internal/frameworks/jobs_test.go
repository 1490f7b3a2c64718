package frameworks

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// pace is what a step of a job takes longer than it has to, in seconds.
const pace = "0.1"

// jobShown is what is read of `job show`.
type jobShown struct {
	Status  string
	Detail  string
	Closed  bool
	Epochs  int
	Machine struct{ Epoch int }
	// Checkpoint is the newest that is committed.
	Checkpoint struct{ Step int }
	Timeline   []struct{ Type string }
}

// happened counts the events of a type in a job's timeline.
func (j jobShown) happened(kind string) (n int) {
	for _, e := range j.Timeline {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// record is what is read of a failover's record.
type record struct {
	N         int
	Noticed   bool
	Drill     bool
	LastStep  int   `json:"last_step"`
	LostSteps int64 `json:"lost_steps"`
	Resumed   struct{ Step int }
}

var runLine = regexp.MustCompile(`(?m)^run: \|\n`)

// submit submits a job of testdata and returns its id. first is a command that is
// run before the job's own, if it is not empty.
func (w *world) submit(name, first string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.scripts, name+".yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(w.scripts, name+"-submitted.yaml")
	if first != "" {
		text = runLine.ReplaceAll(text, []byte("run: |\n  "+strings.ReplaceAll(first, "$", "$$")+"\n"))
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(w.command("run", file, "-y", "--accept-risk", "--detach", "-o", "name",
		"--env", fmt.Sprintf("STEPS=%d", enoughSteps()), "--env", "PACE="+pace, "--env", "HF_HUB_OFFLINE=1"))
}

// trains waits until the job's newest trainer has made some steps and the job has a
// checkpoint, and returns the trainer's epoch.
func (w *world) trains(job string, steps int) (epoch int) {
	w.t.Helper()
	w.until(fmt.Sprintf("the job has trained %d steps", steps), func() bool {
		rows := w.losses(job)
		if len(rows) == 0 || rows.of(rows[len(rows)-1].Epoch) < steps {
			time.Sleep(50 * time.Millisecond)
			return false
		}
		j := ask[jobShown](w, "job", "show", job)
		if j.Closed {
			w.t.Fatalf("the job is %s (%s)\n%s", j.Status, j.Detail, w.command("job", "logs", job))
		}
		epoch = j.Machine.Epoch
		return j.Status == "running" && j.Checkpoint.Step > 0 && epoch == rows[len(rows)-1].Epoch
	})
	return epoch
}

// drill takes the job's machine away and waits until it trains elsewhere.
func (w *world) drill(job string, notice bool) record {
	w.t.Helper()
	args := []string{"job", "drill", job, "-y", "--reason", "frameworks"}
	if !notice {
		args = append(args, "--no-notice")
	}
	return ask[struct{ Record record }](w, args...).Record
}

func (w *world) cancel(job string) {
	w.t.Helper()
	w.command("job", "cancel", job, "-y", "--reason", "frameworks")
	w.over(job)
}

// over waits until a job is over and has no machine any more.
func (w *world) over(job string) (j jobShown) {
	w.t.Helper()
	w.until("the job is closed", func() bool {
		j = ask[jobShown](w, "job", "show", job)
		return j.Closed
	})
	return j
}

// losses are what a job's trainers have told so far.
func (w *world) losses(job string) curves {
	w.t.Helper()
	c, err := readCurves(w.lossesFile(job))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) lossesFile(job string) string {
	return filepath.Join(w.evidence, "losses-"+job+".jsonl")
}

// contents is what is read of `checkpoint show`.
type contents struct {
	Name     string
	Contents struct {
		Framework string
		Files     []struct{ Path string }
	}
}

// isWhole checks that the newest checkpoint was recognised for what it is, and has
// the files of all ranks.
func (w *world) isWhole(s subject, job string) {
	w.t.Helper()
	c := ask[contents](w, "checkpoint", "show", job, "newest")
	if c.Contents.Framework != s.framework {
		w.t.Errorf("%s: %s was taken for one of %q, want %q", s.name, c.Name, c.Contents.Framework, s.framework)
	}
	for _, want := range s.files {
		if !slices.ContainsFunc(c.Contents.Files, func(f struct{ Path string }) bool {
			ok, _ := path.Match(want, path.Base(f.Path))
			return ok
		}) {
			w.t.Errorf("%s: %s has no %s: %v", s.name, c.Name, want, c.Contents.Files)
		}
	}
}

// undisturbed runs a job's script in a plain shell, as fast as it goes.
func (w *world) undisturbed(s subject) curves {
	t := w.t
	t.Helper()
	began, dir := time.Now(), t.TempDir()
	c := exec.CommandContext(t.Context(), "bash", "-e", "-c", readJob(t, w.scripts, s.name).Spec.Run)
	c.Dir = w.scripts
	c.Env = append(w.env, "SPOTFERRY_CHECKPOINT_DIR="+dir, "SPOTFERRY_EVIDENCE_DIR="+dir, "HF_HUB_OFFLINE=1", fmt.Sprintf("STEPS=%d", enoughSteps()))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s in a plain shell: %v: %s", s.name, err, out[max(0, len(out)-2000):])
	}
	file := filepath.Join(dir, "losses-plain.jsonl")
	want, err := readCurves(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != enoughSteps()*s.ranks {
		t.Fatalf("%s told %d losses in a plain shell, want one of each of %d steps and %d ranks", s.name, len(want), enoughSteps(), s.ranks)
	}
	w.keep(file, s.name+"-undisturbed.jsonl")
	first, last := want.ends()
	t.Logf("%s: %d losses undisturbed, %.4f to %.4f, in %s", s.name, len(want), first, last, time.Since(began).Round(time.Second))
	return want
}

// keep copies a file to the evidence, if that is wanted.
func (w *world) keep(file, as string) {
	if *evidence == "" {
		return
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(filepath.Join(*evidence, as), b, 0o644)
	}
	if err != nil {
		w.t.Error(err)
	}
}
