package bidder

import (
	"context"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
)

// situation gathers what a decision about a job is made from.
func (s *Service) situation(ctx context.Context, j job, now events.Moment, avoid []events.Pool) (Situation, error) {
	offers := s.cfg.Market.Offers()
	in := s.inputs(j, now, avoid)
	s.history(&in, j, now, offers)
	decided, err := s.ops.State(ctx, j.org)
	if err != nil {
		return Situation{}, err
	}
	in.Holds, in.Frozen = decided.Recorded()
	err = s.cfg.Book.View(ctx, j.org, func(st *ledger.State) {
		a := st.Account(j.id)
		in.Budget, in.Spent, in.Reserved, in.MoneyAt = a.Limit, a.Spent, a.Reserved, st.Sequence()
		if !a.Set {
			in.Budget = j.spec.Policy.Budget
		}
	})
	return Situation{Now: now, Spec: j.spec, Inputs: in, Quotes: s.quotes(offers, now)}, err
}

// inputs are the figures that come from the job itself and from what was measured.
func (s *Service) inputs(j job, now events.Moment, avoid []events.Pool) events.Inputs {
	in := events.Inputs{
		Spec: j.submitted, Step: j.step(), WorkLeftS: -1, TimeLeftS: -1, WindowS: -1,
		RestartS: seconds(s.market(s.restart())), AcquireS: seconds(s.market(s.acquireTime())),
		Avoid: avoid, CommitMS: -1, FreshMS: (2 * s.cfg.Timers.Heartbeat).Milliseconds(),
		DwellS: seconds(s.dwell(j)), HorizonS: seconds(s.horizon(j)), TeardownS: seconds(s.market(s.cfg.Teardown)),
		RetryMS: s.cfg.Retry.Milliseconds(), Scale: s.cfg.Scale, SaveMS: s.market(j.save).Milliseconds(),
	}
	if left, ok := j.workLeft(s.cfg.Scale); ok {
		in.WorkLeftS = seconds(left)
	}
	if end := j.spec.Policy.Deadline; !end.IsZero() {
		in.TimeLeftS, in.WindowS = seconds(end.Sub(now.Market)), seconds(end.Sub(j.began))
	}
	if j.commit != nil {
		in.StateBytes = j.commit.Bytes
		if !j.committed.IsZero() {
			in.CommitMS = now.Control.Sub(j.committed).Milliseconds()
		}
	}
	if !j.idle.IsZero() {
		in.WaitingS = seconds(s.market(now.Control.Sub(j.idle)))
	}
	return in
}

// history adds what the leases tell: reclaims, cool-downs, the last voluntary move.
func (s *Service) history(in *events.Inputs, j job, now events.Moment, offers []events.Offer) {
	for _, l := range s.world.leasesOf(j.id) {
		if l.phase == ended && l.end.EndedBy == "seller" && now.Market.Sub(l.end.Ended) <= time.Hour {
			in.Reclaims++
		}
		if l.intent.Purpose.Voluntary() && l.phase != refused && l.intent.Decision.Market.After(in.LastMove) {
			in.LastMove = l.intent.Decision.Market
		}
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	in.CoolDowns = s.world.pools.at(now.Control, offers)
}

func (s *Service) quotes(offers []events.Offer, now events.Moment) []Quote {
	out := make([]Quote, 0, len(offers))
	for _, o := range offers {
		q := Quote{Offer: o, Stood: s.stood.of(o.Pool, now.Market)}
		if o.Pool.Capacity.Reclaimable() {
			q.Hazard, q.Life = s.cfg.Market.Rate(o.Pool, 0)
		}
		out = append(out, q)
	}
	return out
}

// restart is what a move costs, p99 of those seen. One that took longer than a
// machine may take to boot was an outage, of ours or of a network: taken for a
// restart it would bar every pool for as long as it is remembered.
func (s *Service) restart() time.Duration {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return min(s.world.restarts.p99(s.cfg.Restart), s.cfg.Timers.Boot)
}

func (s *Service) acquireTime() time.Duration {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.acquires.p99(s.cfg.Acquire)
}

func (s *Service) dwell(j job) time.Duration {
	if d := j.spec.Policy.Spot.DwellS; d > 0 {
		return time.Duration(d) * time.Second
	}
	return s.cfg.Timers.Dwell
}

// seconds rounds up: a little less time than there is does no harm, nor does a little more work.
func seconds(d time.Duration) int64 {
	q := int64(d / time.Second)
	if d%time.Second > 0 {
		q++
	}
	return q
}

// without returns the avoided pools of a command and those already tried for it.
func without(c events.Command, tried []events.Pool) []events.Pool {
	out := slices.Clone(c.Avoid)
	for _, p := range tried {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
