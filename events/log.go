package events

import (
	"context"
	"errors"
	"time"
)

// ErrConflict says that another event stands where this one should: read, fold, decide again.
var ErrConflict = errors.New("the aggregate has moved on")

// ErrUnknown says that nobody can tell yet whether the append happened. Read
// the aggregate before doing anything else.
var ErrUnknown = errors.New("outcome of the append unknown")

// ErrRegressed says that a stream is shorter or other than it was: the service must not go on.
var ErrRegressed = errors.New("stream has regressed")

// Log is the bus as the services see it. Implementations are events/natsbus and
// the in-memory one of the tests.
type Log interface {
	// Append writes e to its aggregate if e.Sequence follows the aggregate's
	// newest event, whose Position is after (0: there is none). It returns e with its Position.
	// The same event appended twice stands once and gives the same answer.
	// Errors: ErrConflict, ErrUnknown, or the context's.
	Append(ctx context.Context, after uint64, e Event) (Event, error)

	// Publish writes a fact that belongs to no aggregate (offers). At least once, no order across subjects.
	Publish(ctx context.Context, e Event) error

	// Read returns the aggregate's events with Position > after, oldest first,
	// as the leader has them. An aggregate that does not exist is empty.
	Read(ctx context.Context, a Aggregate, after uint64) ([]Event, error)

	// Find returns the aggregate of the job whatever its organisation, or false.
	Find(ctx context.Context, job JobID) (Aggregate, bool, error)

	// Consume calls handle for every event that matches, oldest first, until ctx
	// ends; it returns nil then. An error from handle, which is logged, brings the
	// event back later; an event that cannot be decoded is dead-lettered and
	// counted. Acknowledging is the last thing that happens.
	Consume(ctx context.Context, s Subscription, handle func(context.Context, Event) error) error
}

// Subscription says what to consume.
type Subscription struct {
	// Name of the durable consumer, shared by the replicas of a service. Empty: a
	// private one from the beginning of the stream (or Last), gone with ctx.
	Name string
	// Filters are subject wildcards of one stream, e.g. FilterJobs.
	Filters []string
	// Last starts with the newest event of each subject instead of the oldest (private only).
	Last bool
	// From starts at a stream position instead (private only).
	From uint64
	// CaughtUp, if not nil, is called once when everything that was there at the start has been handled (private only).
	CaughtUp func()
	// Wait is how long handle may take before another replica gets the event;
	// the implementation reports progress while handle runs. 0: 30 s.
	Wait time.Duration
}

// Filters for Subscription.
const (
	FilterJobs    = subjectRoot + "job.>"
	FilterLeases  = subjectRoot + "lease.>"
	FilterMoney   = subjectRoot + "money.>"
	FilterOps     = subjectRoot + "ops.>"
	FilterOffers  = subjectRoot + "offer.>"
	FilterSignals = subjectRoot + "signal.>"
	// FilterClosed matches the end of every job, FilterBudgets every change of a job's budget.
	FilterClosed  = subjectRoot + "job.*.*.closed"
	FilterBudgets = subjectRoot + "money.*.budget-set"
)

// Subjects that carry no events.
const (
	// SubjectSignal is followed by <org>.<job>.<epoch>: the newest Heartbeat, JSON.
	SubjectSignal = subjectRoot + "signal."
	// SubjectLog is followed by <org>.<job>.<epoch>: LogBatch, JSON.
	SubjectLog = subjectRoot + "log."
	// SubjectDead is followed by <stream>.<consumer>: dead letters by reference.
	SubjectDead = subjectRoot + "dlq."
)
