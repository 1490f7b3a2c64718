package figures

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spotferry/spotferry/events"
)

// Leases are the figures of what was asked of sellers and what came of it.
func Leases(c Config) []follow {
	m := maker{c.Registerer}
	l := &leases{
		known: map[events.LeaseID]*standing{}, noticed: map[events.LeaseID]bool{},
		bids:      m.counter("bids_total", "Purchases by result: launched, unknown, or the kind of the refusal.", "seller", "type", "result"),
		declines:  m.counter("declines_total", "Requests for a machine for which nothing was bought, by reason.", "reason"),
		instances: m.gauge("instances", "Leases that may have a machine, by state.", "seller", "type", "state"),
		orphans:   m.counter("orphans_total", "Machines of ours that no lease owned, given back.", "seller"),
		reclaims:  m.counter("reclaims_total", "Machines that their seller took back, with a notice or without.", "seller", "type", "noticed"),
	}
	return []follow{{filters: []string{events.FilterLeases, events.FilterJobs}, take: l.take}}
}

type leases struct {
	bids, declines    *prometheus.CounterVec
	instances         *prometheus.GaugeVec
	orphans, reclaims *prometheus.CounterVec

	known   map[events.LeaseID]*standing
	noticed map[events.LeaseID]bool
}

// standing is where a lease is in its life.
type standing struct {
	pool  events.Pool
	state string // "" when it is over
}

func (l *leases) take(e events.Event) {
	if f, ok := e.Fact.(events.JobNoticed); ok {
		l.noticed[f.Lease] = true
	}
	if f, ok := e.Fact.(events.JobNoticeWithdrawn); ok {
		delete(l.noticed, f.Lease)
	}
	if e.Aggregate.Kind == "lease" {
		l.lease(events.LeaseID(e.Aggregate.ID), e.Fact)
	}
}

func (l *leases) lease(id events.LeaseID, fact events.Fact) {
	s, known := l.known[id]
	if !known {
		s = &standing{}
		l.known[id] = s
	}
	switch f := fact.(type) {
	case events.LeaseIntended:
		s.pool = f.Offer.Pool
		l.move(s, "intended")
	case events.LeaseDeclined:
		l.declines.WithLabelValues(f.Reason).Inc()
		delete(l.known, id)
	case events.LeaseRefused:
		l.bid(s, f.Kind)
		l.move(s, "")
	case events.LeaseUnknown:
		l.bid(s, "unknown")
		l.move(s, "unknown")
	case events.LeaseLaunched:
		l.bid(s, "launched")
		l.move(s, "running")
	case events.LeaseTerminating:
		if f.Pool.Seller != "" {
			s.pool = f.Pool
			l.orphans.WithLabelValues(f.Pool.Seller).Inc()
		}
		l.move(s, "terminating")
	case events.LeaseEnded:
		if f.EndedBy == "seller" {
			l.reclaims.WithLabelValues(s.pool.Seller, string(s.pool.Capacity), strconv.FormatBool(l.noticed[id])).Inc()
		}
		l.move(s, "")
		delete(l.known, id)
		delete(l.noticed, id)
	}
}

func (l *leases) bid(s *standing, result string) {
	l.bids.WithLabelValues(s.pool.Seller, string(s.pool.Capacity), result).Inc()
}

func (l *leases) move(s *standing, state string) {
	gauge := func(state string) prometheus.Gauge {
		return l.instances.WithLabelValues(s.pool.Seller, string(s.pool.Capacity), state)
	}
	if s.state != "" {
		gauge(s.state).Dec()
	}
	if s.state = state; state != "" {
		gauge(state).Inc()
	}
}
