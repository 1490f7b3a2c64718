package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What the previous program began, this one finishes: the state directory, the
// machines and the agents on them. deploy/previous names that program by tag and
// commit; it is built from the repository.
func TestWhatThePreviousProgramBegan(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the previous program and runs two systems for most of a minute")
	}
	t.Parallel()
	exe := previousProgram(t)
	t.Run("is finished by the same trainer under this one", func(t *testing.T) {
		t.Parallel()
		trainsOn(t, exe)
	})
	t.Run("is finished on machines of this one when its own are taken away", func(t *testing.T) {
		t.Parallel()
		movesOn(t, exe)
	})
}

// trainsOn upgrades under a training, and refuses to go back.
func trainsOn(t *testing.T, exe string) {
	s := install(t, "--scale", "60", "--divide", "10")
	c := calm{name: "calm", steps: 500, saveEvery: 25, hidden: 96, seed: 9, pace: 60 * time.Millisecond}
	s.running = beginProgram(t, exe, "", "dev", "--state", s.dir, "--evidence", s.evidence, "--scale", "60", "--divide", "10")
	until(t, "the previous dev serves", func() bool { return strings.Contains(s.running.stderr.String(), "serving on") })
	job := s.submitBy(exe, c.file())
	s.committedUnder(exe, job)
	before, step := s.trainerOf(job)
	s.running.kill()

	s.serve()
	if j := s.closed(job); j.Status != "succeeded" || j.Epochs != 1 || j.happened("job.ended") != 1 {
		t.Errorf("the job is %s (%s) after %d placements, and ended %d times", j.Status, j.Detail, j.Epochs, j.happened("job.ended"))
	}
	s.settled(job)
	r := readRecords(t, s.evidence)
	lives := r.lives(t, job)
	if len(lives) != 1 || lives[0].pid != before.PID || lives[0].start != before.Start || lives[0].steps != c.steps {
		t.Errorf("the trainers were %+v, want one that began as %+v", lives, before)
	}
	if final, _ := r.digests(t, job); final != uninterrupted(t, c.script(0)) {
		t.Errorf("the trainer ended with weights %s: want those of a run without us", final)
	}
	t.Logf("upgraded at step %d of %d; trainer %d went on", step, c.steps, before.PID)

	figures := s.figures(job)
	for _, command := range [][]string{{"dev"}, {"job", "ls"}, {"run", filepath.Join(s.dir, "none.yaml"), "-y"}} {
		p := beginProgram(t, exe, "", append(command, "--state", s.dir)...)
		until(t, "the previous program gives up", p.over)
		if code, said := p.ProcessState.ExitCode(), p.stderr.String(); code == 0 || command[0] == "dev" && !strings.Contains(said, "written by a newer Spotferry") {
			t.Errorf("the previous program's %v on the raised state: exit %d, %s", command, code, said)
		}
	}
	for what, after := range s.figures(job) {
		same(t, what, figures[what], after)
	}
}

// movesOn upgrades in a market that takes machines away all the time.
func movesOn(t *testing.T, exe string) {
	s := install(t)
	c := calm{name: "hunted", steps: 320, saveEvery: 20, hidden: 96, seed: 11, pace: 60 * time.Millisecond}
	file := filepath.Join(t.TempDir(), "hunted.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(c.file(), "use_spot: false", "use_spot: true", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.running = beginProgram(t, exe, "", "demo", "--seed", "5", "--job", file, "--state", s.dir, "--evidence", s.evidence)
	var jobs struct{ Items []jobShown }
	until(t, "the previous demo has a job", s.nowAndThen(func() bool {
		s.askBy(exe, &jobs, "job", "ls")
		return len(jobs.Items) == 1
	}))
	job := jobs.Items[0].ID
	s.committedUnder(exe, job)
	old := s.machines(job)
	s.running.kill()

	s.serve()
	j := s.closed(job)
	r := readRecords(t, s.evidence)
	lives := r.lives(t, job)
	taken := 0
	for _, k := range r.kills {
		for _, m := range old {
			if k.Token == filepath.Base(m.dir) && k.PID != 0 {
				taken++
				t.Logf("the previous program's machine %s was taken away after the upgrade, %s", k.Token, k.Kind)
			}
		}
	}
	if j.Status != "succeeded" || j.happened("job.ended") != 1 || taken == 0 || j.Epochs < 2 || len(lives) < 2 {
		t.Errorf("the job is %s (%s) after %d placements, and ended %d times; %d of the previous program's machines were taken away",
			j.Status, j.Detail, j.Epochs, j.happened("job.ended"), taken)
	}
	if final, _ := r.digests(t, job); final != j.Checkpoint.Weights || final != uninterrupted(t, c.script(0)) {
		t.Errorf("the last trainer ended with weights %s, the job with %s: want those of a run without us", final, j.Checkpoint.Weights)
	}
	s.settled(job)
}

// previousProgram builds the program that deploy/previous names.
func previousProgram(t *testing.T) string {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("CI") == "true" {
		missing = t.Fatalf
	}
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "previous"))
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(b)) // a tag, and its commit for copies that have no tags
	dir := t.TempDir()
	source, exe := filepath.Join(dir, "source.tar"), filepath.Join(dir, "spotferry")
	for i, name := range names {
		c := exec.CommandContext(t.Context(), "git", "archive", "-o", source, name)
		c.Dir = filepath.Join("..", "..")
		out, err := c.CombinedOutput()
		if err == nil {
			break
		}
		if i+1 == len(names) {
			missing("the repository here cannot give the previous program, %s: %v: %s", names, err, out)
		}
	}
	for _, c := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "tar", "-xf", source, "-C", dir),
		exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", exe, "./services/spotferry"),
	} {
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("building the previous program, %s: %v: %s", names, err, out)
		}
	}
	return exe
}

// nowAndThen asks only twice a second: each question costs a process.
func (s *installation) nowAndThen(holds func() bool) func() bool {
	var asked time.Time
	return func() bool {
		if time.Since(asked) < 500*time.Millisecond {
			return false
		}
		asked = time.Now()
		return holds()
	}
}

// askBy asks with another program than this one. What it cannot be answered leaves v as it was.
func (s *installation) askBy(exe string, v any, args ...string) {
	s.t.Helper()
	p := beginProgram(s.t, exe, "", append(args, "--state", s.dir, "-o", "json")...)
	until(s.t, strings.Join(args, " ")+" ends", p.over)
	_ = json.Unmarshal([]byte(p.stdout.String()), v)
}

// submitBy submits a job file with another program than this one.
func (s *installation) submitBy(exe, text string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	p := beginProgram(s.t, exe, "", "run", file, "-y", "--accept-risk", "--detach", "-o", "name", "--state", s.dir)
	until(s.t, "the job is submitted", p.over)
	if code := p.ProcessState.ExitCode(); code != 0 {
		s.t.Fatalf("run exited with %d: %s", code, p.stderr)
	}
	return strings.TrimSpace(p.stdout.String())
}

// committedUnder waits until a system of another program has committed a checkpoint of a job.
func (s *installation) committedUnder(exe, job string) {
	s.t.Helper()
	until(s.t, "a checkpoint is committed", s.nowAndThen(func() bool {
		var j jobShown
		s.askBy(exe, &j, "job", "show", job)
		return j.Checkpoint.Step > 0
	}))
}
