package figures

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spotferry/spotferry/events/natsbus"
)

// askLimit bounds what one scrape asks of the bus. What it cannot tell it leaves out.
const askLimit = 2 * time.Second

// durable is a shared consumer of the services.
type durable struct{ name, stream string }

func durables() []durable {
	return []durable{
		{"bidder", natsbus.StreamJobs}, {"bidder-ops", natsbus.StreamJobs}, {"failover", natsbus.StreamJobs},
		{"gateway-closed", natsbus.StreamJobs}, {"ledger", natsbus.StreamJobs}, {"failover-money", natsbus.StreamMoney},
	}
}

// Streams are the figures of the bus: what waits, and what was set aside.
func Streams(c Config) []follow {
	m := maker{c.Registerer}
	js := c.Log.JetStream()
	m.scraped("consumer_pending", "Events that a service has not taken yet.", []string{"consumer"}, func(set func(float64, ...string)) {
		ctx, cancel := context.WithTimeout(context.Background(), askLimit) // a scrape has no context of ours
		defer cancel()
		for _, d := range durables() {
			if consumer, err := js.Consumer(ctx, d.stream, d.name); err == nil {
				i := consumer.CachedInfo()
				set(float64(i.NumPending+uint64(max(i.NumAckPending, 0))), d.name)
			}
		}
	})
	m.scraped("dead_letters", "Messages set aside because no handler could be given them.", nil, func(set func(float64, ...string)) {
		ctx, cancel := context.WithTimeout(context.Background(), askLimit) // as above
		defer cancel()
		if s, err := js.Stream(ctx, natsbus.StreamDead); err == nil {
			set(float64(s.CachedInfo().State.Msgs))
		}
	})
	return nil
}

// Bus exports what a process's own connection to the log has counted.
func Bus(r prometheus.Registerer, counters *natsbus.Counters) {
	r.MustRegister(bus{counters})
}

type bus struct{ counters *natsbus.Counters }

// help of each counter, and what it counts by.
func described(name string) (help, label string) {
	switch name {
	case natsbus.CountAppends:
		return "Appends to the log by outcome.", "outcome"
	case natsbus.CountDeadLetters:
		return "Messages that no handler could be given, by consumer.", "consumer"
	case natsbus.CountRetries:
		return "Events that come back because their handler failed, by consumer.", "consumer"
	case natsbus.CountRebuilds:
		return "Consumers made anew.", "consumer"
	}
	return "Counted by the bus.", "of"
}

// Describe implements prometheus.Collector: what is counted is known when it is.
func (bus) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (b bus) Collect(c chan<- prometheus.Metric) {
	for _, n := range b.counters.Counts() {
		help, label := described(n.Name)
		desc := prometheus.NewDesc(prefix+n.Name, help, []string{label}, nil)
		c <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n.N), strings.ToValidUTF8(n.Of, ""))
	}
}
