package kills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover"
)

// commit is a commit as it stands in the record.
type commit struct {
	job events.JobID
	events.JobCommitted
	at time.Time
}

// recorder follows the stream of jobs, beside the system and from its own copy.
type recorder struct {
	js        jetstream.JetStream
	committed func(commit)

	mu      sync.Mutex
	next    uint64
	jobs    map[events.JobID]failover.Job
	newest  map[events.JobID]events.Event
	commits map[events.JobID][]commit
	moved   map[events.JobID][]events.Failover
	lines   map[events.JobID][]string
	wrong   []string
}

func newRecorder(log *natsbus.Log, committed func(commit)) *recorder {
	return &recorder{js: log.JetStream(), committed: committed, next: 1, jobs: map[events.JobID]failover.Job{}, newest: map[events.JobID]events.Event{},
		commits: map[events.JobID][]commit{}, moved: map[events.JobID][]events.Failover{}, lines: map[events.JobID][]string{}}
}

// run records until ctx ends, whatever becomes of the bus meanwhile.
func (r *recorder) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = r.follow(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (r *recorder) follow(ctx context.Context) error {
	c, err := r.js.OrderedConsumer(ctx, natsbus.TruthStreams()[0], jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.FilterJobs, events.FilterLeases}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.next, MaxResetAttempts: 2,
	})
	if err != nil {
		return err
	}
	it, err := c.Messages(jetstream.PullExpiry(3 * time.Second))
	if err != nil {
		return err
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Stream < r.next {
			return errors.New("out of order")
		}
		e, err := events.Decode(events.Message{Subject: m.Subject(), Header: m.Headers(), Body: m.Data()})
		if err != nil {
			r.fail("stream sequence %d is no event: %v", meta.Sequence.Stream, err)
			continue
		}
		e.Position = meta.Sequence.Stream
		r.next = e.Position + 1
		r.take(e)
	}
}

// take folds one event, and checks that it follows the one before. What happens to
// leases is only kept for messages.
func (r *recorder) take(e events.Event) {
	id := events.JobID(e.Aggregate.ID)
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Aggregate.Kind == "lease" {
		r.line(events.LeaseID(id).Job(), e)
		return
	}
	before, known := r.newest[id]
	if hash, err := before.Hash(); known && (err != nil || e.Prev != hash || e.Sequence != before.Sequence+1) || !known && e.Sequence != 1 {
		r.fail("job %s: event %s does not follow %s", id, e.ID, before.ID)
	}
	r.newest[id] = e
	was := r.jobs[id]
	r.jobs[id] = failover.Fold(was, e)
	r.line(id, e)
	switch f := e.Fact.(type) {
	case events.JobPlaced:
		if f.Epoch <= was.Epoch {
			r.fail("job %s: epoch %d is placed after epoch %d", id, f.Epoch, was.Epoch)
		}
	case events.JobFailedOver:
		r.moved[id] = append(r.moved[id], f.Record)
	case events.JobCommitted:
		if f.Epoch != was.Epoch || f.Checkpoint.Epoch != f.Epoch {
			r.fail("job %s: a commit of epoch %d stands in epoch %d", id, f.Epoch, was.Epoch)
			return
		}
		if n := len(r.commits[id]); n > 0 && r.commits[id][n-1].Checkpoint.Name == f.Checkpoint.Name {
			return // once more, as the last
		}
		c := commit{id, f, e.Time}
		r.commits[id] = append(r.commits[id], c)
		r.committed(c)
	}
}

// line keeps an event for a message.
func (r *recorder) line(id events.JobID, e events.Event) {
	row, _ := events.TypeOf(e.Fact)
	fact, _ := json.Marshal(e.Fact)
	r.lines[id] = append(r.lines[id], fmt.Sprintf("%s %s.%s %.400s", e.Time.Format("15:04:05.000"), row.Family, row.Event, fact))
}

// fail is called with the lock held, or before there is anybody else.
func (r *recorder) fail(format string, args ...any) {
	if len(r.wrong) < 50 {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

func (r *recorder) job(id events.JobID) failover.Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[id]
}

func (r *recorder) commitsOf(id events.JobID) []commit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.commits[id])
}

func (r *recorder) ids() []events.JobID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.jobs))
}

// moves says why an epoch of a job began.
func (r *recorder) moves(id events.JobID, epoch int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.moved[id] {
		if m.To.Epoch == epoch {
			return fmt.Sprintf("%s: %s", m.Cause, m.Detail)
		}
	}
	return "no record says why"
}

// history is the end of what was recorded of a job, for a message.
func (r *recorder) history(id events.JobID, n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.lines[id]
	return slices.Clone(all[max(0, len(all)-n):])
}
