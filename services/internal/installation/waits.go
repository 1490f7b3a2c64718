package installation

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Span is a duration that people write and read: "5s".
type Span time.Duration

// MarshalJSON writes "5s".
func (s Span) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).String()) }

// UnmarshalJSON reads "5s".
func (s *Span) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("duration %.40s: write it as text, such as \"5s\"", b)
	}
	d, err := time.ParseDuration(text)
	*s = Span(d)
	return err
}

// Waits are events.Timers as an operator edits them.
type Waits struct {
	Heartbeat Span `json:"heartbeat"`
	Hold      Span `json:"hold"`
	Lost      Span `json:"lost"`
	Fence     Span `json:"fence"`
	Silence   Span `json:"silence"`
	Settle    Span `json:"settle"`
	GC        Span `json:"gc"`
	Boot      Span `json:"boot"`
	Dwell     Span `json:"dwell"` // market time
}

func waitsOf(t events.Timers) Waits {
	return Waits{
		Span(t.Heartbeat), Span(t.Hold), Span(t.Lost), Span(t.Fence), Span(t.Silence), Span(t.Settle), Span(t.GC), Span(t.Boot), Span(t.Dwell),
	}
}

func (w Waits) timers() events.Timers {
	d := func(s Span) time.Duration { return time.Duration(s) }
	return events.Timers{
		Heartbeat: d(w.Heartbeat), Hold: d(w.Hold), Lost: d(w.Lost), Fence: d(w.Fence), Silence: d(w.Silence), Settle: d(w.Settle),
		GC: d(w.GC), Boot: d(w.Boot), Dwell: d(w.Dwell),
	}
}

// validate sees that the waits stand in an order that makes sense: an agent has
// several heartbeats in a hold, and is given up only after it.
func (w Waits) validate() error {
	for _, f := range []struct {
		name string
		d    Span
	}{
		{"heartbeat", w.Heartbeat}, {"hold", w.Hold}, {"lost", w.Lost}, {"fence", w.Fence}, {"silence", w.Silence},
		{"settle", w.Settle}, {"gc", w.GC}, {"boot", w.Boot}, {"dwell", w.Dwell},
	} {
		if f.d <= 0 {
			return fmt.Errorf("timers.%s is missing: give a duration, such as \"5s\"", f.name)
		}
	}
	switch {
	case w.Hold < 2*w.Heartbeat:
		return fmt.Errorf("timers.hold is %s: at least twice timers.heartbeat (%s), or one lost renewal stops commits", time.Duration(w.Hold), time.Duration(w.Heartbeat))
	case w.Lost < w.Hold:
		return fmt.Errorf("timers.lost is %s: not less than timers.hold (%s), or a machine is replaced that may still commit", time.Duration(w.Lost), time.Duration(w.Hold))
	case w.Silence < w.Lost:
		return fmt.Errorf("timers.silence is %s: not less than timers.lost (%s)", time.Duration(w.Silence), time.Duration(w.Lost))
	}
	return nil
}
