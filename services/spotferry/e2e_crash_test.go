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
func quick(t *testing.T) *installation {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the whole system for most of a minute")
	}
	t.Parallel()
	return install(t, "--scale", "60", "--divide", "10")
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
	last := fmt.Sprintf(`"step":%d,`, c.steps)
	log := filepath.Join(s.evidence, "trainer.jsonl")
	recorded := func(what string) func() bool {
		return func() bool { b, _ := os.ReadFile(log); return strings.Contains(string(b), what) }
	}
	// saving waits for a save that begins from now on, or for the end of training.
	saving := func(phase string) func() bool {
		n := -1
		return func() bool {
			b, _ := os.ReadFile(log)
			now := strings.Count(string(b), `"phase":"`+phase+`"`)
			if n < 0 {
				n = now
			}
			return now > n || strings.Contains(string(b), last)
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
		return n > objects || recorded(last)()
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
		{"somewhat later", true, after(130 * time.Millisecond)},
		{"while it starts once more", false, after(150 * time.Millisecond)},
		{"while it opens its streams", false, after(250 * time.Millisecond)},
		{"after half a second of peace", true, after(500 * time.Millisecond)},
		{"as a late save begins", true, saving("save-begin")},
		{"as the last step is trained", true, recorded(last)},
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

// settled compares the ledger with the meter of some jobs that are closed, finds nothing left
// of them, and has the figures stay when nobody serves.
func (s *installation) settled(jobs ...string) {
	t := s.t
	t.Helper()
	r := readRecords(t, s.evidence)
	bills := r.bills(t)
	for _, job := range jobs {
		bill := ask1[struct {
			Total    string `json:"total"`
			Reserved string `json:"reserved"`
			Finality string `json:"finality"`
		}](s, "bill", "show", job)
		if want := dollarsOf(of(bills, job)); bill.Total != want || bill.Reserved != dollarsOf(0) || bill.Finality != "final" {
			t.Errorf("job %s: the ledger says %+v, the meter %s", job, bill, want)
		}
	}
	left := ask1[struct {
		Items []struct{ State, Seller string } `json:"items"`
	}](s, "instance", "ls")
	if len(left.Items) != 0 {
		t.Errorf("instances are left: %+v", left.Items)
	}
	until(t, "the last host has left", func() bool { return len(s.processes()) == 0 })
	before := s.figures(jobs...)
	s.stop()
	for what, after := range s.figures(jobs...) {
		same(t, what, before[what], after)
	}
}

// dollarsOf writes micro-dollars as -o json does.
func dollarsOf(micros int64) string { return fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6) }

func TestWhateverDiesOnAMachineTheJobGoesOn(t *testing.T) {
	s := quick(t)
	s.serve()
	cases := []struct {
		name   string
		victim func(job string, m machine) proc
		stays  bool // on its machine
		by     string
	}{
		{"trainer", func(job string, _ machine) proc { p, _ := s.trainerOf(job); return p }, true, ""},
		{"agent", func(_ string, m machine) proc { return m.Agent }, false, "machine"},
		{"host", func(_ string, m machine) proc { return m.Host }, false, "fault"},
	}
	jobs := make([]string, len(cases))
	job := func(i int) calm {
		return calm{name: "kill-" + cases[i].name, steps: 200, saveEvery: 25, hidden: 96, seed: i + 1, pace: 60 * time.Millisecond}
	}
	for i := range cases {
		jobs[i] = s.submit(job(i))
	}
	first := make([]string, len(cases))
	for i, tc := range cases {
		until(t, tc.name+"'s job has saved", func() bool { _, step := s.trainerOf(jobs[i]); return step > 40 })
		first[i] = ask1[jobShown](s, "job", "show", jobs[i]).Machine.Lease
		m := s.machines(jobs[i])
		if len(m) != 1 {
			t.Fatalf("%s: the job has %d machines", tc.name, len(m))
		}
		p := tc.victim(jobs[i], m[0])
		if !p.alive() {
			t.Fatalf("%s: process %+v is not there", tc.name, p)
		}
		p.kill()
	}
	for i, tc := range cases {
		j := s.closed(jobs[i])
		r := readRecords(t, s.evidence)
		lives := r.lives(t, jobs[i])
		if j.Status != "succeeded" || len(lives) != 2 || lives[1].epoch <= lives[0].epoch {
			t.Errorf("%s killed: the job is %s (%s), its trainers were %+v", tc.name, j.Status, j.Detail, lives)
		}
		if want := uninterrupted(t, job(i).script(0)); j.Checkpoint.Weights != want {
			t.Errorf("%s killed: weights %s, want %s", tc.name, j.Checkpoint.Weights, want)
		}
		r.digests(t, jobs[i])
		ended := map[string]string{}
		for _, m := range r.meter {
			if strings.HasPrefix(m.Instance, "i-"+jobs[i]) {
				ended[m.Instance] = m.EndedBy
			}
		}
		if tc.stays {
			if len(ended) != 1 {
				t.Errorf("%s killed: it had machines %v, want one", tc.name, ended)
			}
		} else if len(ended) != 2 || ended["i-"+first[i]] != tc.by {
			t.Errorf("%s killed: its machines %v, want two, %s ended by %s", tc.name, ended, first[i], tc.by)
		}
		var lost int64
		for _, n := range lostBefore(lives) {
			lost += n
		}
		if lost == 0 || j.LostSteps > lost {
			t.Errorf("%s killed: %d steps lost by our records, %d by the trainers'", tc.name, j.LostSteps, lost)
		}
		t.Logf("%s killed: %d steps lost by our records, %d by the trainers'", tc.name, j.LostSteps, lost)
	}
	s.settled(jobs...)
}
