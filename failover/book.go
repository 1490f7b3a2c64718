package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spotferry/spotferry/events"
)

// ErrNoJob says that no job of that id was ever submitted.
var ErrNoJob = errors.New("no such job")

// Book keeps jobs folded and is the one way to append to them. It caches; the
// log is the truth, and every append is a compare-and-set against it, so any
// number of Books may work on the same jobs.
type Book struct {
	log events.Log
	now func() events.Moment

	mu   sync.Mutex
	jobs map[events.JobID]*entry
}

// entry is one job. Whoever asks the log about it has the turn; the fold itself
// can be looked at meanwhile, however slow the log is.
type entry struct {
	turn chan struct{} // full while somebody has it
	mu   sync.Mutex
	job  Job // as last folded
}

func (e *entry) get() Job {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.job
}

// fold takes an event, if it is the next, and returns the job with it.
func (e *entry) fold(ev events.Event) Job {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.job = Fold(e.job, ev)
	return e.job
}

// enter waits for the turn.
func (e *entry) enter(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *entry) leave() { <-e.turn }

// NewBook returns an empty Book over log.
func NewBook(log events.Log, now func() events.Moment) *Book {
	return &Book{log: log, now: now, jobs: map[events.JobID]*entry{}}
}

func (b *Book) entry(id events.JobID) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.jobs[id]
	if !ok {
		e = &entry{turn: make(chan struct{}, 1)}
		b.jobs[id] = e
	}
	return e
}

// Job returns the job as the leader of the log has it.
func (b *Book) Job(ctx context.Context, id events.JobID) (Job, error) {
	e := b.entry(id)
	if err := e.enter(ctx); err != nil {
		return Job{}, err
	}
	defer e.leave()
	if err := b.refresh(ctx, id, e); err != nil {
		return Job{}, err
	}
	j := e.get()
	if j.Sequence == 0 {
		return Job{}, fmt.Errorf("job %s: %w", id, ErrNoJob)
	}
	return j, nil
}

// Observe folds an event that some consumer delivered, if it is the next. It
// saves a read; it is never needed.
func (b *Book) Observe(ev events.Event) Job {
	return b.entry(events.JobID(ev.Aggregate.ID)).fold(ev)
}

// Cached returns the job as last folded, without asking the log or waiting for it.
func (b *Book) Cached(id events.JobID) (Job, bool) {
	j := b.entry(id).get()
	return j, j.Sequence > 0
}

// refresh reads what the log has beyond the cache. A job that the cache does not
// know is looked for under every organisation: ids are unique across them.
func (b *Book) refresh(ctx context.Context, id events.JobID, e *entry) error {
	j := e.get()
	agg := j.Aggregate
	if j.Sequence == 0 {
		found, ok, err := b.log.Find(ctx, id)
		if err != nil {
			return fmt.Errorf("finding job %s: %w", id, err)
		}
		if !ok {
			return nil
		}
		agg = found
	}
	evs, err := b.log.Read(ctx, agg, j.Position)
	if err != nil {
		return fmt.Errorf("reading job %s: %w", id, err)
	}
	for _, ev := range evs {
		e.fold(ev)
	}
	return nil
}

// Apply is how a job changes: read, fold, Step, append, and again when somebody
// else was faster. It returns the job afterwards and the events appended, none
// if the input changed nothing; one whose acknowledgement got lost is not among
// them. Errors: ErrNoJob, a *Refused, or the log's.
func (b *Book) Apply(ctx context.Context, id events.JobID, in Input) (Job, []events.Event, error) {
	return b.apply(ctx, id, events.Aggregate{}, in)
}

// Submit opens a job in an organisation; a job that is there already is returned as it is.
func (b *Book) Submit(ctx context.Context, id events.JobID, in Submit) (Job, error) {
	j, _, err := b.apply(ctx, id, events.JobAggregate(in.Attribution.Org, id), in)
	return j, err
}

// maxTries bounds how often one input is decided anew. Each lost race means that
// somebody else got through, so it is reached only when something is wrong.
const maxTries = 1000

func (b *Book) apply(ctx context.Context, id events.JobID, create events.Aggregate, in Input) (Job, []events.Event, error) {
	e := b.entry(id)
	if err := e.enter(ctx); err != nil {
		return Job{}, nil, err
	}
	defer e.leave()
	var ours []events.Event
	for range maxTries {
		if err := b.refresh(ctx, id, e); err != nil {
			return Job{}, ours, err
		}
		j := e.get()
		if j.Sequence == 0 {
			if create.Kind == "" {
				return Job{}, nil, fmt.Errorf("job %s: %w", id, ErrNoJob)
			}
			j.ID, j.Aggregate = id, create
		}
		if err := Refuse(j, b.now(), in); err != nil && len(ours) == 0 {
			return j, nil, err
		}
		appended, err := b.append(ctx, e, j, in)
		ours = append(ours, appended...)
		switch {
		case err == nil:
			return e.get(), ours, nil
		case ctx.Err() != nil:
			return Job{}, ours, ctx.Err()
		case !errors.Is(err, events.ErrConflict) && !errors.Is(err, events.ErrUnknown):
			return Job{}, ours, fmt.Errorf("appending to job %s: %w", id, err)
		}
	}
	return Job{}, ours, fmt.Errorf("appending to job %s: %d races lost in a row", id, maxTries)
}

// append steps j and appends what comes of it, folding each event as the log has
// it, and returns those that stand for certain. Each is expected to follow the
// one before: what an observer folds in between is somebody else's, and was not
// decided on.
func (b *Book) append(ctx context.Context, e *entry, j Job, in Input) ([]events.Event, error) {
	_, drafts := Step(j, b.now(), in)
	last, position := j.last, j.Position
	for i, d := range drafts {
		next, err := events.Follow(d.Aggregate, last, d.Fact)
		if err != nil {
			return drafts[:i], err
		}
		d.Prev = next.Prev
		stored, err := b.log.Append(ctx, position, d)
		if err != nil {
			return drafts[:i], err
		}
		e.fold(stored)
		drafts[i] = stored
		last, position = &drafts[i], stored.Position
	}
	return drafts, nil
}
