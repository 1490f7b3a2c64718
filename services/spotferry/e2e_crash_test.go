package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// quick is an installation for jobs of half a minute: no reclaims happen to a
// machine on demand, and timers are a tenth.
func quick(t *testing.T, flags ...string) *installation {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the whole system for most of a minute")
	}
	t.Parallel()
	return install(t, append(flags, "--scale", "60", "--divide", "10")...)
}

// rowsOf are what a job's trainers have recorded so far.
func (s *installation) rowsOf(job string) (rows []trained) {
	for _, r := range readRows[trained](s.t, filepath.Join(s.evidence, "trainer.jsonl")) {
		if r.Job == job {
			rows = append(rows, r)
		}
	}
	return rows
}

// trainerOf is the process that trained last.
func (s *installation) trainerOf(job string) (p proc, step int) {
	rows := s.rowsOf(job)
	if len(rows) == 0 {
		return proc{}, 0
	}
	r := rows[len(rows)-1]
	return proc{r.PID, r.PIDStart}, r.Step
}

func TestDevKilledTwentyTimesWhileAJobRuns(t *testing.T) {
	s := quick(t)
	job := ""
	c := calm{name: "calm", steps: 600, saveEvery: 25, hidden: 128, seed: 7, pace: 60 * time.Millisecond}
	log := filepath.Join(s.evidence, "trainer.jsonl")
	recorded := func(what string) func() bool {
		return func() bool { b, _ := os.ReadFile(log); return strings.Contains(string(b), what) }
	}
	trained := func(step int) func() bool { return recorded(fmt.Sprintf(`"step":%d,`, step)) }
	last := trained(c.steps)
	// saving waits for a save that begins from now on, or for the end of training.
	saving := func(phase string) func() bool {
		n := -1
		return func() bool {
			b, _ := os.ReadFile(log)
			now := strings.Count(string(b), `"phase":"`+phase+`"`)
			if n < 0 {
				n = now
			}
			return now > n || last()
		}
	}
	objects := -1
	shipping := func() bool { // something is in the store that was not when it was first looked at
		n := 0
		_ = filepath.WalkDir(filepath.Join(s.dir, "store"), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return nil
		})
		if objects < 0 {
			objects = n
		}
		return n > objects || last()
	}
	after := func(d time.Duration) func() bool {
		var at time.Time
		return func() bool {
			if at.IsZero() {
				at = time.Now().Add(d)
			}
			return time.Now().After(at)
		}
	}
	for i, k := range []struct {
		name string
		up   bool // dev is waited for before the moment is
		when func() bool
	}{
		{"right after the submission was answered", true, func() bool { job = s.submit(c); return true }},
		{"as soon as it serves again", true, after(0)},
		{"while it starts", false, after(60 * time.Millisecond)},
		{"when a machine is bought", false, func() bool {
			bought, _ := filepath.Glob(filepath.Join(s.dir, "seller", "instances", job+"-1-*"))
			return len(bought) > 0
		}},
		{"while the machine boots", true, func() bool { return len(s.machines(job)) > 0 }},
		{"when the agent has been started", true, func() bool { m := s.machines(job); return len(m) > 0 && m[0].Agent.PID > 0 }},
		{"while the job is prepared", true, func() bool {
			m := s.machines(job)
			return len(m) > 0 && exists(filepath.Join(m[0].dir, "machine", "checkpoints")) || recorded(job)()
		}},
		{"at the first step", true, recorded(job)},
		{"as a save begins", true, saving("save-begin")},
		{"as another begins", false, saving("save-begin")},
		{"as a save has ended", true, saving("save-end")},
		{"while a save is shipped", true, shipping},
		{"a third of the way", true, trained(200)},
		{"while it starts once more", false, after(150 * time.Millisecond)},
		{"while it opens its streams", false, after(250 * time.Millisecond)},
		{"after some peace", true, trained(330)},
		{"as a late save begins", true, saving("save-begin")},
		{"as the last step is trained", true, last},
		{"when the trainer has ended", true, func() bool { p, _ := s.trainerOf(job); return !p.alive() }},
		{"while the end is accounted for", true, after(20 * time.Millisecond)},
	} {
		if k.up {
			s.serve()
		} else {
			s.launch()
		}
		until(t, fmt.Sprintf("kill %d, %s", i+1, k.name), k.when)
		_, step := s.trainerOf(job)
		t.Logf("kill %2d, %s: step %d", i+1, k.name, step)
		s.running.kill()
	}
	s.serve()
	j := s.closed(job)
	if j.Status != "succeeded" || j.Epochs != 1 || j.happened("job.ended") != 1 || j.happened("job.submitted") != 1 {
		t.Errorf("the job is %s (%s) after %d placements, and ended %d times", j.Status, j.Detail, j.Epochs, j.happened("job.ended"))
	}
	s.settled(job)
	r := readRecords(t, s.evidence)
	lives := r.lives(t, job)
	if len(lives) != 1 || lives[0].first != 1 || lives[0].last != c.steps || lives[0].steps != c.steps {
		t.Errorf("the trainers were %+v, want one that trains %d steps", lives, c.steps)
	}
	if final, _ := r.digests(t, job); final != j.Checkpoint.Weights || final != uninterrupted(t, c.script(0)) {
		t.Errorf("the trainer ended with weights %s, the job with %s: want those of a run without us", final, j.Checkpoint.Weights)
	}
}

// The market of the demonstration, and nobody at home half of the time.
func TestDevKilledWhileMachinesAreTakenAway(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the whole system for most of a minute")
	}
	t.Parallel()
	s := install(t)
	c := calm{name: "hunted", steps: 320, saveEvery: 20, hidden: 96, seed: 11, pace: 60 * time.Millisecond}
	file := filepath.Join(t.TempDir(), "hunted.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(c.file(), "use_spot: false", "use_spot: true", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.running = begin(t, "demo", "--seed", "5", "--job", file, "--state", s.dir, "--evidence", s.evidence)
	until(t, "the demo's job trains", func() bool { return exists(filepath.Join(s.evidence, "trainer.jsonl")) })
	s.running.kill()
	for _, peace := range []time.Duration{900, 300, 1800, 600, 1200, 100, 2500, 700, 1500, 400} { // milliseconds
		s.serve()
		gone := time.Now().Add(peace * time.Millisecond)
		until(t, "its time is over", func() bool { return time.Now().After(gone) })
		s.running.kill()
	}
	s.serve()
	ids := ask1[struct{ Items []jobShown }](s, "job", "ls").Items
	if len(ids) != 1 {
		t.Fatalf("there are %d jobs, want one", len(ids))
	}
	job := ids[0].ID
	j := s.closed(job)
	r := readRecords(t, s.evidence)
	lost := int64(0)
	for _, n := range lostBefore(r.lives(t, job)) {
		lost += n
	}
	t.Logf("%d placements, %d reclaims, %d rows of kills; %d steps lost by our records, %d by the trainers'", j.Epochs, j.Reclaims, len(r.kills), j.LostSteps, lost)
	if j.Status != "succeeded" || j.happened("job.ended") != 1 || j.Reclaims < 1 || j.LostSteps > lost {
		t.Errorf("the job is %s (%s) after %d reclaims, and ended %d times", j.Status, j.Detail, j.Reclaims, j.happened("job.ended"))
	}
	if final, _ := r.digests(t, job); final != j.Checkpoint.Weights || final != uninterrupted(t, c.script(0)) {
		t.Errorf("the last trainer ended with weights %s, the job with %s: want those of a run without us", final, j.Checkpoint.Weights)
	}
	s.settled(job)
}
