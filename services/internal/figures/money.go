package figures

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spotferry/spotferry/events"
)

// Money are the figures of what was spent.
func Money(c Config) []follow {
	m := maker{c.Registerer}
	k := &money{
		jobs: map[events.JobID]*purse{}, ended: map[events.LeaseID]time.Time{}, settled: map[events.LeaseID]bool{},
		spend:   m.counter("spend_dollars_total", "What was charged.", "seller", "type"),
		savings: m.gauge("savings_dollars", "What the charged time would have cost on demand, less what it did.").WithLabelValues(),
		overrun: m.counter("budget_overrun_dollars_total", "Charges above what was reserved for them.").WithLabelValues(),
	}
	m.scraped("budget_spent_ratio", "Spent of a job's budget, of jobs that are not closed.", []string{"job"}, k.ratios)
	m.scraped("ledger_lag_seconds", "Age of the oldest end of a machine that is not charged yet; 0: there is none.", nil, func(set func(float64, ...string)) {
		set(k.lag(c.Now()).Seconds())
	})
	m.scraped("ledger_unsettled_leases", "Machines that ended and are not charged yet.", nil, func(set func(float64, ...string)) {
		k.mu.Lock()
		defer k.mu.Unlock()
		set(float64(len(k.ended)))
	})
	return []follow{
		{filters: []string{events.FilterMoney}, take: k.posted},
		{filters: []string{events.FilterLeases, events.FilterJobs}, take: k.happened},
	}
}

type money struct {
	spend   *prometheus.CounterVec
	savings prometheus.Gauge
	overrun prometheus.Counter
	mu      sync.Mutex
	jobs    map[events.JobID]*purse
	ended   map[events.LeaseID]time.Time // and not charged
	settled map[events.LeaseID]bool      // the two streams may be read in any order
}

type purse struct{ limit, spent events.MicroUSD }

func (k *money) purse(id events.JobID) *purse {
	p, ok := k.jobs[id]
	if !ok {
		p = &purse{}
		k.jobs[id] = p
	}
	return p
}

// posted takes an event of the money stream.
func (k *money) posted(e events.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch f := e.Fact.(type) {
	case events.BudgetSet:
		k.purse(f.Job).limit = f.Limit
	case events.MoneySettled:
		k.purse(f.Job).spent += f.Amount
		k.settled[f.Lease] = true
		delete(k.ended, f.Lease)
		k.spend.WithLabelValues(f.Pool.Seller, string(f.Pool.Capacity)).Add(max(dollars(f.Amount), 0))
		k.overrun.Add(max(dollars(f.Overrun), 0))
		if f.OnDemand > 0 {
			k.savings.Add(dollars(f.OnDemand - f.Amount))
		}
	}
}

// happened takes an event of a lease or a job.
func (k *money) happened(e events.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch e.Fact.(type) {
	case events.LeaseEnded:
		if id := events.LeaseID(e.Aggregate.ID); !k.settled[id] {
			k.ended[id] = e.Time
		}
	case events.JobClosed:
		delete(k.jobs, events.JobID(e.Aggregate.ID))
	}
}

func (k *money) ratios(set func(float64, ...string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, p := range k.jobs {
		if p.limit > 0 {
			set(float64(p.spent)/float64(p.limit), string(id))
		}
	}
}

func (k *money) lag(now time.Time) (age time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, at := range k.ended {
		age = max(age, now.Sub(at))
	}
	return age
}
