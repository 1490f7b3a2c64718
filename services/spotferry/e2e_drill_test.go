package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// rehearsed is a drill that was made: what the command line said of it, and what it wrote.
type rehearsed struct {
	n      int
	notice bool
	said   json.RawMessage // the record, as `job drill` showed it
	file   string          // the bundle
}

// TestDrillsAreRecordedAsTheEvidenceHasThem rehearses a failover twice, with and without a notice,
// and compares the bundles of both with what trainers, machines and the meter wrote down themselves.
func TestDrillsAreRecordedAsTheEvidenceHasThem(t *testing.T) {
	s := quick(t)
	s.serve()
	c := calm{name: "rehearsed", steps: 170, saveEvery: 25, hidden: 96, seed: 11, pace: 60 * time.Millisecond}
	job := s.submitText(c.onNotice())
	s.trainsPast(job, 1, 30)
	s.drillNeedsConsent(job)
	drills := []rehearsed{{n: 1, notice: true}, {n: 2}}
	drills[0].said = s.drill(job, "weekly rehearsal")
	s.trainsPast(job, 2, 90)
	drills[1].said = s.drill(job, "does a crash lose much?", "--no-notice")
	j := s.closed(job)
	if j.Status != "succeeded" || j.Epochs != 3 || j.happened("job.drilled") != 2 {
		t.Errorf("the job is %s (%s) after %d epochs and %d drills", j.Status, j.Detail, j.Epochs, j.happened("job.drilled"))
	}
	if want := uninterrupted(t, c.script(0)); j.Checkpoint.Weights != want {
		t.Errorf("weights %s, want %s", j.Checkpoint.Weights, want)
	}
	r := readRecords(t, s.evidence)
	r.digests(t, job)
	for _, d := range drills {
		d.file = filepath.Join(t.TempDir(), "postmortem.tar.gz")
		if got := s.command("failover", "show", job, fmt.Sprint(d.n), "--bundle", d.file); got.code != 0 {
			t.Fatalf("failover show --bundle exited with %d: %s", got.code, got.err)
		}
		b := openBundle(t, d.file)
		t.Run(fmt.Sprintf("drill %d", d.n), func(t *testing.T) {
			b.isWhole(t)
			b.isOfADrill(t, job, d)
			b.isAsTheTrainersHadIt(t, r, job, d)
			b.isAsTheMachinesHadIt(t, r, d)
			b.isAsTheMeterHasIt(t, r)
			if r := command(t, "failover", "verify", d.file); r.code != 0 {
				t.Errorf("failover verify exited with %d: %s%s", r.code, r.out, r.err)
			}
			b.changedIsRefused(t)
		})
	}
	s.settled(job)
}

// trainsPast waits until a job's trainer of an epoch is past a step and has saved one.
func (s *installation) trainsPast(job string, epoch, step int) {
	s.t.Helper()
	until(s.t, fmt.Sprintf("it trains in epoch %d past step %d", epoch, step), func() bool {
		rows := s.rowsOf(job)
		past := len(rows) > 0 && rows[len(rows)-1].Epoch == epoch && rows[len(rows)-1].Step > step
		return past && slices.ContainsFunc(rows, func(r trained) bool { return r.Epoch == epoch && r.Phase == "save-end" })
	})
	until(s.t, "it runs and is saved", func() bool {
		j := ask1[jobShown](s, "job", "show", job)
		return j.Status == "running" && j.Machine.Epoch == epoch && j.Checkpoint.Step > 0
	})
}

// drillNeedsConsent has a drill refused because nobody can be asked, and because no reason is given; what it
// would cost is shown before that, and nothing happens.
func (s *installation) drillNeedsConsent(job string) {
	t := s.t
	t.Helper()
	r := s.command("job", "drill", job, "--reason", "rehearsal", "--no-input")
	if r.code != 2 || !strings.Contains(r.err, "give -y") {
		t.Errorf("without consent it exited with %d: %s", r.code, r.err)
	}
	shown := r.out + r.err
	at := -1
	for _, want := range []string{"leaves      epoch 1 on local/", "buys        local/", "machine     $", "expected    $", "needs your consent"} {
		i := strings.Index(shown, want)
		if i <= at {
			t.Errorf("%q is not shown, or not in its place: %s", want, shown)
		}
		at = i
	}
	if r := s.command("job", "drill", job, "-y", "--no-input"); r.code != 2 || !strings.Contains(r.err, "--reason") {
		t.Errorf("without a reason it exited with %d: %s", r.code, r.err)
	}
	if j := ask1[jobShown](s, "job", "show", job); j.happened("job.drilled") != 0 || j.Epochs != 1 {
		t.Errorf("a drill that was refused happened: %+v", j)
	}
}

// onNotice is the job's file with a signal on which its trainer saves.
func (c calm) onNotice() string {
	return strings.Replace(c.file(), "{framework: hf}", "{framework: hf, on_notice: {signal: SIGUSR1, grace: 5s}}", 1)
}

// submitText submits a job file and returns the job's id.
func (s *installation) submitText(text string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	r := s.command("run", file, "-y", "--accept-risk", "--detach", "-o", "name")
	if r.code != 0 {
		s.t.Fatalf("run exited with %d: %s", r.code, r.err)
	}
	return strings.TrimSpace(r.out)
}

// drill makes one and returns its record as it is shown.
func (s *installation) drill(job, reason string, flags ...string) json.RawMessage {
	s.t.Helper()
	shown := ask1[struct{ Record json.RawMessage }](s, append([]string{"job", "drill", job, "-y", "--reason", reason}, flags...)...)
	return shown.Record
}

// isOfADrill checks that a record has all that a drill's must have, and that its
// times and phases fit together.
func (b *bundle) isOfADrill(t *testing.T, job string, d rehearsed) {
	t.Helper()
	var said record
	if err := json.Unmarshal(d.said, &said); err != nil || fmt.Sprint(said) != fmt.Sprint(b.record) {
		t.Errorf("the command line showed %+v, the bundle has %+v (%v)", said, b.record, err)
	}
	r := b.record
	if r.N != d.n || !r.Drill || r.Cause != "operator" || !strings.Contains(r.Detail, "rehearsal") && !strings.Contains(r.Detail, "does a crash lose much?") || r.Noticed != d.notice {
		t.Errorf("it is not the record of this drill: %+v", r)
	}
	if r.From.Epoch != d.n || r.To.Epoch != d.n+1 || !strings.HasPrefix(r.From.Lease, fmt.Sprintf("%s-%d-", job, d.n)) || !strings.HasPrefix(r.To.Lease, fmt.Sprintf("%s-%d-", job, d.n+1)) {
		t.Errorf("it leads from %+v to %+v", r.From, r.To)
	}
	if d.notice && (r.NoticeMS <= 29_000 || r.NoticeMS > 30_000 || r.UsedMS <= 0 || r.UsedMS > r.NoticeMS) {
		t.Errorf("of a notice of %d ms it used %d ms", r.NoticeMS, r.UsedMS)
	}
	drilled := b.event(t, r.Evidence[0])
	if drilled.kind() != "job.drilled" || !drilled.Time.Equal(r.Began) {
		t.Errorf("it began at %v; its first evidence is %s at %v", r.Began, drilled.Type, drilled.Time)
	}
	for _, id := range append(r.Evidence, r.Decision) {
		b.event(t, id)
	}
	if got := b.event(t, r.Decision).kind(); got != "lease.intended" {
		t.Errorf("its decision is a %s", got)
	}
	if told := b.event(t, b.told.Event); told.kind() != "job.failed-over" {
		t.Errorf("its record is in a %s", told.Type)
	} else {
		var f struct{ Record record }
		if err := json.Unmarshal(told.Data, &f); err != nil || fmt.Sprint(f.Record) != fmt.Sprint(r) {
			t.Errorf("the event has %+v (%v)", f.Record, err)
		}
	}
	want := []string{"acquire", "boot", "decide", "detect", "first-step", "place", "restore"}
	if d.notice {
		want = append(want, "save", "upload")
	}
	var names []string
	for _, p := range r.Phases {
		names = append(names, p.Name)
		clock := "control"
		if p.Name == "save" || p.Name == "upload" || p.Name == "restore" {
			clock = "agent"
		}
		if p.Clock != clock || p.MS < 0 || p.Began.Before(r.Began) || p.ended().After(r.Ended) {
			t.Errorf("phase %+v is not within %v and %v by the clock of %s", p, r.Began, r.Ended, clock)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("phases %v, want %v", names, want)
	}
}

// heardWithin is how old the step may be of which the control plane knows: a heartbeat, and as much for busy cores.
const heardWithin = time.Second

// isAsTheTrainersHadIt compares steps and saves with what the trainers recorded.
func (b *bundle) isAsTheTrainersHadIt(t *testing.T, rec records, job string, d rehearsed) {
	t.Helper()
	r := b.record
	lives := rec.lives(t, job)
	if len(lives) != 3 {
		t.Fatalf("there were %d trainers", len(lives))
	}
	old, next := lives[d.n-1], lives[d.n]
	if old.epoch != r.From.Epoch || next.epoch != r.To.Epoch {
		t.Fatalf("the trainers were of epochs %d and %d", old.epoch, next.epoch)
	}
	row := func(epoch, step int, phase string) trained {
		i := slices.IndexFunc(rec.trainer, func(r trained) bool {
			return r.Job == job && r.Epoch == epoch && r.Step == step && r.Phase == phase
		})
		if i < 0 {
			t.Fatalf("no trainer has %s of step %d in epoch %d", phase, step, epoch)
		}
		return rec.trainer[i]
	}
	lost := lostBefore(lives)[next.epoch]
	t.Logf("%d steps lost by the record, %d by the trainers'; left at step %d, resumed at %d", r.LostSteps, lost, old.last, r.Resumed.Step)
	if r.Resumed.Step != next.first-1 || r.LostSteps != int64(r.LastStep-r.Resumed.Step) || r.LastStep > old.last {
		t.Errorf("%d steps lost from %d on, resumed at %d; the trainers left at %d and resumed at %d", r.LostSteps, r.LastStep, r.Resumed.Step, old.last, next.first-1)
	}
	left := b.phase(t, "place").ended()
	if !d.notice {
		left = b.ended(rec)
	}
	if r.LastStep < old.last {
		if unheard := row(old.epoch, r.LastStep+1, "step"); unheard.Time.Before(left.Add(-heardWithin)) {
			t.Errorf("it was left at %v, and step %d, made at %v, is not counted", left, unheard.Step, unheard.Time)
		}
	}
	saved, ended := row(old.epoch, r.Resumed.Step, "save-begin"), row(old.epoch, r.Resumed.Step, "save-end")
	if saved.Digest != r.Resumed.Weights {
		t.Errorf("step %d was saved with weights %q, the record says %q", r.Resumed.Step, saved.Digest, r.Resumed.Weights)
	}
	if d.notice != saved.Time.After(r.Began) {
		t.Errorf("what was resumed was saved at %v, the drill began at %v", saved.Time, r.Began)
	}
	if lostFor := time.Duration(r.LostMS) * time.Millisecond; lostFor > left.Sub(ended.Time) {
		t.Errorf("%v were lost; it was saved at %v and left at %v", lostFor, ended.Time, left)
	}
	first, step := row(next.epoch, next.first, "step"), b.phase(t, "first-step")
	if first.Time.Before(step.Began) || first.Time.After(r.Ended) {
		t.Errorf("the first step was made at %v, its phase reaches from %v to %v", first.Time, step.Began, r.Ended)
	}
	if d.notice {
		if p := b.phase(t, "upload"); p.Began.Before(ended.Time) {
			t.Errorf("it was uploaded from %v on and saved until %v", p.Began, ended.Time)
		}
	}
	b.hasTheLastWords(t, r.LastStep, old.last, r.Resumed.Step, d)
}

// hasTheLastWords looks for what the trainer and the agent of the machine that was left said last.
func (b *bundle) hasTheLastWords(t *testing.T, least, most, saved int, d rehearsed) {
	t.Helper()
	var hb struct {
		Step  int
		State string
		At    time.Time
	}
	b.read(t, "last-words/heartbeat.json", &hb)
	if hb.Step < saved || hb.Step > most || hb.At.IsZero() || hb.State == "" || !d.notice && hb.Step > least {
		t.Errorf("the last heartbeat is %+v; the trainer made step %d, %d are counted", hb, most, least)
	}
	log := b.files["last-words/log.txt"]
	if want := fmt.Sprintf(`{"event":"saved","step":%d,`, saved); !strings.Contains(log, want) || !strings.Contains(log, " stdout ") {
		t.Errorf("%q is not among the last words: %s", want, log)
	}
}

// ended is when the machine that was left ended by the seller's meter. The decision has both
// clocks; the market's goes sixty times as fast.
func (b *bundle) ended(rec records) time.Time {
	for _, m := range rec.meter {
		if m.Instance == "i-"+b.record.From.Lease {
			dec := b.decision.Choice.Decision
			return dec.Control.Add(m.End.Sub(dec.Market) / 60)
		}
	}
	return time.Time{}
}

// isAsTheMachinesHadIt compares the phases with when the seller's meter says that the machine
// that was left ended, and finds nothing between them but the wait for a save.
func (b *bundle) isAsTheMachinesHadIt(t *testing.T, rec records, d rehearsed) {
	t.Helper()
	gone := b.ended(rec)
	placed, detected := b.phase(t, "place").ended(), b.phase(t, "detect").ended()
	const round = 3 * time.Millisecond // of the phases and of what the meter writes
	t.Logf("the machine ended %v after the first sign, the first step came after %v; phases %v", gone.Sub(b.record.Began), b.record.Ended.Sub(b.record.Began), b.record.Phases)
	switch {
	case d.notice && gone.Before(placed.Add(-round)):
		t.Errorf("the machine ended at %v, before the job was placed at %v", gone, placed)
	case !d.notice && (gone.Before(b.record.Began.Add(-round)) || gone.After(detected.Add(round))):
		t.Errorf("the machine ended at %v; it was drilled at %v and found gone at %v", gone, b.record.Began, detected)
	}
	if !d.notice && !slices.ContainsFunc(b.record.Evidence, func(id string) bool { return b.event(t, id).kind() == "lease.ended" }) {
		t.Errorf("no evidence says that the machine is gone: %v", b.record.Evidence)
	}
	phases := slices.Clone(b.record.Phases)
	slices.SortStableFunc(phases, func(a, b recordPhase) int { return a.Began.Compare(b.Began) })
	till := b.record.Began
	for _, p := range phases {
		if gap := p.Began.Sub(till); gap > round && p.Name != "save" {
			t.Errorf("nothing is said of the %v before %s", gap, p.Name)
		}
		if end := p.ended(); end.After(till) {
			till = end
		}
	}
	if short := b.record.Ended.Sub(till); short > round {
		t.Errorf("nothing is said of the last %v", short)
	}
}

// isAsTheMeterHasIt compares prices and both bills with the seller's meter.
func (b *bundle) isAsTheMeterHasIt(t *testing.T, rec records) {
	t.Helper()
	bills := rec.bills(t)
	if len(b.bill) != 2 {
		t.Fatalf("it has the bills of %d machines", len(b.bill))
	}
	for i, side := range []recordSide{b.record.From, b.record.To} {
		line := b.bill[i]
		var rows []metered
		for _, m := range rec.meter {
			if m.Instance == "i-"+side.Lease {
				rows = append(rows, m)
			}
		}
		if len(rows) != 1 {
			t.Fatalf("lease %s: %d rows on the meter", side.Lease, len(rows))
		}
		m := rows[0]
		if i == 0 && m.EndedBy != "us" {
			t.Errorf("lease %s was ended by %s", side.Lease, m.EndedBy)
		}
		if line.Lease != side.Lease || line.State != "settled" || line.Finality != "final" || line.Amount != dollarsOf(bills[m.Instance].Int64()) || !line.From.Equal(m.Start) {
			t.Errorf("lease %s: the bill is %+v, the meter says %+v", side.Lease, line, m)
		}
		if side.Price != nanos(m.PriceNano) || line.Segments[0].Price != nanos(m.PriceNano) {
			t.Errorf("lease %s: the price is %s, on the bill %s, the meter says %s", side.Lease, side.Price, line.Segments[0].Price, nanos(m.PriceNano))
		}
	}
	// Lost time is control time; the market's goes sixty times as fast here.
	exact := big.NewRat(b.record.LostMS*60, 3_600_000)
	price, _ := new(big.Rat).SetString(b.record.From.Price)
	micros := halfEven(exact.Mul(exact, price).Mul(exact, big.NewRat(1_000_000, 1))).Int64()
	if b.record.LostCost != dollarsOf(micros) {
		t.Errorf("%d ms were lost at %s/h: %s, the record says %s", b.record.LostMS, b.record.From.Price, dollarsOf(micros), b.record.LostCost)
	}
}

// nanos writes nano-dollars as -o json does.
func nanos(n int64) string { return fmt.Sprintf("%d.%09d", n/1e9, n%1e9) }

// changedIsRefused has `failover verify` judge copies in which something is not as it was written.
func (b *bundle) changedIsRefused(t *testing.T) {
	t.Helper()
	for name, change := range map[string]func(map[string]string){
		"a byte": func(f map[string]string) {
			f["bill.json"] = strings.Replace(f["bill.json"], `"amount": "`, `"amount": "1`, 1)
		},
		"a file too many": func(f map[string]string) { f["note.txt"] = "added" },
		"a file too few":  func(f map[string]string) { delete(f, "phases.csv") },
		"a better record": func(f map[string]string) {
			f["record.json"] = strings.Replace(f["record.json"], `"drill": true`, `"drill": false`, 1)
			b.resign(t, f)
		},
		"a better event": func(f map[string]string) {
			f["events.jsonl"] = strings.Replace(f["events.jsonl"], `"drill":true`, `"drill":null`, 1)
			b.resign(t, f)
		},
		"an event too few": func(f map[string]string) {
			_, f["events.jsonl"], _ = strings.Cut(f["events.jsonl"], "\n")
			b.resign(t, f)
		},
	} {
		files := map[string]string{}
		for k, v := range b.files {
			files[k] = v
		}
		change(files)
		path := filepath.Join(t.TempDir(), "copy.tar.gz")
		if err := os.WriteFile(path, b.pack(t, files), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := command(t, "failover", "verify", path); r.code != 1 || !strings.Contains(r.out, "WRONG") {
			t.Errorf("%s changed: failover verify exited with %d: %s%s", name, r.code, r.out, r.err)
		}
	}
}
