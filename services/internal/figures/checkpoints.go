package figures

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// heard returns the newest heartbeat of a job's epoch, or false.
type heard func(context.Context, natsbus.Place) (events.Heartbeat, bool, error)

// Checkpoints are the figures of what was saved.
func Checkpoints(c Config) []follow { return checkpointsBy(c, c.Log.Signal) }

func checkpointsBy(c Config, signal heard) []follow {
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
	m.scraped("checkpoint_unshipped_bytes", "Of complete checkpoints of a running job, at most so much is not in the store.", []string{"job"}, func(set func(float64, ...string)) {
		k.beats(signal, func(id events.JobID, h events.Heartbeat) { set(float64(max(h.Unsent, 0)), string(id)) })
	})
	m.scraped("checkpoint_flush_seconds", "How long what is unshipped would take with all of the machine's link, as after a notice.", []string{"job"}, func(set func(float64, ...string)) {
		k.beats(signal, func(id events.JobID, h events.Heartbeat) { set(seconds(max(h.FlushMS, 0)), string(id)) })
	})
	return []follow{{filters: []string{events.FilterJobs}, take: k.take}}
}

// beats gives the newest heartbeat of every running job that has one. What is not
// answered in time is left out.
func (k *checkpoints) beats(signal heard, each func(events.JobID, events.Heartbeat)) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit) // a scrape has no context of ours
	defer cancel()
	for id, at := range k.places() {
		h, ok, err := signal(ctx, at)
		if err == nil && ok {
			each(id, h)
		}
	}
}

func (k *checkpoints) places() map[events.JobID]natsbus.Place {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make(map[events.JobID]natsbus.Place, len(k.running))
	for id, s := range k.running {
		all[id] = natsbus.Place{Org: s.org, Job: id, Epoch: s.epoch}
	}
	return all
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
	org    events.OrgID
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
			s = &saving{org: e.Aggregate.Org, newest: e.Time}
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
