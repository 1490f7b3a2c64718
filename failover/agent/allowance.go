package agent

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// What is sent on the whole, in the long run and at once. A trainer that says
// more keeps the newest of it, like one whose control plane is away.
const (
	maxRate  = 512 << 10 // bytes a second
	maxBurst = 4 << 20
	perLine  = 100 // bytes that a line counts beside its text
)

// allowance is how many bytes may still be sent now.
type allowance struct {
	bytes int
	at    time.Time
}

// raise adds what the time since the last raise allows; the first gives a burst.
func (a *allowance) raise(now time.Time) {
	passed := time.Minute
	if !a.at.IsZero() {
		passed = min(now.Sub(a.at), passed)
	}
	a.bytes, a.at = min(a.bytes+int(passed.Seconds()*maxRate), maxBurst), now
}

// spend takes a batch off; it may go beyond. A nil allowance has no end.
func (a *allowance) spend(b events.LogBatch) {
	for _, l := range b.Lines {
		if a != nil {
			a.bytes -= len(l.Text) + perLine
		}
	}
}

func (a *allowance) spent() bool { return a != nil && a.bytes <= 0 }
