package market

import (
	"math"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Age is what predicts reclaims best: in every recorded market a machine in its
// first hour is taken back two to ten times as often as an older one.
type Age int

// The two ages, split at YoungFor of market time.
const (
	Young Age = iota
	Old
	ages
)

// YoungFor is where the hazard changes.
const YoungFor = time.Hour

// RateConfig configures ReclaimRate. Zero fields mean their defaults.
type RateConfig struct {
	// Prior is the hazard of a pool and a type nobody has been in, reclaims per market hour by age.
	// 1.0 and 0.2: the medians over the recorded zones, rounded.
	Prior [2]float64
	// HalfLife is the market time after which an observation counts half; 7 days.
	HalfLife time.Duration
}

func (c RateConfig) withDefaults() RateConfig {
	if c.Prior == [2]float64{} {
		c.Prior = [2]float64{1.0, 0.2}
	}
	set(&c.HalfLife, 7*24*time.Hour)
	return c
}

// ReclaimRate measures how often each pool takes machines back, by age, from
// lease events. A machine that ended otherwise, or still lives, is exposure without a
// reclaim: leaving it out would make every pool look worse than it is.
//
// It is a fold: the same events give the same rates, an event that comes twice
// counts once. It reads no clock, all its times are market time, and its owner guards it.
type ReclaimRate struct {
	cfg   RateConfig
	pools map[events.Pool]*record
	open  map[events.LeaseID]exposure
	done  map[events.LeaseID]time.Time // ended, and when
	asOf  time.Time                    // newest end
}

// exposure is a lease that has not ended. Its start is zero until it is launched.
type exposure struct {
	pool  events.Pool
	start time.Time
}

type record [ages]tally

// tally is reclaims and hours of exposure, each weighted by its age at the time at.
type tally struct {
	Reclaims float64   `json:"reclaims"`
	Hours    float64   `json:"hours"`
	N        int       `json:"n"` // machines that were this old
	At       time.Time `json:"market_at"`
}

// NewReclaimRate returns a measurement that has seen nothing.
func NewReclaimRate(cfg RateConfig) *ReclaimRate {
	return &ReclaimRate{
		cfg: cfg.withDefaults(), pools: map[events.Pool]*record{},
		open: map[events.LeaseID]exposure{}, done: map[events.LeaseID]time.Time{},
	}
}

// Apply takes a lease event; others change nothing.
func (r *ReclaimRate) Apply(e events.Event) {
	lease := events.LeaseID(e.Aggregate.ID)
	if _, ended := r.done[lease]; ended || e.Aggregate.Kind != "lease" {
		return
	}
	switch f := e.Fact.(type) {
	case events.LeaseIntended:
		if x, ok := r.open[lease]; !ok || x.pool == (events.Pool{}) {
			r.open[lease] = exposure{f.Offer.Pool, x.start}
		}
	case events.LeaseLaunched:
		r.open[lease] = exposure{r.open[lease].pool, f.Started}
	case events.LeaseRefused, events.LeaseDeclined:
		delete(r.open, lease)
	case events.LeaseEnded:
		r.end(lease, f)
	}
}

func (r *ReclaimRate) end(lease events.LeaseID, f events.LeaseEnded) {
	delete(r.open, lease)
	r.done[lease] = f.Ended
	if f.Ended.After(r.asOf) {
		r.asOf = f.Ended
		r.forget()
	}
	if f.Ended.Before(f.Started) || f.Started.IsZero() {
		return
	}
	p := r.pools[f.Pool]
	if p == nil {
		p = &record{}
		r.pools[f.Pool] = p
	}
	p.add(f.Started, f.Ended, f.EndedBy == "seller", r.cfg.HalfLife)
}

// forget bounds the memory of leases that ended: two half-lives is far beyond any redelivery.
func (r *ReclaimRate) forget() {
	for lease, ended := range r.done {
		if r.asOf.Sub(ended) > 2*r.cfg.HalfLife {
			delete(r.done, lease)
		}
	}
}

// add counts a life from start to end.
func (p *record) add(start, end time.Time, reclaimed bool, halfLife time.Duration) {
	grown := start.Add(YoungFor)
	p[Young].expose(start, earliest(end, grown), halfLife)
	at := Young
	if end.After(grown) {
		p[Old].expose(grown, end, halfLife)
		at = Old
	}
	if reclaimed {
		p[at].age(end, halfLife)
		p[at].Reclaims += weight(p[at].At.Sub(end), halfLife)
	}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// weight is what an observation counts that is so old.
func weight(old, halfLife time.Duration) float64 {
	return math.Exp2(-float64(old) / float64(halfLife))
}

// age moves the time that weights refer to forward to at least to.
func (t *tally) age(to time.Time, halfLife time.Duration) {
	if t.At.IsZero() {
		t.At = to
	}
	if !to.After(t.At) {
		return
	}
	w := weight(to.Sub(t.At), halfLife)
	t.Reclaims, t.Hours, t.At = t.Reclaims*w, t.Hours*w, to
}

// expose adds the time from a to b, each moment of it weighted by its own age.
func (t *tally) expose(a, b time.Time, halfLife time.Duration) {
	t.age(b, halfLife)
	t.N++
	perLife := halfLife.Hours() / math.Ln2
	t.Hours += perLife * (weight(t.At.Sub(b), halfLife) - weight(t.At.Sub(a), halfLife))
}
