package noticedrill

import (
	"fmt"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// What a run can come to.
const (
	fresh = "fresh" // what the trainer had at the notice was committed in time
	newer = "newer" // of what was saved before the notice, more than was committed
	kept  = "kept"  // the previous checkpoint
)

// outcome is what came of a run.
type outcome struct {
	run
	what     string
	commit   events.Checkpoint // the newest
	atNotice int64             // the trainer's step
	last     int64             // and at its end
	told     int64             // newest step that the record has
	moment   int64             // steps of the last moment, which it may lack
	spare    time.Duration     // from the last commit to the deadline
	signal   int64             // ms from first sight to the signal; -1: none was sent
	late     time.Duration     // by which the deadline was missed by the drill itself
	says     []string          // the agent's account
	broken   error
}

// moment is how long before its end a step may have been made that nobody could
// be told of any more.
const moment = time.Second

func (o *outcome) judge(r agenttest.Record, before int, log []made, at time.Time, late time.Duration) {
	o.commit, o.late, o.signal = r.Commits[len(r.Commits)-1].Checkpoint, late, -1
	o.spare = at.Sub(boot) + o.notice - r.CommitAt[len(r.CommitAt)-1]
	for _, n := range r.Notices {
		o.signal = n.SignalMS
	}
	for _, b := range r.Beats {
		o.told = max(o.told, b.Step)
	}
	end := at.Add(o.notice + late)
	for _, m := range log {
		if m.save || m.at.After(end) { // nothing of a machine that is taken goes on; here it takes a while to die
			continue
		}
		if m.at.Before(at) {
			o.atNotice = m.step
		}
		o.last = max(o.last, m.step)
		if end.Sub(m.at) < moment {
			o.moment++
		}
	}
	switch {
	case o.commit.Step >= o.atNotice:
		o.what = fresh
	case o.commit.Step > r.Commits[before-1].Checkpoint.Step:
		o.what = newer
	default:
		o.what = kept
	}
}

// due reports whether the line allowed a fresh save.
func (o outcome) due() bool { return o.share <= 0.8 }

// lossTold reports whether the record's loss is the trainer's own.
func (o outcome) lossTold() bool {
	lost, told := o.last-o.commit.Step, o.told-o.commit.Step
	return lost >= told && lost-told <= o.moment
}

func (o outcome) String() string {
	return fmt.Sprintf("%v: %s, step %d committed %.1fs before the deadline; %d at the notice, %d at the end, %d told; signal %d ms",
		o.run, o.what, o.commit.Step, o.spare.Seconds(), o.atNotice, o.last, o.told, o.signal)
}

// table counts outcomes by how much of the notice an upload takes.
func table(all []outcome) string {
	edges := []float64{0.2, 0.4, 0.6, 0.8, 1, 1.2, 9}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-22s %6s %6s %6s %6s %8s\n", "bytes/bandwidth/notice", "runs", fresh, newer, kept, "broken")
	from := 0.0
	for _, to := range edges {
		n := map[string]int{}
		for _, o := range all {
			if o.share > from && o.share <= to {
				n["runs"]++
				n[o.what]++
				if o.broken != nil || !o.lossTold() {
					n["broken"]++
				}
			}
		}
		name := fmt.Sprintf("%.1f to %.1f", from, to)
		if to > 5 {
			name = fmt.Sprintf("above %.1f", from)
		}
		fmt.Fprintf(&b, "%-22s %6d %6d %6d %6d %8d\n", name, n["runs"], n[fresh], n[newer], n[kept], n["broken"])
		from = to
	}
	return b.String()
}
