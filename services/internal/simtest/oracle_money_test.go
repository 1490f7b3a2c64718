package simtest

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
)

// machines checks I-4 and I-12 against what the seller knows.
func (r *record) machines() {
	w := r.w
	if n := w.fake.ForeignKills(); n > 0 {
		w.fail("I-4: %d machines of others were ended", n)
	}
	for _, id := range w.foreign {
		if i, ok := w.fake.Instance(id); !ok || i.State == provider.Gone {
			w.fail("I-4: machine %s of somebody else is gone", id)
		}
	}
	owner := map[events.InstanceID]*purchase{}
	for _, p := range r.leases {
		for _, id := range p.instance {
			owner[id] = p
		}
	}
	for _, i := range w.fake.Intervals() {
		if i.Foreign {
			continue
		}
		r.load.machines++
		r.machine(i, owner[i.Instance])
	}
}

func (r *record) machine(i providertest.Interval, p *purchase) {
	w := r.w
	lease := events.LeaseID(i.Token)
	s := r.story(lease.Job())
	end := i.To.Control
	if end.IsZero() {
		end = time.Now()
	}
	if s.closed && i.To.Control.IsZero() {
		w.fail("I-4: machine %s of job %s lives although the job is closed (token %s)", i.Instance, s.id, lease)
	}
	limit := w.timers.GC + w.timers.Settle
	if asked := w.journal.of(provider.OpTerminate, string(i.Instance)); len(asked) > 0 && asked[len(asked)-1].deaf(w, i) {
		w.hits.add("machine that outlived its end")
		if since := end.Sub(asked[len(asked)-1].at); since > 2*time.Minute+w.outagesIn(asked[len(asked)-1].at, end) {
			w.fail("I-4: the end of machine %s was not asked for any more in its last %s", i.Instance, since)
		}
		return
	}
	if s.ended != nil {
		if d := end.Sub(s.endedAt) - w.outagesIn(s.endedAt, end); d > limit {
			w.fail("I-12: machine %s lived on for %s after job %s had ended", i.Instance, d, s.id)
		}
	}
	if p == nil || !p.launched {
		w.hits.add("machine that nobody ordered")
		if d := end.Sub(i.From.Control) - w.outagesIn(i.From.Control, end); d > limit {
			w.fail("I-4: machine %s, which nobody ordered, lived for %s (token %s)", i.Instance, d, lease)
		}
	}
}

// outagesIn is how long nobody could act between two times.
func (w *world) outagesIn(from, to time.Time) time.Duration {
	var sum time.Duration
	for _, o := range w.outages {
		if d := earlier(o.to, to).Sub(later(o.from, from)); d > 0 {
			sum += d
		}
	}
	return sum
}

// books checks I-9 and I-3: the ledger is the meter, and no job has cost more than it may.
func (r *record) books(all []message) {
	w := r.w
	meter := map[events.InstanceID]providertest.MeterLine{}
	for _, l := range w.fake.Invoice() {
		meter[l.Instance] = l
	}
	settled := map[events.LeaseID]events.MicroUSD{}
	reserved := map[events.LeaseID]bool{}
	var ledger, total events.MicroUSD
	for _, m := range all {
		switch f := m.event.Fact.(type) {
		case events.MoneyReserved:
			reserved[f.Lease] = true
		case events.MoneyReleased:
			delete(reserved, f.Lease)
		case events.MoneySettled:
			delete(reserved, f.Lease)
			if _, twice := settled[f.Lease]; twice {
				w.fail("I-9: lease %s is settled twice", f.Lease)
			}
			settled[f.Lease] = f.Amount
			ledger += f.Amount
			r.charge(f, meter)
		}
	}
	spent := map[events.JobID]events.MicroUSD{}
	for _, l := range w.fake.Invoice() {
		total += l.Amount
		spent[events.LeaseID(l.Token).Job()] += l.Amount
	}
	if ledger != total {
		w.fail("I-9: the ledger has %s, the seller's meter %s", ledger, total)
	}
	for _, id := range w.order {
		if over := spent[id] - w.jobs[id].limit; over > 0 {
			if excuse := r.excuse(id); over > excuse {
				w.fail("I-3: job %s has cost %s of %s; %s of that is the seller's own doing", id, spent[id], w.jobs[id].limit, excuse)
			} else {
				w.hits.add("budget overrun by the seller's doing")
			}
		}
	}
	for l := range reserved {
		if s := r.story(l.Job()); s.closed {
			w.fail("I-3: money is still set aside for lease %s of job %s, which is closed", l, s.id)
		}
	}
}

// charge compares what was settled for a lease with the meter of its machine.
func (r *record) charge(f events.MoneySettled, meter map[events.InstanceID]providertest.MeterLine) {
	p := r.leases[f.Lease]
	if p == nil || p.ended == nil {
		r.w.fail("I-9: lease %s is settled and has not ended", f.Lease)
		return
	}
	if l, ok := meter[p.ended.Instance]; !ok || l.Amount != f.Amount || !l.Final {
		r.w.fail("I-9: lease %s is settled at %s, the meter of %s says %s (final %v)", f.Lease, f.Amount, p.ended.Instance, l.Amount, l.Final)
	}
}

// excuse is what a job has cost by what its seller did against its word: machines
// that nobody ordered, and time after a machine should have been gone.
func (r *record) excuse(id events.JobID) events.MicroUSD {
	w := r.w
	asked := map[string]time.Time{}
	for _, c := range w.journal.calls {
		if _, known := asked[c.about]; c.op == provider.OpTerminate && !known {
			asked[c.about] = w.clock.Market(c.at)
		}
	}
	var sum events.MicroUSD
	teardown := 2 * w.timers.Fence * scale
	for _, l := range w.fake.Invoice() {
		lease := events.LeaseID(l.Token)
		if lease.Job() != id {
			continue
		}
		p := r.leases[lease]
		if p == nil || !p.launched || p.instance[0] != l.Instance {
			sum += l.Amount
			continue
		}
		at, known := asked[string(l.Instance)]
		if late := l.End.Sub(at) - teardown; known && late > 0 {
			sum += events.Cost(l.Prices[len(l.Prices)-1].Price, late) + 1
		}
	}
	return sum
}

// calls checks I-12's first half and I-22.
func (r *record) calls() {
	w := r.w
	launches, ends, lists := map[events.LeaseID]int{}, map[string]int{}, 0
	for _, c := range w.journal.calls {
		switch c.op {
		case provider.OpLaunch:
			lease := events.LeaseID(c.about)
			launches[lease]++
			j := w.jobs[lease.Job()]
			if j == nil || launches[lease] > 1 {
				continue
			}
			if _, stopped := w.owner(j); !stopped.IsZero() && c.at.After(stopped) {
				w.fail("I-12: lease %s was asked for %s after job %s was cancelled", lease, c.at.Sub(stopped), j.id)
			}
		case provider.OpTerminate:
			ends[c.about]++
		case provider.OpList:
			lists++
		}
	}
	for l, n := range launches {
		if n > 24 {
			w.fail("I-22: lease %s was asked for %d times", l, n)
		}
	}
	for id, n := range ends {
		if n > 60 {
			w.fail("I-22: the end of machine %s was asked for %d times", id, n)
		}
	}
	if most := int(w.opt.hours * 3600 / 3); lists > most {
		w.fail("I-22: %d lists in %v hours", lists, w.opt.hours)
	}
}

// bills checks I-9 for what people are told: every line of every bill is what the
// seller's meter says of that machine, and a bill's figures are the sums of its lines.
func (w *world) bills(v *verdicts) {
	bills, err := insist[[]console.Bill](w, "bills", console.GetBill, console.Query{})
	if err != nil {
		v.wrong = append(v.wrong, fmt.Sprintf("the bills cannot be had: %v", err))
		return
	}
	meter := map[events.LeaseID]events.MicroUSD{}
	for _, l := range w.fake.Invoice() {
		meter[events.LeaseID(l.Token)] += l.Amount
	}
	strays := map[events.LeaseID]bool{} // a second machine under a token is charged under a lease of its own
	for _, m := range v.history["JOBS"] {
		if f, ok := m.event.Fact.(events.LeaseTerminating); ok && f.Instance != "" {
			strays[events.LeaseID(m.event.Aggregate.ID)] = true
		}
	}
	wrong := func(format string, args ...any) { v.wrong = append(v.wrong, "I-9: "+fmt.Sprintf(format, args...)) }
	for _, b := range bills {
		var compute, credits, total events.MicroUSD
		for _, l := range b.Lines {
			if l.State != "settled" {
				continue
			}
			var segments events.MicroUSD
			for _, s := range l.Segments {
				segments += s.Amount
				if s.Category == "credit" {
					credits += s.Amount
				} else {
					compute += s.Amount
				}
			}
			total += l.Amount
			if segments != l.Amount || l.Amount != meter[l.Lease] && len(strays) == 0 {
				wrong("the bill of job %s has %s for lease %s, its segments %s, the seller's meter %s", b.Job, l.Amount, l.Lease, segments, meter[l.Lease])
			}
		}
		if b.Total != total || b.Compute != compute || b.Credits != credits {
			wrong("the bill of job %s says %s = %s + %s; its lines come to %s = %s + %s", b.Job, b.Total, b.Compute, b.Credits, total, compute, credits)
		}
	}
}
