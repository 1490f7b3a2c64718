package simtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// shelf is the checkpoint store that everybody uses. It notes when each object was
// there, for oracles that believe nobody's list, and keeps every manifest.
type shelf struct {
	*mem.Store
	w     *world
	stuck bool // what is deleted stays

	mu        sync.Mutex
	there     map[string][]window // the last with no end: it is there yet
	manifests map[string][]byte
	broken    map[string]bool      // the world has damaged it
	tries     map[string]time.Time // the newest operation of a kind on a name
	again     map[string]int       // how many at that instant
}

// newShelf has the faults that plan draws.
func (w *world) newShelf(plan mem.Plan) *shelf {
	return &shelf{
		Store: mem.New(mem.Config{Plan: plan}), w: w,
		there: map[string][]window{}, manifests: map[string][]byte{}, broken: map[string]bool{}, tries: map[string]time.Time{}, again: map[string]int{},
	}
}

// Put implements checkpoint.Store.
func (s *shelf) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	var manifest bytes.Buffer
	if strings.HasSuffix(name, ".manifest") {
		r = io.TeeReader(r, &manifest)
	}
	err := s.Store.Put(ctx, name, r, size)
	if err != nil && !errors.Is(err, errUnheard) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there[name] = append(s.there[name], window{from: time.Now()})
	if manifest.Len() > 0 {
		s.manifests[name] = manifest.Bytes()
	}
	return err
}

// Delete implements checkpoint.Store.
func (s *shelf) Delete(ctx context.Context, name string) error {
	if s.stuck {
		return nil
	}
	err := s.Store.Delete(ctx, name)
	if err == nil || errors.Is(err, errUnheard) {
		s.gone(name)
	}
	return err
}

func (s *shelf) gone(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.there[name]); n > 0 && s.there[name][n-1].to.IsZero() {
		s.there[name][n-1].to = time.Now()
		s.w.hits.add("store: object deleted")
	}
}

// damage changes an object as no fault of its users would.
func (s *shelf) damage(name string, change func([]byte) []byte) {
	s.mu.Lock()
	s.broken[name] = true
	s.mu.Unlock()
	s.Edit(name, change)
}

func (s *shelf) isBroken(o checkpoint.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken[o.Name]
}

// attempt counts the operations of a kind on a name at this instant, so that one
// that is repeated at once has luck of its own.
func (s *shelf) attempt(op mem.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(op.Verb) + op.Name
	if now := time.Now(); !s.tries[key].Equal(now) {
		s.tries[key], s.again[key] = now, 0
	}
	s.again[key]++
	return s.again[key]
}

// fresh says whether an object was put so short a while ago that a list may not show it.
func (s *shelf) fresh(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.there[name])
	return n > 0 && time.Since(s.there[name][n-1].from) < 30*time.Second
}

// missing returns when, between two times, an object was not there; ok: it always was.
func (s *shelf) missing(name string, from, to time.Time) (at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at = from
	for _, x := range s.there[name] {
		if !x.from.After(at) && (x.to.IsZero() || x.to.After(at)) {
			if at = x.to; at.IsZero() || !at.Before(to) {
				return time.Time{}, true
			}
		}
	}
	return at, false
}

// needs lists what a checkpoint needs of the store, its manifest included.
func (s *shelf) needs(job, name string) (checkpoint.Manifest, []checkpoint.Object, error) {
	manifest := checkpoint.Prefix(string(org), job) + name
	s.mu.Lock()
	data := s.manifests[manifest]
	s.mu.Unlock()
	m, err := checkpoint.Decode(data)
	if err != nil {
		return m, nil, err
	}
	return m, append(m.Objects(), checkpoint.Object{Name: manifest, Size: int64(len(data))}), nil
}

// of lists what there is of a job.
func (s *shelf) of(job string) []string {
	return slices.DeleteFunc(s.Names(), func(name string) bool {
		return !strings.HasPrefix(name, checkpoint.Prefix(string(org), job)) && !strings.HasPrefix(name, checkpoint.DataPrefix(string(org), job))
	})
}
