package bench

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
)

var figures = flag.Bool("figures", false, "measure with large numbers and print the table")

// pick is a number for a test, or one for a figure.
func pick(small, large int) int {
	if *figures {
		return large
	}
	return small
}

// stage is a rig that runs until the test ends, with its agents in this process.
type stage struct {
	*rig
	t       *testing.T
	ctx     context.Context
	agents  *puppets
	scratch jetstream.Stream
	asker   *nats.Conn
}

func begin(t *testing.T) *stage {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	all := &puppets{ctx: ctx, all: map[events.LeaseID]*puppet{}}
	r, err := open(t.TempDir(), all.born)
	s := &stage{rig: r, t: t, ctx: ctx, agents: all}
	if err != nil {
		cancel()
		r.stop()
		t.Fatal(err)
	}
	ended := r.run(ctx)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		all.alive.Wait()
		r.stop()
	})
	select {
	case <-r.plane.Ready():
	case err := <-ended:
		ended2 := make(chan error, 1)
		ended = ended2
		ended2 <- nil
		t.Fatal(err)
	}
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// started waits for a start of the job on another machine than the one given.
func (s *stage) started(job events.JobID, before events.LeaseID) {
	s.t.Helper()
	s.must(s.until(s.ctx, fmt.Sprintf("job %s trains", job), func() bool {
		e, ok := s.event(string(job), "job.started")
		return ok && e.Fact.(events.JobStarted).Lease != before
	}))
}

// spread of many measurements.
type spread struct {
	n             int
	p50, p99, max time.Duration
}

func over(d []time.Duration) spread {
	if len(d) == 0 {
		return spread{}
	}
	d = slices.Sorted(slices.Values(d))
	return spread{len(d), d[len(d)/2], d[min(len(d)*99/100, len(d)-1)], d[len(d)-1]}
}

func (s spread) String() string {
	r := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %s, p99 %s, most %s (n=%d)", r(s.p50), r(s.p99), r(s.max), s.n)
}

// figure prints a row of the table.
func figure(t *testing.T, what string, seen, floor time.Duration, note string) {
	t.Helper()
	if *figures {
		fmt.Printf("| %s | %s | %s | %.1fx | %s |\n", what, round(seen), round(floor), float64(seen)/float64(max(floor, 1)), note)
	}
}

func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
