package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// demonstrated is what the test reads of `demo -o json`.
type demonstrated struct {
	Jobs []struct {
		ID            string  `json:"id"`
		Name          string  `json:"name"`
		State         string  `json:"state"`
		Epochs        int     `json:"epochs"`
		Reclaims      int     `json:"reclaims"`
		LostSteps     int64   `json:"lost_steps"`
		Final         *string `json:"final_digest"`
		Uninterrupted *string `json:"uninterrupted_digest"`
		Spent         int64   `json:"spent_micros"`
		Budget        int64   `json:"budget_micros"`
	} `json:"jobs"`
	Left   *int  `json:"instances_left"`
	Ledger int64 `json:"ledger_micros"`
	Meter  int64 `json:"meter_micros"`
}

// The limits are for cores that other tests use, too. By itself on two cores the first line
// comes at once, the first reclaim within 10 s, and all is over within 110.
const (
	firstLine    = 2 * time.Second
	firstReclaim = 30 * time.Second
	wholeDemo    = 4 * time.Minute
)

func TestDemoAgainstTheRecordsOfItsParts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a whole demonstration, of two minutes")
	}
	t.Parallel()
	s := install(t)
	if err := os.Remove(s.dir); err != nil { // demo makes it
		t.Fatal(err)
	}
	p := begin(t, "demo", "--seed", "1", "--state", s.dir, "--evidence", s.evidence, "-o", "json")
	for deadline := p.began.Add(wholeDemo); !p.over(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the demo goes on for %s: %s", wholeDemo, p.stderr)
		}
	}
	took := time.Since(p.began)
	if code := p.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit %d: %s", code, p.stderr)
	}
	var d demonstrated
	if err := json.Unmarshal([]byte(p.stdout.String()), &d); err != nil {
		t.Fatalf("standard output is not one object: %v: %.300q", err, p.stdout)
	}
	r := readRecords(t, s.evidence)
	began := r.kills[0].Time
	for _, k := range r.kills {
		if k.Kind != "withdrawn" && k.Time.Before(began) {
			began = k.Time
		}
	}
	line, reclaim := p.stderr.first.Sub(p.began), began.Sub(p.began)
	t.Logf("first line after %v, first reclaim after %v, whole %v", line, reclaim, took)
	if line > firstLine || reclaim > firstReclaim {
		t.Errorf("first line after %v, first reclaim after %v", line, reclaim)
	}
	d.check(t, r)
	r.checkKills(t)
	for _, j := range d.Jobs {
		if want := s.example(j.Name); j.Final == nil || *j.Final != want || j.Uninterrupted == nil || *j.Uninterrupted != want {
			t.Errorf("%s: final weights %v, uninterrupted %v, by this test %s", j.Name, j.Final, j.Uninterrupted, want)
		}
	}
	s.checkMoves(r, d)
	s.checkAfterwards(d)
}

func TestADemoThatIsInterruptedLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a demonstration for some seconds")
	}
	t.Parallel()
	tmp := t.TempDir()
	p := beginIn(t, tmp, "demo")
	until(t, "all three jobs train", func() bool { return p.over() || strings.Count(p.stderr.String(), " started ") >= 3 })
	_ = p.Process.Signal(os.Interrupt)
	until(t, "it ends", p.over)
	if code := p.ProcessState.ExitCode(); exit(code) != exitInterrupted {
		t.Errorf("exit %d: %s", code, p.stderr)
	}
	until(t, "nothing of it runs", func() bool { return len(processesIn(t, tmp)) == 0 })
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// check compares the summary with the records.
func (d demonstrated) check(t *testing.T, r records) {
	t.Helper()
	bills := r.bills(t)
	if all := of(bills, ""); all != d.Ledger || all != d.Meter {
		t.Errorf("the machines cost %d by their terms; the ledger says %d, the meter %d", all, d.Ledger, d.Meter)
	}
	if d.Left == nil || *d.Left != 0 || len(d.Jobs) != 3 {
		t.Errorf("machines left: %v, jobs: %d", d.Left, len(d.Jobs))
	}
	for _, j := range d.Jobs {
		if j.State != "succeeded" || j.Spent != of(bills, j.ID) || j.Spent > j.Budget {
			t.Errorf("%s is %s and spent %d of %d; its machines cost %d", j.Name, j.State, j.Spent, j.Budget, of(bills, j.ID))
		}
		final, steps := r.digests(t, j.ID)
		if j.Final == nil || *j.Final != final {
			t.Errorf("%s: final weights %v, its trainer had %s at step %d", j.Name, j.Final, final, steps)
		}
		var lost int64
		for _, n := range lostBefore(r.lives(t, j.ID)) {
			lost += n
		}
		t.Logf("%s: %d steps lost by our records, %d by the trainers'", j.Name, j.LostSteps, lost)
		if j.LostSteps > lost || j.LostSteps < lost*9/10 {
			t.Errorf("%s: %d steps lost by our records, %d by the trainers'", j.Name, j.LostSteps, lost)
		}
	}
}

// checkKills wants enough of each sort.
func (r records) checkKills(t *testing.T) {
	t.Helper()
	trainers := map[int]bool{}
	for _, row := range r.trainer {
		trainers[row.PID] = true
	}
	var reclaims, withdrawn, storm, costly, inSave int
	for _, k := range r.kills {
		switch {
		case k.Target == "trainer" && !trainers[k.PID]:
			t.Errorf("kill of trainer %d, which left no row", k.PID)
		case k.Kind == "withdrawn":
			withdrawn++
			continue
		}
		reclaims++
		if strings.HasPrefix(k.DrawnAt, "storm") {
			storm++
		}
		if k.Kind != "unnoticed" {
			continue
		}
		lost, torn := r.after(t, k)
		if lost > 0 {
			costly++
		}
		if torn {
			inSave++
		}
	}
	t.Logf("%d reclaims, %d withdrawn notices, %d in storms, %d without notice that cost steps, %d inside a save", reclaims, withdrawn, storm, costly, inSave)
	if reclaims < 8 || withdrawn < 1 || storm < 2 || costly < 3 || inSave < 2 {
		t.Error("that is too few of one sort")
	}
}

// after says what a kill cost the job whose machine it hit, and whether it was in the middle of a save.
func (r records) after(t *testing.T, k killed) (lost int64, torn bool) {
	t.Helper()
	f := strings.Split(strings.TrimPrefix(k.Instance, "i-"), "-")
	lives := r.lives(t, f[0])
	i := slices.IndexFunc(lives, func(p process) bool { return f[1] == itoa(p.epoch) })
	if i < 0 {
		return 0, false // it was killed before a step was trained
	}
	for i+1 < len(lives) && lives[i+1].epoch == lives[i].epoch {
		i++
	}
	if i+1 < len(lives) {
		lost = lostBefore(lives)[lives[i+1].epoch]
	}
	return lost, lives[i].torn > 0
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// moved is what the test reads of `failover ls -o json`.
type moved struct {
	Items []struct {
		Job    string `json:"job"`
		Record struct {
			N         int    `json:"n"`
			Cause     string `json:"cause"`
			Noticed   bool   `json:"noticed"`
			LostSteps int64  `json:"lost_steps"`
			To        struct {
				Epoch int `json:"epoch"`
			} `json:"to"`
		} `json:"record"`
	} `json:"items"`
}

// checkMoves compares the lost steps of every move with the trainers' records.
func (s *installation) checkMoves(r records, d demonstrated) {
	t := s.t
	t.Helper()
	lost := map[string]map[int]int64{}
	for _, j := range d.Jobs {
		lost[j.ID] = lostBefore(r.lives(t, j.ID))
	}
	var exact, all int
	for _, m := range ask1[moved](s, "failover", "ls").Items {
		truth, ours := lost[m.Job][m.Record.To.Epoch], m.Record.LostSteps
		if ours > truth {
			t.Errorf("job %s, move %d to epoch %d: %d steps lost by our record, %d by the trainers'", m.Job, m.Record.N, m.Record.To.Epoch, ours, truth)
		}
		if !m.Record.Noticed {
			all++
			if ours == truth {
				exact++
			} else {
				t.Logf("job %s, move %d (%s) to epoch %d: %d steps lost by our record, %d by the trainers'", m.Job, m.Record.N, m.Record.Cause, m.Record.To.Epoch, ours, truth)
			}
		}
	}
	t.Logf("%d of %d moves without notice have the steps lost to the step", exact, all)
}

// checkAfterwards opens the state again and finds the same figures.
func (s *installation) checkAfterwards(d demonstrated) {
	t := s.t
	t.Helper()
	until(t, "the last host has left", func() bool { return len(s.processes()) == 0 })
	byJob := map[string]int64{}
	for _, m := range ask1[moved](s, "failover", "ls").Items {
		byJob[m.Job] += m.Record.LostSteps
	}
	for _, j := range d.Jobs {
		v := ask1[jobShown](s, "job", "show", j.ID)
		if v.Status != j.State || v.Epochs != j.Epochs || v.Reclaims != j.Reclaims || v.LostSteps != j.LostSteps || byJob[j.ID] != j.LostSteps || v.Spent != dollarsOf(j.Spent) {
			t.Errorf("demo said %+v, job show says %+v, failover ls %d steps lost", j, v, byJob[j.ID])
		}
		bill := ask1[struct {
			Total string `json:"total"`
		}](s, "bill", "show", j.ID)
		if bill.Total != dollarsOf(j.Spent) {
			t.Errorf("%s: demo said %s, bill show says %s", j.Name, dollarsOf(j.Spent), bill.Total)
		}
	}
}

// example runs one of the demo's job files, as it was unpacked, in a plain shell without its pace.
func (s *installation) example(name string) string {
	t := s.t
	t.Helper()
	dir := filepath.Join(s.dir, "examples")
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		var job struct {
			Name, Setup, Run, Workdir string
			Envs                      yaml.Node
		}
		b, err := os.ReadFile(f)
		if err = errors.Join(err, yaml.Unmarshal(b, &job)); err != nil {
			t.Fatal(err)
		}
		if job.Name != name {
			continue
		}
		script := []string{}
		for i := 0; i+1 < len(job.Envs.Content); i += 2 {
			script = append(script, "export "+job.Envs.Content[i].Value+"="+shellWord(job.Envs.Content[i+1].Value))
		}
		script = append(script, "PACE=0s")
		if job.Workdir != "" {
			script = append(script, "cp -r "+shellWord(filepath.Join(dir, job.Workdir))+" work", "cd work")
		}
		return uninterrupted(t, append(script, job.Setup, job.Run)...)
	}
	t.Fatalf("there is no job file named %q in %s", name, dir)
	return ""
}
