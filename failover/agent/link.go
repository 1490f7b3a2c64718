package agent

import (
	"slices"
	"time"
)

// pace remembers how long uploads took that had all of the link, to say how long
// the next will.
type pace []sent

type sent struct {
	bytes int64
	took  time.Duration
}

func (p *pace) add(s sent) {
	*p = append(*p, s)
	*p = (*p)[max(0, len(*p)-remembered):]
}

const (
	// unknownRate is what is assumed of a store nobody has measured, in bytes per second.
	unknownRate = 32 << 20
	// unknownTrips is what an upload takes besides its bytes, until a small one has shown it.
	unknownTrips = time.Second
	// fewTrips is below how many bytes an upload's time is round trips and nothing else.
	fewTrips = 64 << 10
)

// expect returns how long an upload of so many bytes takes, by the slowest but
// one in twenty of the last, each scaled to the size. What is scaled down keeps
// what uploads no larger than this took, since their time is mostly round trips. For the
// same reason those of less than a sixteenth of the size say nothing, unless
// there are no others.
func (p pace) expect(bytes int64) time.Duration {
	if len(p) == 0 {
		return at(bytes, unknownRate)
	}
	return p.like(bytes).scaled(bytes, p.trips(bytes))
}

// like are those that say something of an upload of this size.
func (p pace) like(bytes int64) pace {
	out := slices.DeleteFunc(slices.Clone(p), func(s sent) bool { return s.bytes < bytes/16 })
	if len(out) == 0 {
		return p
	}
	return out
}

// rest returns how long the last so many bytes of an upload take: its round trips are behind it.
func (p pace) rest(bytes int64) time.Duration {
	if len(p) == 0 {
		return at(bytes, unknownRate)
	}
	return p.like(bytes).scaled(bytes, lastTrips)
}

// lastTrips is what the end of an upload takes besides its bytes.
const lastTrips = 100 * time.Millisecond

func (p pace) scaled(bytes int64, trips time.Duration) time.Duration {
	scaled := make(recent, len(p))
	for i, s := range p {
		scaled[i] = s.scaled(bytes, trips)
	}
	return scaled.p95(0)
}

// trips is how long an upload takes that has next to nothing to send.
func (p pace) trips(bytes int64) time.Duration {
	var small recent
	for _, s := range p {
		if s.bytes <= max(bytes, fewTrips) {
			small = append(small, s.took)
		}
	}
	return small.p95(unknownTrips)
}

// fastest is the highest rate that was seen, in bytes a second; 0: none was.
func (p pace) fastest() (rate float64) {
	for _, s := range p {
		rate = max(rate, float64(s.bytes)/max(s.took, 1).Seconds())
	}
	return rate
}

// at is how long so many bytes take at a rate in bytes a second, which is more
// than 0; for ever is a thousand hours.
func at(bytes int64, rate float64) time.Duration {
	return time.Duration(min(float64(bytes)/rate, 3.6e6) * float64(time.Second))
}

func (s sent) scaled(bytes int64, trips time.Duration) time.Duration {
	if s.bytes < fewTrips && s.bytes <= bytes { // it says nothing of the link
		return s.took + at(bytes-s.bytes, unknownRate)
	}
	if s.bytes <= 0 {
		return s.took
	}
	took := at(bytes, float64(s.bytes)/max(s.took, 1).Seconds())
	if bytes < s.bytes {
		took = max(took, min(s.took, trips))
	}
	return took
}

// share keeps uploads below a part of what the link carries, so that training,
// which may read its data over the same link, does not feel them. It is pure.
//
// What the link carries is measured by uploads without a limit: the first of a
// machine, which is in a hurry anyway, and every remeasure-th after.
type share struct {
	percent int     // of the link
	link    float64 // bytes a second it carried; 0: not measured
	limited int     // uploads since that were limited
}

const (
	defaultShare = 50
	remeasure    = 8
	telling      = 8 << 20 // bytes from which an upload says something of the link
)

// limit returns the rate for the next upload in bytes a second; 0: none.
func (s *share) limit() int64 {
	if s.percent >= 100 || s.link == 0 || s.limited >= remeasure-1 {
		return 0
	}
	return max(int64(s.link*float64(s.percent)/100), 64<<10)
}

// took takes the measure of an upload that was given a limit, and reports
// whether its time says how long one without would take.
func (s *share) took(up sent, limit int64) bool {
	rate := 0.0
	if up.took > 0 {
		rate = float64(up.bytes) / up.took.Seconds()
	}
	tells := up.bytes >= telling && rate > 0
	slow := rate > 0 && rate < 0.8*float64(limit) // it carries less than was thought
	switch {
	case !tells:
	case limit == 0:
		s.link, s.limited = rate, 0
	case slow:
		s.link = rate
		s.limited++
	default:
		s.limited++
	}
	return limit == 0 || slow
}

// steady is how long an upload takes while nothing presses.
func (s *share) steady(bytes int64, all time.Duration) time.Duration {
	if s.percent >= 100 || s.link == 0 {
		return all
	}
	return max(all, at(bytes, s.link*float64(s.percent)/100))
}

// transfer is a stretch of time in which something is sent, to measure the link by.
type transfer struct {
	began time.Duration
	was   int64 // sent by then
	limit int64 // bytes a second; 0: none
	turn  int   // which limit since the start
}

// transfers begins one: whatever is sent from now on keeps to the limit of now.
func (a *agent) transfers(now time.Duration) transfer {
	a.limit()
	return transfer{now, a.engine.Progress().Sent, a.ship.limit, a.ship.turn}
}

// carried is how much of a transfer can have arrived by now. What the system has
// taken from us may be megabytes ahead of the link.
func (a *agent) carried(t transfer) int64 {
	most := a.ship.pace.fastest() * (a.now() - t.began).Seconds()
	return min(a.engine.Progress().Sent-t.was, int64(most))
}

// limit gives uploads the rate that is right now: their share of the link while
// somebody trains beside them and nobody waits for what is saved.
func (a *agent) limit() {
	s := &a.ship
	limit := int64(0)
	if !a.presses() {
		limit = s.share.limit()
		if limit > 0 { // one without a limit is measured by
			limit = s.spare.within(limit, s.limit)
		}
	}
	if limit == s.limit && s.turn > 0 {
		return
	}
	s.limit = limit
	s.turn++
	a.engine.SetRate(limit)
}

// breathe looks at the processors while something is sent beside training.
func (a *agent) breathe(now time.Duration) {
	s := &a.ship
	if a.cfg.Load == nil || a.presses() || !s.spare.due(now) {
		return
	}
	if l, ok := a.cfg.Load(); ok {
		s.spare.look(now, l, a.engine.Progress().Sent)
		a.limit()
	}
}

// presses reports whether uploads are more urgent than training beside them.
func (a *agent) presses() bool { return a.notice != nil || a.wish != nil || a.stage != training }

// sentIn takes the measure of a transfer. One whose limit has changed on the way
// measures nothing, unless there is nothing else to go by.
func (a *agent) sentIn(t transfer, up sent) {
	s := &a.ship
	switch {
	case s.turn == t.turn:
		if s.share.took(up, t.limit) {
			s.pace.add(up)
		}
	case len(s.pace) == 0:
		s.pace.add(up)
	}
}
