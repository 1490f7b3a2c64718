package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Metadata is what the machine's seller tells it on the machine itself.
type Metadata interface {
	// Warning returns the notice that stands, or nil. An error says neither that
	// there is one nor that it was withdrawn. It takes a second at most, but of a
	// Patient, and is not asked for twice at a time.
	Warning(ctx context.Context) (*Warning, error)
	// UserData returns what the machine was launched with.
	UserData(ctx context.Context) ([]byte, error)
	// Instance returns the seller's name for the machine.
	Instance(ctx context.Context) (events.InstanceID, error)
}

// Warning is a notice as it stands in one answer.
type Warning struct {
	// Action is what becomes of the machine: "terminate", "stop", "hibernate",
	// and of one that is only moved or started again "redeploy", "reboot", "freeze".
	Action string
	Source string // "imds", "gcp", "gcp-maintenance", "azure", "alibaba", "signal"
	// Left is the time until the deadline at the moment of the answer, by the
	// answer's own clock and never more than is certain. Known is false when the
	// answer does not say.
	Left  time.Duration
	Known bool
}

// Patient is a Metadata whose next answer may take longer than a second.
type Patient interface{ Patience() time.Duration }

// Hinter is a Metadata that knows of something that may come to nothing, and for
// which a checkpoint is worth having.
type Hinter interface {
	// Hint returns what is expected, or "". Another text is another hint.
	Hint(ctx context.Context) (string, error)
}

// Acknowledger is a Metadata whose seller can be told that the machine may go.
type Acknowledger interface {
	// Acknowledge has the notice that stood in the last answer carried out at
	// once, if it is of this machine alone, and reports whether it was. The
	// machine may end at any moment from then on.
	Acknowledge(ctx context.Context) (bool, error)
}

// Reader is a Metadata that holds connections.
type Reader interface {
	Metadata
	Close()
}

// OpenMetadata returns the reader for a kind of notice, "" being EC2's. endpoint is
// the value of MetadataEndpointVariable, notice how long the seller warns ahead;
// zero is the usual of either. A machine that is told nothing has EC2's reader
// for all the rest, if an endpoint is given; otherwise there is none, and no error.
func OpenMetadata(kind events.NoticeKind, endpoint string, notice time.Duration) (Reader, error) {
	switch kind {
	case "", events.NoticeEC2:
		return opened(NewIMDS(endpoint))
	case events.NoticeGCP:
		return opened(NewGCP(endpoint, notice))
	case events.NoticeAzure:
		return opened(NewAzure(endpoint))
	case events.NoticeAlibaba:
		return opened(NewAlibaba(endpoint))
	case events.NoticeSignal, events.NoticeNone:
		if endpoint == "" {
			return nil, nil
		}
		return opened(NewIMDS(endpoint))
	}
	return nil, fmt.Errorf("notices of kind %.40q are not known to this agent: update it, or name one of ec2, gcp, azure, alibaba, signal, none", string(kind))
}

// opened keeps a nil pointer from becoming a Reader.
func opened[R Reader](r R, err error) (Reader, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// UsualNotice is the longest warning that a channel gives where nobody has said
// how long it is. It is what an unreadable deadline is taken for, at most.
func UsualNotice(kind events.NoticeKind) time.Duration {
	switch kind {
	case events.NoticeGCP:
		return GCPNotice
	case events.NoticeAzure:
		return azureLongest
	case events.NoticeAlibaba:
		return 5 * time.Minute
	case events.NoticeSignal:
		return 5 * time.Second
	}
	return 2 * time.Minute
}
