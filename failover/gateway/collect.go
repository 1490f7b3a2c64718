package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// Collection is how checkpoints that are not kept any longer leave the store.
// Zero values mean the defaults.
type Collection struct {
	Every time.Duration // between rounds, control time; 0: Timers.GC
	Grace time.Duration // from a drop to the deletion of what only it needed, control time; 0: Timers.GC
	// Evidence is how long a checkpoint that did not restore is kept; 0: a week.
	Evidence time.Duration
	// Result is how long an ended job's newest checkpoint is kept; 0: until somebody drops it.
	Result time.Duration
	Off    bool // no rounds by themselves
}

const evidenceFor = 7 * 24 * time.Hour

func (c Collection) defaults(t events.Timers) Collection {
	if c.Every <= 0 {
		c.Every = t.GC
	}
	if c.Grace <= 0 {
		c.Grace = t.GC
	}
	if c.Evidence <= 0 {
		c.Evidence = evidenceFor
	}
	return c
}

func (c Collection) retention() failover.Retention {
	return failover.Retention{Evidence: c.Evidence, Result: c.Result}
}

// CollectRequest asks for a round at once. The grace is not cut short.
type CollectRequest struct {
	Job    events.JobID `json:"job"`
	DryRun bool         `json:"dry_run,omitempty"` // tell what a round would do
	By     string       `json:"by,omitempty"`
	Reason string       `json:"reason,omitempty"`
}

// Collected is what a round did with one job, or would do.
type Collected struct {
	Job     events.JobID `json:"job"`
	DryRun  bool         `json:"dry_run,omitempty"`
	Dropped []string     `json:"dropped,omitempty"` // checkpoints that the policy does not keep any longer
	Objects int          `json:"objects"`           // deleted
	Bytes   int64        `json:"bytes"`
	Waiting int          `json:"waiting,omitempty"` // dropped checkpoints whose grace is not over
	NextDue time.Time    `json:"next_due,omitzero"` // control time
	Blocked string       `json:"blocked,omitempty"` // why nothing was deleted
	More    bool         `json:"more,omitempty"`    // time ran out: ask again
}

// rounds collects until ctx ends. Several gateways may do so at once: what is
// dropped is decided in the record, and an object that is gone already is no trouble.
func (g *Gateway) rounds(ctx context.Context) error {
	if g.cfg.Collection.Off {
		return nil
	}
	tick := time.NewTicker(g.cfg.Collection.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if g.cfg.Turn != nil {
			g.cfg.Turn()
		}
		for _, job := range g.collector.list() {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			g.round(ctx, job)
		}
	}
}

// round looks at one job unless there is nothing left to do for it.
func (g *Gateway) round(ctx context.Context, job events.JobID) {
	j, known := g.cfg.Book.Cached(job)
	g.collector.mu.Lock()
	last := *g.collector.jobs[job]
	g.collector.mu.Unlock()
	if known && j.Closed && last.done == j.Sequence && g.cfg.Collection.Result == 0 {
		return
	}
	if _, err := g.Collect(ctx, CollectRequest{Job: job}); err != nil && ctx.Err() == nil {
		g.metrics.failed()
		g.cfg.Logger.Warn("checkpoints not collected", zap.String("job", string(job)), zap.Error(err))
	}
}

// Collect does one round for a job: first what the policy does not keep any
// longer is dropped, in the record, so that nothing begins to restore it; then
// what was dropped a grace ago is deleted, unless something kept needs it.
// Stopped anywhere, it has left nothing that counts as a checkpoint and is not
// whole, and the next round goes on.
func (g *Gateway) Collect(ctx context.Context, r CollectRequest) (Collected, error) {
	out := Collected{Job: r.Job, DryRun: r.DryRun}
	now := g.cfg.Now().Control
	j, err := g.cfg.Book.Job(ctx, r.Job)
	if err != nil {
		return out, err
	}
	out.Dropped, _ = j.Collectable(now, g.cfg.Collection.retention())
	if len(out.Dropped) > 0 && !r.DryRun {
		after, evs, err := g.cfg.Book.Apply(ctx, r.Job, failover.Collect{Retention: g.cfg.Collection.retention(), By: r.By, Reason: r.Reason})
		failover.LogTransitions(g.cfg.Logger, evs)
		if err != nil {
			return out, err
		}
		j = after
	}
	s, err := g.survey(ctx, j, now)
	if err != nil {
		return out.orMore(err)
	}
	p := s.plan()
	out.Waiting, out.NextDue, out.Blocked = p.waiting, p.dueAt, p.blocked
	if r.DryRun {
		for _, o := range slices.Concat(p.first, p.then) {
			out.Objects++
			out.Bytes += o.Size
		}
		return out, nil
	}
	err = g.carryOut(ctx, p, &out)
	g.account(j, p, out, err)
	return out.orMore(err)
}

// orMore makes of time that ran out that there is more to do.
func (c Collected) orMore(err error) (Collected, error) {
	if errors.Is(err, context.DeadlineExceeded) {
		c.More, err = true, nil
	}
	return c, err
}

// survey looks at what a job has in the store.
func (g *Gateway) survey(ctx context.Context, j failover.Job, now time.Time) (survey, error) {
	s := survey{job: j, now: now, grace: g.cfg.Collection.Grace}
	due, _, _ := s.due()
	var read []events.Checkpoint
	stays := map[string]bool{}
	g.read.at(j, func(k *remembered) {
		for _, c := range j.Commits {
			stays[c.Name] = !due[c.Name]
			if stays[c.Name] || open(j, c.Epoch) && !k.clean[c.Name] {
				read = append(read, c)
			}
		}
	})
	s.needs, s.bad = g.needsOf(ctx, j, read, func(name string) bool { return stays[name] })
	tenant, job := string(j.Attribution.Org), string(j.ID)
	var err error
	if s.data, err = g.cfg.Store.List(ctx, checkpoint.DataPrefix(tenant, job)); err != nil {
		return s, fmt.Errorf("listing the objects of job %s: %w", j.ID, err)
	}
	if s.manifests, err = g.cfg.Store.List(ctx, checkpoint.Prefix(tenant, job)); err != nil {
		return s, fmt.Errorf("listing the manifests of job %s: %w", j.ID, err)
	}
	return s, ctx.Err()
}

// carryOut deletes what a plan says, counting what is gone.
func (g *Gateway) carryOut(ctx context.Context, p plan, out *Collected) error {
	for _, list := range [][]checkpoint.Object{p.first, p.then} {
		var mu sync.Mutex
		eg, ectx := errgroup.WithContext(ctx)
		eg.SetLimit(g.workers())
		for _, o := range list {
			if ectx.Err() != nil {
				break
			}
			eg.Go(func() error {
				if err := g.cfg.Store.Delete(ectx, o.Name); err != nil {
					return fmt.Errorf("deleting %s: %w", o.Name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				out.Objects++
				out.Bytes += o.Size
				return nil
			})
		}
		if err := eg.Wait(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
