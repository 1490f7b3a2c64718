package main

import (
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// troubles is what the test reads of `demo --trouble -o json`.
type troubles struct {
	Scenarios []struct {
		Name      string `json:"name"`
		Job       string `json:"job"`
		State     string `json:"state"`
		Detail    string `json:"detail"`
		Remedy    string `json:"remedy"`
		Committed int    `json:"committed_step"`
		Machines  int    `json:"machines_bought"`
		Paid      int64  `json:"paid_micros"`
	} `json:"scenarios"`
	Left   int   `json:"instances_left"`
	Ledger int64 `json:"ledger_micros"`
	Meter  int64 `json:"meter_micros"`
}

// TestTroubleIsStoppedForOneMachinesMinimum runs the three trainings that go
// wrong and looks at what the trainers and the seller's meter wrote down.
func TestTroubleIsStoppedForOneMachinesMinimum(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a demonstration of a quarter of a minute")
	}
	t.Parallel()
	s := install(t)
	if err := os.Remove(s.dir); err != nil { // demo makes it
		t.Fatal(err)
	}
	p := begin(t, "demo", "--trouble", "--state", s.dir, "--evidence", s.evidence, "-o", "json")
	until(t, "the demonstration ends", p.over)
	if code := p.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit %d: %s", code, p.stderr)
	}
	if took := time.Since(p.began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	var out troubles
	if err := json.Unmarshal([]byte(p.stdout.String()), &out); err != nil {
		t.Fatalf("it printed %.300q: %v", p.stdout, err)
	}
	r := readRecords(t, s.evidence)
	if left := s.processes(); len(left) > 0 || out.Left > 0 {
		t.Errorf("left are %d machines, processes %v", out.Left, left)
	}
	var metered int64
	for _, m := range r.meter {
		metered += m.Amount
	}
	if out.Ledger != out.Meter || out.Meter != metered {
		t.Errorf("ledger %d, meter %d, its own record %d", out.Ledger, out.Meter, metered)
	}
	for i, want := range []struct {
		name, state, detail, remedy string
		machines, epochs, newest    int // newest: step that any trainer of it made
	}{
		{"restore ignored", "restore-ignored", "was restored, but the trainer's first step is", "resume_from_checkpoint", 2, 2, 0},
		{"stall", "stalled", "no step and no checkpoint for", "progress_timeout", 1, 1, 40},
		{"same crash twice", "failed", "exit code 7 twice", "spotferry job logs", 1, 2, 30},
	} {
		if i >= len(out.Scenarios) {
			t.Fatalf("no scenario %q", want.name)
		}
		c := out.Scenarios[i]
		if c.Name != want.name || c.State != want.state || !strings.Contains(c.Detail, want.detail) || !strings.Contains(c.Remedy, want.remedy) || c.Machines != want.machines {
			t.Errorf("%s: %+v", want.name, c)
		}
		steps := r.stepsOf(c.Job)
		if len(steps) != want.epochs {
			t.Errorf("%s: trained in %d epochs, want %d", want.name, len(steps), want.epochs)
		}
		if newest := steps[len(steps)]; want.newest > 0 && newest.last != want.newest {
			t.Errorf("%s: came to step %d, want %d", want.name, newest.last, want.newest)
		}
		if want.state == "restore-ignored" && (steps[2].first != 1 || steps[2].last >= c.Committed) {
			t.Errorf("%s: after step %d was restored it made steps %d to %d", want.name, c.Committed, steps[2].first, steps[2].last)
		}
		r.paidOneMinimum(t, want.name, c.Job, c.Paid)
	}
}

// span is the first and the last step of an epoch.
type span struct{ first, last int }

// stepsOf returns which steps a job's trainers made, by epoch.
func (r records) stepsOf(job string) map[int]span {
	made := map[int]span{}
	for _, row := range r.trainer {
		if row.Job != job || row.Phase != "step" {
			continue
		}
		s, seen := made[row.Epoch]
		if !seen {
			s.first = row.Step
		}
		s.last = max(s.last, row.Step)
		made[row.Epoch] = s
	}
	return made
}

// paidOneMinimum checks by the meter's record that a job paid for one machine, for
// the shortest time that can be bought, and that any other was taken by its seller.
func (r records) paidOneMinimum(t *testing.T, name, job string, paid int64) {
	t.Helper()
	var charged []metered
	for _, m := range r.meter {
		switch {
		case !strings.Contains(m.Instance, job):
		case m.Amount == 0 && m.EndedBy == "seller":
		default:
			charged = append(charged, m)
		}
	}
	if len(charged) != 1 {
		t.Errorf("%s: paid for %d machines: %+v", name, len(charged), charged)
		return
	}
	m := charged[0]
	minimum := new(big.Int).Div(new(big.Int).Mul(big.NewInt(m.PriceNano), big.NewInt(m.MinimumS)), big.NewInt(3600*1000))
	if lived := m.End.Sub(m.Start); lived >= time.Duration(m.MinimumS)*time.Second {
		t.Errorf("%s: the machine lived for %v", name, lived)
	}
	if m.Amount != minimum.Int64() || paid != m.Amount {
		t.Errorf("%s: the meter says %d, the ledger %d, the minimum is %s", name, m.Amount, paid, minimum)
	}
}

// TestAFaultyGPUIsLeftAndASecondOnePausesTheJob has the kernel's log of every
// machine say that a GPU is gone, once and then once more before anything was
// committed.
func TestAFaultyGPUIsLeftAndASecondOnePausesTheJob(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the whole system for a quarter of a minute")
	}
	kernel := filepath.Join(t.TempDir(), "kmsg")
	fault := func() {
		f, err := os.OpenFile(kernel, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString("3,900,1,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fault() // of somebody before
	t.Setenv("SPOTFERRY_KERNEL_LOG", kernel)
	s := install(t, "--scale", "60", "--divide", "10")
	s.serve()
	job := s.submit(calm{name: "unlucky", steps: 5000, saveEvery: 40, hidden: 64, seed: 4, pace: 100 * time.Millisecond})
	shown := func() jobShown { return ask1[jobShown](s, "job", "show", job) }
	until(t, "it has saved", func() bool { return shown().Checkpoint.Step >= 40 })
	fault()
	until(t, "it trains elsewhere", func() bool { j := shown(); return j.happened("job.started") == 2 })
	j := shown()
	if j.happened("job.troubled") != 1 || j.Status != "running" || j.Over {
		t.Errorf("after the first: %s (%s), %d troubles", j.Status, j.Detail, j.happened("job.troubled"))
	}
	commits := j.happened("job.committed")
	fault()
	until(t, "it is troubled again", func() bool { return shown().happened("job.troubled") == 2 })
	j = shown()
	t.Logf("commits before the first move %d, all %d; %s", commits, j.happened("job.committed"), j.Status)
	if j.happened("job.committed") == commits {
		until(t, "it is paused", func() bool { return shown().Status == "gpu-fault" })
	}
}
