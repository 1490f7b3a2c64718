package chaos

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover"
)

// recorder reads the streams of truth as they grow and remembers what it saw. What
// a consumer is given was stored before, and stored means fsynced: it was, or could
// have been, acknowledged. It folds jobs and leases with the rules that the services
// use, but from its own copy.
type recorder struct {
	nc *nats.Conn
	js jetstream.JetStream

	mu     sync.Mutex
	seen   map[string][][32]byte // by stream; the message at sequence n is at n-1
	jobs   map[events.JobID]failover.Job
	names  map[string]events.JobID
	leases map[events.LeaseID]events.Event // the newest of each
	newest map[string]events.Event         // of each aggregate
	all    []events.Event                  // of jobs
	wrong  []string
	void   int // messages that are no events
}

func newRecorder(nc *nats.Conn) (*recorder, error) {
	js, err := jetstream.New(nc)
	return &recorder{
		nc: nc, js: js, seen: map[string][][32]byte{}, jobs: map[events.JobID]failover.Job{}, names: map[string]events.JobID{},
		leases: map[events.LeaseID]events.Event{}, newest: map[string]events.Event{},
	}, err
}

// run records until ctx ends, whatever becomes of the bus meanwhile.
func (r *recorder) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, stream := range natsbus.TruthStreams() {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = r.follow(ctx, stream)
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	wg.Wait()
}

// follow reads a stream from where it was left until something breaks.
func (r *recorder) follow(ctx context.Context, stream string) error {
	r.mu.Lock()
	next := uint64(len(r.seen[stream]) + 1)
	r.mu.Unlock()
	c, err := r.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: next, MaxResetAttempts: 2,
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
		if !r.take(stream, meta.Sequence.Stream, m.Subject(), m.Headers(), m.Data()) {
			return errors.New("out of order")
		}
	}
}

// take remembers one message, and reports whether it is the next, or one seen before.
func (r *recorder) take(stream string, sequence uint64, subject string, h nats.Header, body []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := digest(subject, h, body)
	switch n := uint64(len(r.seen[stream])); {
	case sequence > n+1:
		return false
	case sequence <= n:
		if r.seen[stream][sequence-1] != sum {
			r.fail("stream %s, sequence %d: another message stands where one was acknowledged", stream, sequence)
		}
		return true
	}
	r.seen[stream] = append(r.seen[stream], sum)
	e, err := events.Decode(events.Message{Subject: subject, Header: h, Body: body})
	if err != nil {
		r.void++ // nonsense of ours
		return true
	}
	e.Position = sequence
	r.chain(e)
	r.fold(e)
	return true
}

// digest covers what was published, and nothing that a server adds on delivery.
func digest(subject string, h nats.Header, body []byte) [32]byte {
	s := sha256.New()
	fmt.Fprintf(s, "%s\x00", subject)
	for _, k := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(s, "%s\x00%q\x00", k, h[k])
	}
	s.Write(body)
	return [32]byte(s.Sum(nil))
}

// chain checks that an aggregate's events number on and name the hash of the one before.
func (r *recorder) chain(e events.Event) {
	key := e.Aggregate.Kind + " " + e.Aggregate.Key()
	before, known := r.newest[key]
	switch {
	case !known && e.Sequence != 1:
		r.fail("%s begins with number %d", key, e.Sequence)
	case known && e.Sequence != before.Sequence+1:
		r.fail("%s: number %d follows number %d", key, e.Sequence, before.Sequence)
	case known:
		if hash, err := before.Hash(); err != nil || e.Prev != hash {
			r.fail("%s: event %s does not name the hash of %s", key, e.ID, before.ID)
		}
	}
	r.newest[key] = e
}

func (r *recorder) fold(e events.Event) {
	switch e.Aggregate.Kind {
	case "job":
		id := events.JobID(e.Aggregate.ID)
		j := failover.Fold(r.jobs[id], e)
		r.jobs[id] = j
		if j.Spec.Name != "" {
			r.names[j.Spec.Name] = id
		}
		r.all = append(r.all, e)
	case "lease":
		r.leases[events.LeaseID(e.Aggregate.ID)] = e
	}
}

func (r *recorder) fail(format string, args ...any) {
	if len(r.wrong) < 50 {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

// job returns the job of a name, or false.
func (r *recorder) job(name string) (failover.Job, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, ok := r.names[name]
	return r.jobs[id], ok
}

// open are the jobs that are not closed, by id.
func (r *recorder) open() (out []failover.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.jobs)) {
		if j := r.jobs[id]; !j.Closed {
			out = append(out, j)
		}
	}
	return out
}

// states is one line: what every open job is doing.
func states(jobs []failover.Job) (text string, moving bool) {
	var words []string
	for _, j := range jobs {
		word := j.Spec.Name + " " + j.Status()
		if inside(j) {
			word, moving = word+" in a failover", true
		}
		words = append(words, word)
	}
	return strings.Join(words, ", "), moving
}

// inside says whether a job is between the first sign and the first step elsewhere,
// and does not just wait for a market that has nothing.
func inside(j failover.Job) bool {
	return j.Move != nil && j.Move.From.Epoch > 0 && !j.Over() && j.Phase != failover.Waiting
}

// events returns the job events of a type so far.
func ofType[F events.Fact](r *recorder) (out []events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		if _, ok := e.Fact.(F); ok {
			out = append(out, e)
		}
	}
	return out
}

// verify reads every remembered message again, from the server as it is now.
func (r *recorder) verify(ctx context.Context) (checked int, err error) {
	for _, name := range natsbus.TruthStreams() {
		s, err := r.js.Stream(ctx, name)
		if err != nil {
			return checked, err
		}
		r.mu.Lock()
		n := uint64(len(r.seen[name]))
		r.mu.Unlock()
		if last := s.CachedInfo().State; last.LastSeq < n || last.NumDeleted > 0 || last.FirstSeq > 1 {
			r.lost("stream %s had reached sequence %d and is now %d to %d, %d deleted", name, n, last.FirstSeq, last.LastSeq, last.NumDeleted)
		}
		for seq := uint64(1); seq <= n; seq++ {
			m, err := s.GetMsg(ctx, seq)
			if err != nil {
				r.lost("stream %s, sequence %d: %v", name, seq, err)
				continue
			}
			r.mu.Lock()
			if r.seen[name][seq-1] != digest(m.Subject, m.Header, m.Data) {
				r.fail("stream %s, sequence %d: the message has changed", name, seq)
			}
			r.mu.Unlock()
			checked++
		}
	}
	return checked, nil
}

func (r *recorder) lost(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail(format, args...)
}

// newestLines are the last job events, for whoever looks into a failure.
func (r *recorder) newestLines(n int) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all[max(0, len(r.all)-n):] {
		row, _ := events.TypeOf(e.Fact)
		out = append(out, fmt.Sprintf("%s %s.%s %s %.300s", e.Time.Format("15:04:05.000"), row.Family, row.Event, e.ID, fmt.Sprintf("%+v", e.Fact)))
	}
	return out
}

// whyWaiting says of every purchase that was declined last what spoke against each candidate.
func (r *recorder) whyWaiting() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, e := range r.leases {
		f, declined := e.Fact.(events.LeaseDeclined)
		if j := r.jobs[id.Job()]; !declined || j.Closed {
			continue
		}
		for _, c := range f.Decision.Candidates {
			out = append(out, fmt.Sprintf("%s at %s: %s: %s", id, e.Time.Format("15:04:05"), c.Offer.Pool, c.WhyNot))
		}
	}
	slices.Sort(out)
	return out
}

// openLeases are those that nobody knows the end of, with their newest event.
func (r *recorder) openLeases() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, e := range r.leases {
		switch e.Fact.(type) {
		case events.LeaseEnded, events.LeaseRefused, events.LeaseDeclined:
		default:
			out = append(out, fmt.Sprintf("%s (%T)", id, e.Fact))
		}
	}
	slices.Sort(out)
	return out
}
