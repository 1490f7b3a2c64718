package gateway

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the checkpoint store as the collection finds it. A nil *Metrics measures nothing.
type Metrics struct {
	objects, bytes, saved      prometheus.Gauge
	goneObjects, goneBytes, ko prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "spotferry_checkpoint_store_" + name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "spotferry_checkpoint_" + name, Help: help})
	}
	m := &Metrics{
		objects:     gauge("objects", "Objects of jobs' checkpoints in the store, as last listed."),
		bytes:       gauge("bytes", "Size of the objects of jobs' checkpoints in the store, as last listed."),
		saved:       gauge("saved_bytes", "What kept checkpoints hold beyond what they take in the store, because they share objects, have holes, or are compressed."),
		goneObjects: counter("deleted_objects_total", "Objects that the collection has deleted."),
		goneBytes:   counter("deleted_bytes_total", "Size of the objects that the collection has deleted."),
		ko:          counter("collection_failures_total", "Rounds of the collection that did not delete what they should have, by job and round."),
	}
	r.MustRegister(m.objects, m.bytes, m.saved, m.goneObjects, m.goneBytes, m.ko)
	return m
}

func (m *Metrics) stored(objects int, bytes, saved int64) {
	if m != nil {
		m.objects.Set(float64(objects))
		m.bytes.Set(float64(bytes))
		m.saved.Set(float64(max(saved, 0)))
	}
}

func (m *Metrics) deleted(objects int, bytes int64) {
	if m != nil {
		m.goneObjects.Add(float64(objects))
		m.goneBytes.Add(float64(bytes))
	}
}

func (m *Metrics) failed() {
	if m != nil {
		m.ko.Inc()
	}
}
