package market

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/spotferry/spotferry/events"
)

type watcherMetrics struct {
	looked *prometheus.GaugeVec
	live   *prometheus.GaugeVec
	facts  *prometheus.CounterVec
}

func newWatcherMetrics(reg prometheus.Registerer) watcherMetrics {
	auto := promauto.With(reg)
	return watcherMetrics{
		looked: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "spotferry_feed_last_look_timestamp_seconds",
			Help: "When a seller last answered with its offers, control time.",
		}, []string{"seller"}),
		live: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "spotferry_offers",
			Help: "Pools that are on offer.",
		}, []string{"seller"}),
		facts: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "spotferry_offer_events_total",
			Help: "Offer events by result: changed, expired, quarantined.",
		}, []string{"seller", "result"}),
	}
}

func (m watcherMetrics) count(seller string, f events.Fact) {
	result := "changed"
	switch f.(type) {
	case events.OfferExpired:
		result = "expired"
	case events.OfferQuarantined:
		result = "quarantined"
	}
	m.facts.WithLabelValues(seller, result).Inc()
}
