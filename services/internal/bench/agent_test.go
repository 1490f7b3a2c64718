package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
)

// puppet is an agent without a trainer: the real connection of an agent, and
// nothing that takes time. It starts at once when it may, and saves when it is told.
type puppet struct {
	boot  events.Bootstrap
	bus   *agent.Bus
	grant events.StoreGrant
	work  chan func(context.Context) error

	mu   sync.Mutex
	beat events.Heartbeat
	took map[string]bool // orders
}

// puppets are all that were born, by lease.
type puppets struct {
	ctx context.Context

	mu    sync.Mutex
	all   map[events.LeaseID]*puppet
	wrong []error
	alive sync.WaitGroup
}

func (all *puppets) born(b events.Bootstrap) {
	p := &puppet{boot: b, work: make(chan func(context.Context) error, 4), took: map[string]bool{}}
	p.beat = events.Heartbeat{Lease: b.Lease, State: "ready", Step: -1, Saved: -1}
	all.mu.Lock()
	all.all[b.Lease] = p
	all.mu.Unlock()
	all.alive.Go(func() {
		if err := p.live(all.ctx); err != nil && all.ctx.Err() == nil {
			all.mu.Lock()
			all.wrong = append(all.wrong, fmt.Errorf("%s: %w", b.Lease, err))
			all.mu.Unlock()
		}
	})
}

func (all *puppets) of(l events.LeaseID) *puppet {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.all[l]
}

// err is what went wrong first.
func (all *puppets) err() error {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.wrong) > 0 {
		return all.wrong[0]
	}
	return nil
}

// live joins and renews until the machine's epoch is over.
func (p *puppet) live(ctx context.Context) (err error) {
	if p.bus, err = agent.OpenBus(agent.BusConfig{Bootstrap: p.boot, Entropy: rand.Reader}); err != nil {
		return err
	}
	defer p.bus.Close()
	joined, err := insist(ctx, func(ctx context.Context) (events.JoinReply, error) {
		return p.bus.Join(ctx, events.JoinRequest{Lease: p.boot.Lease})
	})
	if err != nil {
		return err
	}
	p.grant = joined.Store
	beat := time.NewTicker(p.boot.Timers.Heartbeat)
	defer beat.Stop()
	for {
		again, err := p.renew(ctx)
		var no *events.Refusal
		switch {
		case errors.As(err, &no) && no.Code == events.RefusedFenced:
			return nil
		case err != nil:
			return err
		case again:
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case f := <-p.work:
			if err := f(ctx); err != nil {
				return err
			}
		case <-p.bus.Hints():
		case <-beat.C:
		}
	}
}

// insist repeats what was not answered, as an agent does.
func insist[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		v, err := ask(try)
		cancel()
		var no *events.Refusal
		if err == nil || ctx.Err() != nil || errors.As(err, &no) && no.Code != events.RefusedUnavailable {
			return v, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// renew tells how it stands, does what it is told, and reports whether there is
// something new to tell.
func (p *puppet) renew(ctx context.Context) (again bool, err error) {
	reply, err := insist(ctx, func(ctx context.Context) (events.RenewReply, error) { return p.bus.Renew(ctx, p.now()) })
	if err != nil || reply.Order == "" || p.took[reply.OrderID] {
		return false, err
	}
	p.took[reply.OrderID] = true
	if reply.Order != events.OrderStart {
		return false, nil // it has saved by itself; the end comes with the fence
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat.State, p.beat.From = "training", 0
	if len(reply.Resume) > 0 {
		p.beat.From = reply.Resume[0].Step
	}
	p.beat.Step = p.beat.From + 1
	return true, nil
}

func (p *puppet) now() events.Heartbeat {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beat
}

// save trains n steps and uploads a checkpoint of a file, without a word to the gateway.
func (p *puppet) save(ctx context.Context, n int64, tmp string) (events.Checkpoint, error) {
	p.mu.Lock()
	p.beat.Step += n
	step := p.beat.Step
	p.mu.Unlock()
	tree := filepath.Join(tmp, fmt.Sprintf("%s-%d", p.boot.Lease, step))
	if err := os.MkdirAll(tree, 0o700); err != nil {
		return events.Checkpoint{}, err
	}
	defer os.RemoveAll(tree)
	if err := os.WriteFile(filepath.Join(tree, "state"), fmt.Appendf(nil, "%s at step %d", p.boot.Job, step), 0o600); err != nil {
		return events.Checkpoint{}, err
	}
	store, err := dir.Open(dir.Config{Path: p.grant.Path})
	if err != nil {
		return events.Checkpoint{}, err
	}
	defer store.Close()
	engine, err := checkpoint.New(checkpoint.Config{Store: store, Tenant: p.grant.Tenant, Job: string(p.boot.Job)})
	if err != nil {
		return events.Checkpoint{}, err
	}
	ref, err := engine.Upload(ctx, checkpoint.SaveRequest{Dir: tree, As: "checkpoint", Epoch: p.boot.Epoch, Step: step, Framework: "hf"})
	return events.Checkpoint{Name: ref.Name, Epoch: ref.Epoch, Step: ref.Step, Digest: ref.Digest, Bytes: ref.Bytes, Files: ref.Files}, err
}

// warned has it tell that its machine will be taken, and commit its last checkpoint, if it has one.
func (p *puppet) warned(last *events.Checkpoint) {
	p.work <- func(ctx context.Context) error {
		_, err := insist(ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, p.bus.Notice(ctx, events.NoticeRequest{Lease: p.boot.Lease, Action: "terminate", Source: "imds", Left: 2 * time.Minute, SignalMS: -1})
		})
		if err != nil || last == nil {
			return err
		}
		_, err = insist(ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, p.bus.Commit(ctx, events.CommitRequest{Lease: p.boot.Lease, Checkpoint: *last, Final: true})
		})
		return err
	}
}
