package bidder

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spotferry/spotferry/events"
)

// Metrics of a Service. A nil *Metrics measures nothing.
type Metrics struct {
	decisions *prometheus.CounterVec
	launches  *prometheus.CounterVec
	took      prometheus.Histogram
	strays    *prometheus.CounterVec
	open      *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spotferry_bidder_decisions_total", Help: "Decisions by action and rule."}, []string{"action", "rule"}),
		launches:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spotferry_bidder_launches_total", Help: "Launches by seller and outcome."}, []string{"seller", "outcome"}),
		took:      prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spotferry_bidder_launch_seconds", Help: "Time until a seller answered a launch.", Buckets: prometheus.ExponentialBuckets(0.1, 2, 14)}),
		strays:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spotferry_bidder_strays_total", Help: "Machines with our mark that no lease owned, given back."}, []string{"seller"}),
		open:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spotferry_bidder_open_leases", Help: "Leases that may have a machine, by seller."}, []string{"seller"}),
	}
	r.MustRegister(m.decisions, m.launches, m.took, m.strays, m.open)
	return m
}

func (m *Metrics) decided(d events.Decision) {
	if m != nil {
		m.decisions.WithLabelValues(d.Action, d.Rule).Inc()
	}
}

func (m *Metrics) answered(seller, outcome string, took time.Duration) {
	if m != nil {
		m.launches.WithLabelValues(seller, outcome).Inc()
		m.took.Observe(took.Seconds())
	}
}

func (m *Metrics) stray(seller string) {
	if m != nil {
		m.strays.WithLabelValues(seller).Inc()
	}
}

func (m *Metrics) leases(seller string, n int) {
	if m != nil {
		m.open.WithLabelValues(seller).Set(float64(n))
	}
}
