package figures

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// Failovers are the figures of jobs and of their moves.
func Failovers(c Config) []follow {
	m := maker{c.Registerer}
	f := &failovers{
		jobs: map[events.JobID]failover.Job{}, began: map[events.JobID]time.Time{},
		notice: m.histogram("notice_seconds", "Time that sellers gave from a notice's first sight to its deadline.", waits()),
		phases: m.histogram("failover_phase_seconds", "How long each phase of a failover took.", waits(), "phase"),
		total:  m.counter("failovers_total", "Moves that came to an end, by what set them off and what became of them: done, or abandoned.", "trigger", "result"),
		lost:   m.counter("lost_work_seconds_total", "Time of training that was done again.").WithLabelValues(),
		cost:   m.counter("lost_work_dollars_total", "What that time had cost.").WithLabelValues(),
	}
	m.scraped("failover_oldest_seconds", "Age of the oldest failover in progress; 0: there is none.", nil, func(set func(float64, ...string)) {
		set(f.oldest(c.Now()).Seconds())
	})
	m.scraped("jobs", "Jobs that are not closed, by status.", []string{"status"}, f.statuses)
	return []follow{{filters: []string{events.FilterJobs}, take: f.take}}
}

type failovers struct {
	notice     *prometheus.HistogramVec
	phases     *prometheus.HistogramVec
	total      *prometheus.CounterVec
	lost, cost prometheus.Counter

	mu    sync.Mutex
	jobs  map[events.JobID]failover.Job
	began map[events.JobID]time.Time // of moves in progress
}

func (f *failovers) take(e events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := events.JobID(e.Aggregate.ID)
	before := f.jobs[id]
	j := failover.Fold(before, e)
	if j.Closed {
		delete(f.jobs, id)
	} else {
		f.jobs[id] = j
	}
	switch fact := e.Fact.(type) {
	case events.JobNoticed:
		f.notice.WithLabelValues().Observe(max(fact.Deadline.Sub(fact.Seen).Seconds(), 0))
	case events.JobFailedOver:
		f.done(fact.Record)
	}
	f.follow(id, j, e)
}

// follow notes when a job's move begins and when it comes to nothing.
func (f *failovers) follow(id events.JobID, j failover.Job, e events.Event) {
	_, under := f.began[id]
	_, done := e.Fact.(events.JobFailedOver)
	switch {
	case j.Move != nil && !under:
		f.began[id] = e.Time
	case j.Move == nil && under, j.Closed && under:
		delete(f.began, id)
		if !done {
			f.total.WithLabelValues("unknown", "abandoned").Inc()
		}
	}
}

func (f *failovers) done(r events.Failover) {
	f.total.WithLabelValues(string(r.Cause), "done").Inc()
	for _, p := range r.Phases {
		f.phases.WithLabelValues(p.Name).Observe(seconds(max(p.MS, 0)))
	}
	f.lost.Add(seconds(max(r.LostMS, 0)))
	f.cost.Add(max(dollars(r.LostCost), 0))
}

func (f *failovers) oldest(now time.Time) (age time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.began {
		age = max(age, now.Sub(at))
	}
	return age
}

func (f *failovers) statuses(set func(float64, ...string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := map[string]int{}
	for _, j := range f.jobs {
		n[j.Status()]++
	}
	for status, count := range n {
		set(float64(count), status)
	}
}
