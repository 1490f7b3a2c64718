package gateway

import (
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// collector remembers which jobs there are to look at.
type collector struct {
	mu    sync.Mutex
	order []events.JobID
	jobs  map[events.JobID]*collected
}

type collected struct {
	done     uint64 // the record's sequence at which nothing was left to do, for an ended job
	objects  int
	bytes    int64
	saved    int64
	reported string // the newest reason why nothing is deleted that was logged
}

func newCollector() collector { return collector{jobs: map[events.JobID]*collected{}} }

// learn notes that there is a job.
func (c *collector) learn(job events.JobID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobs[job] == nil {
		c.jobs[job] = &collected{}
		c.order = append(c.order, job)
	}
}

// list returns the jobs, oldest first.
func (c *collector) list() []events.JobID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

// account remembers and tells what came of a round.
func (g *Gateway) account(j failover.Job, p plan, out Collected, err error) {
	if err == nil && p.blocked == "" {
		g.read.at(j, func(k *remembered) {
			for _, name := range p.emptied {
				k.clean[name] = len(p.then) == 0 // a list may be late: once more when it shows nothing
			}
		})
	}
	g.metrics.deleted(out.Objects, out.Bytes)
	g.collector.learn(j.ID)
	g.collector.mu.Lock()
	c := g.collector.jobs[j.ID]
	c.objects, c.bytes, c.saved = p.objects-out.Objects, p.bytes-out.Bytes, p.logical-p.needed
	if err == nil && p.blocked == "" && out.Objects == 0 && p.waiting == 0 && j.Closed && !g.cfg.Now().Control.Before(j.Ended.Add(g.cfg.Collection.Grace+grantLife)) {
		c.done = j.Sequence // nobody can write any more
		g.read.forget(j.ID)
	}
	news := p.blocked != c.reported
	c.reported = p.blocked
	objects, bytes, saved := g.collector.totals()
	g.collector.mu.Unlock()
	g.metrics.stored(objects, bytes, saved)
	if p.blocked != "" {
		g.metrics.failed()
		if news {
			g.cfg.Logger.Error("nothing of a job is deleted", zap.String("job", string(j.ID)), zap.String("reason", p.blocked))
		}
	}
	if out.Objects > 0 || len(out.Dropped) > 0 {
		g.cfg.Logger.Info("checkpoints collected", zap.String("job", string(j.ID)), zap.Strings("dropped", out.Dropped),
			zap.Int("deleted_objects", out.Objects), zap.Int64("deleted_bytes", out.Bytes), zap.Int("waiting", p.waiting), zap.Error(err))
	}
}

// totals adds up all jobs. The caller has the lock.
func (c *collector) totals() (objects int, bytes, saved int64) {
	for _, j := range c.jobs {
		objects += j.objects
		bytes += j.bytes
		saved += j.saved
	}
	return objects, bytes, saved
}
