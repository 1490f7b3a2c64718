package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/events"
)

// TestNoticesAtOnce warns every machine at the same moment and waits until a
// machine is ordered for every job: the intent of the purchase is in the log, and
// the money for it is reserved.
func TestNoticesAtOnce(t *testing.T) {
	sizes := []int{3, 10}
	if *figures {
		sizes = []int{10, 100, 1000}
	}
	var before time.Duration
	for _, n := range sizes {
		var last time.Duration
		t.Run(fmt.Sprint(n, " jobs"), func(t *testing.T) { last = storm(t, n) })
		if before > 0 {
			t.Logf("%d jobs: %.1f times as long as for a tenth", n, float64(last)/float64(before))
		}
		before = last
	}
}

func storm(t *testing.T, n int) time.Duration {
	s := begin(t)
	jobs := s.settle(n)
	floors := over([]time.Duration{s.floor(t), s.floor(t), s.floor(t)})
	machines := map[events.JobID]events.LeaseID{}
	for _, j := range jobs {
		e, _ := s.event(string(j), "job.started")
		machines[j] = e.Fact.(events.JobStarted).Lease
	}
	began := time.Now()
	for _, j := range jobs {
		s.agents.of(machines[j]).warned(nil)
	}
	var asked, ordered []time.Duration
	for _, j := range jobs {
		next := string(j.Lease(2, 1))
		s.must(s.until(s.ctx, fmt.Sprintf("a machine is ordered for %s", j), func() bool {
			_, ok := s.event(next, "lease.intended")
			return ok
		}))
		noticed, _ := s.event(string(j), "job.noticed")
		intended, _ := s.event(next, "lease.intended")
		asked, ordered = append(asked, noticed.Time.Sub(began)), append(ordered, intended.Time.Sub(began))
	}
	s.must(s.agents.err())
	t.Logf("%d notices at once: on record after %s; replacement ordered after %s; ten appends and round trips take %s", n, over(asked), over(ordered), floors.p50)
	last := slices.Max(ordered)
	figure(t, fmt.Sprintf("%d notices at once, until the last replacement is ordered", n), last, floors.p50,
		fmt.Sprintf("%s a job; the last notice is on record after %s", round(last/time.Duration(n)), round(slices.Max(asked))))
	return last
}

// settle submits n jobs and waits until all of them train.
func (s *stage) settle(n int) []events.JobID {
	s.t.Helper()
	jobs := make([]events.JobID, n)
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() (err error) {
			jobs[i], err = s.submit(s.ctx, i+1)
			return err
		})
	}
	s.must(g.Wait())
	for _, j := range jobs {
		s.started(j, "")
	}
	s.must(s.agents.err())
	return jobs
}
