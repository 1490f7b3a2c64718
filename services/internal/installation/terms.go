package installation

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

// Terms are what an installation fixes for its whole life.
type Terms struct {
	Version string      `json:"version"` // of the program that made it
	Created time.Time   `json:"created"`
	Org     string      `json:"org"`
	Mark    string      `json:"mark"` // on every machine bought from here
	Clock   trace.Clock `json:"clock"`
	Market  trace.Spec  `json:"market"` // of the local seller
	Divide  int         `json:"divide"` // of the default timers
}

// Wish is what may be chosen when terms are made. Zero fields mean their defaults.
type Wish struct {
	Version string
	Org     string
	Seller  string     // in the name of every pool of the market; "local"
	Market  trace.Spec // a seeded model
	Scale   int64      // market seconds in a second; 1
	Divide  int        // of the default timers; 1
}

// NewTerms fixes the terms of an installation made now.
func NewTerms(now time.Time, w Wish) (Terms, error) {
	mark := make([]byte, 6)
	if _, err := rand.Read(mark); err != nil {
		return Terms{}, err
	}
	market0 := now
	if w.Market.Kind == "files" { // a recording begins with the first instant of its tick
		tick := int64(trace.TickLength / time.Second)
		market0 = time.Unix(now.Unix()/tick*tick, 0)
	}
	t := Terms{
		Version: w.Version, Created: now.UTC(), Org: w.Org, Mark: "sf-" + hex.EncodeToString(mark),
		Clock: trace.NewClock(now, market0, max(w.Scale, 1)), Market: w.Market, Divide: max(w.Divide, 1),
	}
	if t.Market.Kind == "" {
		t.Market = trace.Spec{Kind: "model", Seed: 1}
	}
	t.Market.Seller = w.Seller
	if t.Market.Origin.IsZero() {
		t.Market.Origin = t.Clock.Market0
	}
	if t.Market.Scale == 0 {
		t.Market.Scale = t.Clock.Scale
	}
	return t, t.Market.Validate()
}

// Validate says which term cannot be used.
func (t Terms) Validate() error { return errors.Join(t.Market.Validate(), t.Clock.Validate()) }

// Timers are the settled ones, divided as the terms say.
func (t Terms) Timers() events.Timers { return events.DefaultTimers().Divide(max(t.Divide, 1)) }

// Poll is how often sellers are asked, control time: once a heartbeat, and not
// more than five times a second.
func (t Terms) Poll() time.Duration { return max(t.Timers().Heartbeat, 200*time.Millisecond) }
