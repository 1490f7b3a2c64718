// Package figures is what the streams say, as metrics: folds of events that only count.
//
// Each program exports the figures of what it is responsible for. They are taken
// from the log and not from what the process happened to do, so that a restart loses none and
// replicas agree: over replicas take the maximum, not the sum. Labels are bounded by the market
// and by the vocabulary; a job's id is a label only of gauges of jobs that run.
package figures

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Config of sets of figures. Every field is required.
type Config struct {
	Log        *natsbus.Log
	Clock      trace.Clock
	Now        func() time.Time // control time
	Registerer prometheus.Registerer
	Logger     *zap.Logger
}

// Set registers a group of figures and says what it has to hear.
type Set func(Config) []follow

// follow is a subscription to one stream that feeds a set.
type follow struct {
	filters []string
	last    bool // only the newest event of each subject counts
	take    func(events.Event)
}

// All are the figures of a process that runs every service.
func All() []Set { return []Set{Prices, Leases, Failovers, Checkpoints, Money, Streams} }

// part is what the figures run beside.
type part interface {
	Run(ctx context.Context) error
	Checks() []process.Check
}

// Beside returns p with the sets kept current while it runs.
func Beside(p part, c Config, sets ...Set) *Kept {
	k := &Kept{part: p, cfg: c}
	for _, s := range sets {
		k.follows = append(k.follows, s(c)...)
	}
	return k
}

// Kept is a part with its figures.
type Kept struct {
	part
	cfg     Config
	follows []follow
}

// Run runs the part and keeps the figures, until ctx ends or the part fails.
func (k *Kept) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, f := range k.follows {
		g.Go(func() error {
			var newest uint64
			return k.cfg.Log.Consume(gctx, events.Subscription{Filters: f.filters, Last: f.last}, func(_ context.Context, e events.Event) error {
				if f.last || e.Position > newest { // what comes twice counts once
					newest = e.Position
					f.take(e)
				}
				return nil
			})
		})
	}
	g.Go(func() error { return k.part.Run(gctx) })
	return g.Wait()
}

// maker registers metrics with one prefix.
type maker struct{ prometheus.Registerer }

const prefix = "spotferry_"

func (m maker) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	m.MustRegister(v)
	return v
}

func (m maker) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	m.MustRegister(v)
	return v
}

func (m maker) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	m.MustRegister(v)
	return v
}

// scraped registers gauges that are computed when somebody asks.
func (m maker) scraped(name, help string, labels []string, compute func(set func(v float64, labels ...string))) {
	m.MustRegister(&scraped{prometheus.NewDesc(prefix+name, help, labels, nil), compute})
}

type scraped struct {
	desc    *prometheus.Desc
	compute func(set func(v float64, labels ...string))
}

// Describe implements prometheus.Collector.
func (s *scraped) Describe(c chan<- *prometheus.Desc) { c <- s.desc }

// Collect implements prometheus.Collector.
func (s *scraped) Collect(c chan<- prometheus.Metric) {
	s.compute(func(v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, v, labels...)
	})
}

// waits are buckets from a tenth of a second to an hour and a half.
func waits() []float64 { return prometheus.ExponentialBuckets(0.1, 2, 16) }

func seconds(ms int64) float64 { return float64(ms) / 1000 }

func dollars(m events.MicroUSD) float64 { return float64(m) / 1e6 }
