package main

import (
	"strings"
	"testing"
	"time"
)

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
