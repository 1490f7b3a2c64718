package provider

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are what a process tells about all its sellers. Build one per process.
type Metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	repeats *prometheus.CounterVec
	breaker *prometheus.GaugeVec
}

// NewMetrics registers with reg; nil registers nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	return &Metrics{
		calls: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "spotferry_provider_calls_total",
			Help: "Calls that reached the seller, by error kind or ok.",
		}, []string{"seller", "op", "kind"}),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "spotferry_provider_call_seconds",
			Help:    "How long the seller took to answer.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600},
		}, []string{"seller", "op"}),
		repeats: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "spotferry_provider_repeats_total",
			Help: "Calls that were made again after a failure that allows it.",
		}, []string{"seller", "op"}),
		breaker: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "spotferry_provider_breaker_state",
			Help: "0 closed, 1 half-open, 2 open.",
		}, []string{"seller", "op"}),
	}
}

// Measure counts and times every call that p makes. It belongs under the limiter
// and the breaker, so that it sees what the seller sees. A stream of notices is counted when it ends, not timed.
func Measure(p Provider, seller string, m *Metrics) Provider {
	return &layer{next: p, around: func(ctx context.Context, op string, do func(context.Context) error) error {
		start := time.Now()
		err := do(ctx)
		kind := "ok"
		if err != nil {
			kind = KindOf(err).String()
		}
		m.calls.WithLabelValues(seller, op, kind).Inc()
		if op != OpNotices {
			m.seconds.WithLabelValues(seller, op).Observe(time.Since(start).Seconds())
		}
		return err
	}}
}

func (m *Metrics) breakerState(seller, op, state string) {
	level := map[string]float64{"closed": 0, "half-open": 1, "open": 2}[state]
	m.breaker.WithLabelValues(seller, op).Set(level)
}
