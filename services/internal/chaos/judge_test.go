package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/services/internal/installation"
)

// verdict is the summary of a run: what -json prints.
type verdict struct {
	Seed     uint64         `json:"seed"`
	Replicas int            `json:"replicas"`
	Took     float64        `json:"seconds"`
	Kills    int            `json:"kills"` // with kill -9, from outside
	Each     map[string]int `json:"kills_by_target"`
	Inside   int            `json:"kills_inside_a_failover"`
	Points   []string       `json:"points_hit"`
	Stopped  int            `json:"agents_held_still"`
	Full     []string       `json:"disks_filled"`
	Jobs     int            `json:"jobs"`
	Trainers int            `json:"trainers"`
	Moves    int            `json:"failovers"`
	Void     int            `json:"commits_of_old_epochs"`
	Ledger   int64          `json:"ledger_micros"`
	Meter    int64          `json:"meter_micros"`
	Checked  int            `json:"acknowledged_events_checked"`
	Nonsense int            `json:"messages_that_are_no_events"`
	Skipped  []string       `json:"skipped,omitempty"`
	Wrong    []string       `json:"wrong"`
}

// judge waits until everything that was begun is over, and looks at what is left.
func (w *world) judge() verdict {
	v := verdict{Seed: w.opt.seed, Replicas: w.opt.replicas, Each: map[string]int{}, Skipped: w.skip}
	w.heal()
	if !w.until(3*time.Minute, func() bool { return len(w.rec.open()) == 0 }) {
		text, _ := states(w.rec.open())
		w.fail("three minutes after the last trouble there are jobs open: %s\n%s", text, list(w.rec.whyWaiting()))
	}
	// A purchase that its job did not wait for is cleared up when the seller's lists have shown that nothing came of it.
	w.until(2*w.fleet.Installation().Timers().GC, func() bool { return len(w.rec.openLeases()) == 0 })
	w.count(&v)
	w.judgeJobs(&v)
	w.judgeRestarts(&v)
	w.judgeMoney(&v)
	w.judgeLeft()
	w.judgeStreams(&v)
	v.Took = time.Since(w.began).Seconds()
	w.mu.Lock()
	v.Wrong = append([]string{}, w.wrong...)
	w.mu.Unlock()
	w.rec.mu.Lock()
	v.Wrong, v.Nonsense = append(v.Wrong, w.rec.wrong...), w.rec.void
	w.rec.mu.Unlock()
	return v
}

// heal ends the trouble: every program runs, no point is armed, there is no drill.
func (w *world) heal() {
	w.mu.Lock()
	w.healed, w.supply = true, false
	w.mu.Unlock()
	armed, _ := filepath.Glob(filepath.Join(w.dir, "points", "*.*"))
	for _, f := range armed {
		_ = os.Remove(f)
	}
	for _, p := range w.fleet.Programs() {
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		for {
			err := p.Ready(ctx)
			if err == nil || ctx.Err() != nil {
				if err != nil {
					w.fail("%v", err)
				}
				break
			}
			w.pause(100 * time.Millisecond)
		}
		cancel()
	}
}

func (w *world) count(v *verdict) {
	for _, b := range w.log.all() {
		switch b.How {
		case killed:
			v.Kills++
			v.Each[b.Target]++
			if b.Inside {
				v.Inside++
			}
		case stopped:
			v.Stopped++
		case full:
			v.Full = append(v.Full, b.Target)
		}
	}
	v.Points = w.log.points()
}

// judgeJobs wants every job succeeded, once, with the right weights.
func (w *world) judgeJobs(v *verdict) {
	want := map[string]string{}
	for _, k := range w.kinds() {
		digest, err := w.undisturbed(k)
		if err != nil {
			w.fail("%v", err)
		}
		want[k.name] = digest
	}
	ended := map[string]int{}
	for _, e := range ofType[events.JobEnded](w.rec) {
		ended[e.Aggregate.ID]++
	}
	w.rec.mu.Lock()
	jobs := slices.Collect(maps.Values(w.rec.jobs))
	w.rec.mu.Unlock()
	v.Jobs = len(jobs)
	names := map[string]int{}
	for _, j := range jobs {
		names[j.Spec.Name]++
		if j.Outcome != events.Succeeded || ended[string(j.ID)] != 1 {
			w.fail("%s, job %s, is %s (%s) and ended %d times", j.Spec.Name, j.ID, j.Status(), j.Reason, ended[string(j.ID)])
			continue
		}
		if c := j.Newest(); c == nil || c.Weights != want[kindOf(j)] {
			w.fail("%s, job %s: its weights are not those of a run that nobody disturbed", j.Spec.Name, j.ID)
		}
	}
	for name, n := range names {
		if n != 1 {
			w.fail("%s was submitted %d times", name, n)
		}
	}
	v.Void = w.voidCommits()
	if v.Void > 0 {
		w.fail("%d commits of old epochs were let through to the log", v.Void)
	}
}

// voidCommits counts commits that stand behind the placement of a later epoch.
func (w *world) voidCommits() (n int) {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	epoch := map[string]int{}
	for _, e := range w.rec.all {
		switch f := e.Fact.(type) {
		case events.JobPlaced:
			epoch[e.Aggregate.ID] = f.Epoch
		case events.JobCommitted:
			if f.Epoch != epoch[e.Aggregate.ID] {
				n++
			}
		}
	}
	return n
}

// life is one trainer process, by its own record.
type life struct {
	epoch       int
	pid         int
	start       uint64
	first, last int
	began, end  time.Time
}

// lives are a job's trainers in the order in which they began. On the way it checks
// that a step seen twice had the same weights.
func (w *world) lives(job string, all []trained) (out []life) {
	digests := map[int]string{}
	for _, row := range all {
		if row.Job != job {
			continue
		}
		i := slices.IndexFunc(out, func(l life) bool { return l.pid == row.PID && l.start == row.PIDStart })
		if i < 0 {
			i = len(out)
			out = append(out, life{epoch: row.Epoch, pid: row.PID, start: row.PIDStart, began: row.Time})
		}
		out[i].end = row.Time
		if row.Phase != "step" {
			continue
		}
		if d, ok := digests[row.Step]; ok && d != row.Digest {
			w.fail("job %s: step %d had other weights the second time", job, row.Step)
		}
		digests[row.Step] = row.Digest
		if out[i].first == 0 {
			out[i].first = row.Step
		}
		out[i].last = row.Step
	}
	slices.SortStableFunc(out, func(a, b life) int { return a.began.Compare(b.began) })
	return out
}

// judgeRestarts wants a reason of the machine's for every trainer that another one
// followed: the seller took it, or we killed it or its agent, held that still, or
// filled its disk. That a program of the control plane died is none.
func (w *world) judgeRestarts(v *verdict) {
	all, err := rows[trained](filepath.Join(w.fleet.Evidence(), "trainer.jsonl"))
	if err != nil {
		w.fail("%v", err)
	}
	taken, err := rows[reclaimed](filepath.Join(w.fleet.Evidence(), "kills.jsonl"))
	if err != nil {
		w.fail("%v", err)
	}
	placed := map[string]events.LeaseID{} // job and epoch
	for _, e := range ofType[events.JobPlaced](w.rec) {
		f := e.Fact.(events.JobPlaced)
		placed[fmt.Sprint(e.Aggregate.ID, " ", f.Epoch)] = f.Lease
	}
	v.Moves = len(ofType[events.JobFailedOver](w.rec))
	w.rec.mu.Lock()
	jobs := slices.Collect(maps.Values(w.rec.jobs))
	w.rec.mu.Unlock()
	for _, j := range jobs {
		lives := w.lives(string(j.ID), all)
		v.Trainers += len(lives)
		for i, l := range lives[:max(len(lives)-1, 0)] {
			lease := string(placed[fmt.Sprint(j.ID, " ", l.epoch)])
			why := w.reason(l, lease, taken)
			if w.voluntary(j, lives[i+1].epoch) && kindOf(j) != "calm" {
				why = "money"
			}
			if why == "" {
				w.fail("%s, job %s: trainer %d of epoch %d on %s was followed by another, and nothing had been done to it: %s", j.Spec.Name, j.ID, l.pid, l.epoch, lease, w.moves(j))
			}
		}
	}
}

// reason is what was done to a trainer or its machine.
func (w *world) reason(l life, lease string, taken []reclaimed) string {
	for _, r := range taken {
		if r.Token == lease {
			return "the seller: " + r.Kind
		}
	}
	if w.warned(lease) {
		return "the seller: a warning, and the machine was given back before it was withdrawn"
	}
	for _, b := range w.log.all() {
		switch {
		case b.Lease == lease && lease != "", b.Target == "trainer" && b.PID == l.pid && b.Start == l.start:
			return b.How + " of " + b.Target
		case b.How == full && b.Target != "bus" && !l.end.Before(b.Time.Add(-time.Second)) && l.began.Before(b.Until.Add(10*time.Second)):
			return "a full disk"
		}
	}
	return ""
}

// warned looks into the record of the machine's landlord for a warning.
func (w *world) warned(lease string) bool {
	found, _ := filepath.Glob(filepath.Join(w.fleet.Installation().Path(installation.SellerDir), "*", lease, "host.log"))
	for _, f := range found {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), `"msg":"warned"`) {
			return true
		}
	}
	return false
}

// voluntary says whether the job's epoch began with a move for money.
func (w *world) voluntary(j failover.Job, epoch int) bool {
	for _, e := range ofType[events.JobFailedOver](w.rec) {
		r := e.Fact.(events.JobFailedOver).Record
		if e.Aggregate.ID == string(j.ID) && r.To.Epoch == epoch && (r.Cause == events.CauseReturn || r.Cause == events.CauseCheaper) {
			return true
		}
	}
	return false
}

// moves are the records of a job's failovers, for a message.
func (w *world) moves(j failover.Job) string {
	var out []string
	for _, e := range ofType[events.JobFailedOver](w.rec) {
		if r := e.Fact.(events.JobFailedOver).Record; e.Aggregate.ID == string(j.ID) {
			out = append(out, fmt.Sprintf("%d to %d at %s, %s (%s)", r.From.Epoch, r.To.Epoch, r.Began.Format("15:04:05.000"), r.Cause, r.Detail))
		}
	}
	return strings.Join(out, "; ")
}

// judgeMoney compares the ledger with the seller's own meter, job by job.
func (w *world) judgeMoney(v *verdict) {
	meter, err := rows[metered](filepath.Join(w.fleet.Evidence(), "meter.jsonl"))
	if err != nil {
		w.fail("%v", err)
	}
	w.rec.mu.Lock()
	ids := slices.Sorted(maps.Keys(w.rec.jobs))
	w.rec.mu.Unlock()
	for _, id := range ids {
		var sum int64
		for _, m := range meter {
			if strings.HasPrefix(m.Token, string(id)+"-") {
				sum += m.Amount
			}
		}
		bill, err := ask[struct {
			Total    string `json:"total"`
			Reserved string `json:"reserved"`
			Finality string `json:"finality"`
		}](w, "bill", "show", string(id))
		if err != nil {
			w.fail("%v", err)
			continue
		}
		if bill.Total != dollars(sum) || bill.Reserved != dollars(0) || bill.Finality != "final" {
			w.fail("job %s: the ledger says %+v, the meter %s", id, bill, dollars(sum))
		}
		var whole, part int64
		_, _ = fmt.Sscanf(bill.Total, "%d.%d", &whole, &part)
		v.Ledger, v.Meter = v.Ledger+whole*1e6+part, v.Meter+sum
	}
}

func dollars(micros int64) string { return fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6) }

// judgeLeft wants nothing running and nothing open.
func (w *world) judgeLeft() {
	if left, err := ask[struct {
		Items []struct{ ID, State string } `json:"items"`
	}](w, "instance", "ls"); err != nil || len(left.Items) > 0 {
		w.fail("instances left: %+v, %v", left.Items, err)
	}
	if !w.until(20*time.Second, func() bool { m, err := w.fleet.Machines(); return err == nil && len(m) == 0 }) {
		m, err := w.fleet.Machines()
		w.fail("machines left: %+v, %v", m, err)
	}
	for _, l := range w.rec.openLeases() {
		w.fail("lease %s is still open", l)
	}
}

// judgeStreams wants every acknowledged event and every high-water mark to hold, and
// nothing running once everybody was asked to stop.
func (w *world) judgeStreams(v *verdict) {
	ctx, cancel := context.WithTimeout(w.ctx, 2*time.Minute)
	defer cancel()
	var err error
	if v.Checked, err = w.rec.verify(ctx); err != nil {
		w.fail("reading the streams again: %v", err)
	}
	marks, _ := filepath.Glob(filepath.Join(w.fleet.Installation().Dir(), "run", "*.marks.json"))
	for _, file := range marks {
		h, err := natsbus.OpenHighWater(natsbus.HighWaterConfig{Conn: w.rec.nc, JS: w.rec.js, File: file})
		if err == nil {
			err = h.Check(ctx)
		}
		if err != nil {
			w.fail("%s: %v", filepath.Base(file), err)
		}
	}
	if len(marks) == 0 {
		w.fail("no program keeps high-water marks")
	}
}
