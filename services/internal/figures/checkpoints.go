package figures

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spotferry/spotferry/events"
)

// Checkpoints are the figures of what was saved.
func Checkpoints(c Config) []follow {
	m := maker{c.Registerer}
	k := &checkpoints{
		running: map[events.JobID]*saving{},
		total:   m.counter("checkpoints_total", "Checkpoints by result: committed, or rejected by a restore.", "result"),
		bytes:   m.counter("checkpoint_bytes_total", "Size of what was committed.").WithLabelValues(),
		save:    m.histogram("checkpoint_save_seconds", "The trainer's own writing of a checkpoint.", waits()),
		upload:  m.histogram("checkpoint_upload_seconds", "From complete on the machine to all in the store.", waits()),
	}
	for _, result := range []string{"committed", "rejected"} {
		k.total.WithLabelValues(result)
	}
	m.scraped("checkpoint_age_seconds", "Time since the newest commit of a running job, or since its start.", []string{"job"}, func(set func(float64, ...string)) {
		k.mu.Lock()
		defer k.mu.Unlock()
		for id, s := range k.running {
			set(max(c.Now().Sub(s.newest).Seconds(), 0), string(id))
		}
	})
	return []follow{{filters: []string{events.FilterJobs}, take: k.take}}
}

type checkpoints struct {
	total        *prometheus.CounterVec
	bytes        prometheus.Counter
	save, upload *prometheus.HistogramVec

	mu      sync.Mutex
	running map[events.JobID]*saving
}

// saving is a running job's epoch and when something of it was last safe.
type saving struct {
	epoch  int
	newest time.Time
}

func (k *checkpoints) take(e events.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := events.JobID(e.Aggregate.ID)
	s := k.running[id]
	switch f := e.Fact.(type) {
	case events.JobPlaced:
		if s == nil {
			s = &saving{newest: e.Time}
			k.running[id] = s
		}
		s.epoch = f.Epoch
	case events.JobCommitted:
		if s == nil || f.Epoch != s.epoch {
			return // void
		}
		s.newest = e.Time
		k.total.WithLabelValues("committed").Inc()
		k.bytes.Add(float64(max(f.Checkpoint.Bytes, 0)))
		k.save.WithLabelValues().Observe(seconds(max(f.SaveMS, 0)))
		k.upload.WithLabelValues().Observe(seconds(max(f.UploadMS, 0)))
	case events.JobCheckpointRejected:
		k.total.WithLabelValues("rejected").Inc()
	case events.JobEnded, events.JobPaused, events.JobClosed:
		delete(k.running, id)
	}
}
