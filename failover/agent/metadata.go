package agent

import (
	"context"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Metadata is what the machine's seller tells it on the machine itself.
type Metadata interface {
	// Warning returns the notice that stands, or nil. An error says neither that
	// there is one nor that it was withdrawn.
	Warning(ctx context.Context) (*Warning, error)
	// UserData returns what the machine was launched with.
	UserData(ctx context.Context) ([]byte, error)
	// Instance returns the seller's name for the machine.
	Instance(ctx context.Context) (events.InstanceID, error)
}

// Warning is a notice as it stands in one answer.
type Warning struct {
	Action string // "terminate", "stop", "hibernate"
	Source string // "imds"
	// Left is the time until the deadline at the moment of the answer, by the
	// answer's own clock and never more than is certain. Known is false when the
	// answer does not say.
	Left  time.Duration
	Known bool
}
