package gateway

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// reading remembers what the manifests of committed checkpoints need. A manifest
// never changes, so what was read once is known; forgetting costs reading it again.
type reading struct {
	mu   sync.Mutex
	jobs map[events.JobID]*remembered
}

type remembered struct {
	needs map[string]needs // by checkpoint

	epoch int             // the following are of its checkpoints
	used  map[uint64]bool // names of objects that a dropped one needs, shortened
	seen  map[string]bool // dropped ones whose objects are in used
	clean map[string]bool // dropped ones of whose own objects none is left
}

// needs is what a checkpoint needs of the store.
type needs struct {
	schema  int
	objects []checkpoint.Object // by name
}

// size returns how large the checkpoint says an object is.
func (n needs) size(name string) (int64, bool) {
	i, ok := slices.BinarySearchFunc(n.objects, name, func(o checkpoint.Object, name string) int { return strings.Compare(o.Name, name) })
	if !ok {
		return 0, false
	}
	return n.objects[i].Size, true
}

func newReading() reading { return reading{jobs: map[events.JobID]*remembered{}} }

// at calls f with what is remembered of a job in its present epoch.
func (s *reading) at(j failover.Job, f func(*remembered)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.jobs[j.ID]
	if k == nil {
		k = &remembered{needs: map[string]needs{}}
		s.jobs[j.ID] = k
	}
	if k.used == nil || k.epoch < j.Epoch {
		k.epoch, k.used, k.seen, k.clean = j.Epoch, map[uint64]bool{}, map[string]bool{}, map[string]bool{}
	}
	f(k)
}

func (s *reading) forget(job events.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, job)
}

// short is enough of a name to tell that it was used: that two names meet costs
// one refused commit in 2^64.
func short(name string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	return h.Sum64()
}

// provenBad says whether err shows that a checkpoint is bad, rather than that nobody could look.
func provenBad(err error) bool {
	return errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, checkpoint.ErrManifest)
}

func refOf(c events.Checkpoint) checkpoint.Ref {
	return checkpoint.Ref{Name: c.Name, Epoch: c.Epoch, Step: c.Step, Digest: c.Digest, Bytes: c.Bytes, Files: c.Files}
}

// manifest reads a checkpoint's manifest.
func (g *Gateway) manifest(ctx context.Context, j failover.Job, ref checkpoint.Ref) (checkpoint.Manifest, error) {
	return checkpoint.ReadManifest(ctx, g.cfg.Store, string(j.Attribution.Org), string(j.ID), ref)
}

// needsOf returns what committed checkpoints need, and why some could not be
// read. It remembers those of keep.
func (g *Gateway) needsOf(ctx context.Context, j failover.Job, list []events.Checkpoint, keep func(name string) bool) (map[string]needs, map[string]error) {
	out, bad := map[string]needs{}, map[string]error{}
	var unknown []events.Checkpoint
	g.read.at(j, func(k *remembered) {
		for name := range k.needs {
			if !keep(name) {
				delete(k.needs, name)
			}
		}
		for _, c := range list {
			if n, ok := k.needs[c.Name]; ok {
				out[c.Name] = n
			} else {
				unknown = append(unknown, c)
			}
		}
	})
	var mu sync.Mutex
	var eg errgroup.Group
	eg.SetLimit(g.workers())
	for _, c := range unknown {
		eg.Go(func() error {
			m, err := g.manifest(ctx, j, refOf(c))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				bad[c.Name] = err
				return nil
			}
			n := needs{m.Schema, m.Objects()}
			out[c.Name] = n
			if keep(c.Name) {
				g.read.at(j, func(k *remembered) { k.needs[c.Name] = n })
			}
			return nil
		})
	}
	_ = eg.Wait()
	return out, bad
}

// usedUp says which of an epoch's object names a dropped checkpoint of the epoch
// needs: whatever bears one of them may be going, or may be deleted by a request
// that was sent long ago.
func (g *Gateway) usedUp(ctx context.Context, j failover.Job) (func(name string) bool, error) {
	var unseen []events.Checkpoint
	gone := map[string]bool{}
	for _, d := range j.Drops {
		gone[d.Name] = true
	}
	g.read.at(j, func(k *remembered) {
		for _, c := range j.Commits {
			if c.Epoch == j.Epoch && gone[c.Name] && !k.seen[c.Name] {
				unseen = append(unseen, c)
			}
		}
	})
	got, bad := g.needsOf(ctx, j, unseen, func(name string) bool { return !gone[name] })
	for _, c := range unseen {
		err := bad[c.Name]
		if err != nil && !provenBad(err) {
			return nil, fmt.Errorf("reading the manifest of dropped checkpoint %s: %w", c.Name, err)
		}
		if err != nil {
			g.cfg.Logger.Warn("dropped checkpoint without a manifest", zap.String("job", string(j.ID)), zap.String("checkpoint", c.Name), zap.Error(err))
		}
		g.read.at(j, func(k *remembered) {
			for _, o := range got[c.Name].objects {
				k.used[short(o.Name)] = true
			}
			k.seen[c.Name] = true
		})
	}
	return func(name string) (used bool) {
		g.read.at(j, func(k *remembered) { used = k.used[short(name)] })
		return used
	}, nil
}

// workers is how many requests to the store are under way at once.
func (g *Gateway) workers() int {
	if g.cfg.Workers > 0 {
		return g.cfg.Workers
	}
	return 8
}
