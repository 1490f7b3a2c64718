// Package mem is a checkpoint store in memory for tests and simulation, with
// the faults real stores have.
//
// It keeps no goroutine, holds no lock while it waits and reads no clock, so it
// works inside a testing/synctest bubble, and a Plan that depends only on the
// operations it sees makes a run repeatable.
package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
)

// Config has the faults; its zero value is a store without any.
type Config struct {
	Plan  Plan
	Sleep func(ctx context.Context, d time.Duration) error // waits for Fault.Delay; nil means a timer
	Room  int64                                            // bytes of all objects together; 0 means any number
}

// Store is a checkpoint.Store in memory.
type Store struct {
	cfg Config

	mu      sync.Mutex
	objects map[string][]byte
	used    int64 // bytes, for Config.Room
	ops     int
}

var _ checkpoint.Store = (*Store)(nil)

// New returns an empty store.
func New(cfg Config) *Store {
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	return &Store{cfg: cfg, objects: map[string][]byte{}}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Put implements checkpoint.Store.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	fault, err := s.begin(ctx, Put, name)
	if err != nil {
		return err
	}
	if s.has(name) {
		return fmt.Errorf("putting %s: %w", name, checkpoint.ErrExists)
	}
	data, err := io.ReadAll(io.LimitReader(r, size+1))
	if err != nil {
		return fmt.Errorf("putting %s: %w", name, err)
	}
	if int64(len(data)) != size {
		return fmt.Errorf("putting %s: %w: %d bytes or more, not %d", name, checkpoint.ErrSize, len(data), size)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.put(name, fault.bend(data), fault)
}

func (s *Store) put(name string, data []byte, fault Fault) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[name]; ok {
		return fmt.Errorf("putting %s: %w", name, checkpoint.ErrExists)
	}
	if s.cfg.Room > 0 && s.used+int64(len(data)) > s.cfg.Room {
		return fmt.Errorf("putting %s: %w: %d of %d bytes are used", name, checkpoint.ErrNoSpace, s.used, s.cfg.Room)
	}
	s.objects[name] = data
	s.used += int64(len(data))
	return fault.After
}

func (s *Store) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.objects[name]
	return ok
}

// Get implements checkpoint.Store.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	fault, err := s.begin(ctx, Get, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	data, ok := s.objects[name]
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("getting %s: %w", name, checkpoint.ErrNotFound)
	}
	return &object{ctx: ctx, Reader: bytes.NewReader(fault.bend(data)), after: fault.After}, nil
}

// Range implements checkpoint.Store. To a Plan it is a Get.
func (s *Store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	fault, err := s.begin(ctx, Get, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	data, ok := s.objects[name]
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("getting %s: %w", name, checkpoint.ErrNotFound)
	}
	if off < 0 || n <= 0 || off > int64(len(data))-n {
		return nil, fmt.Errorf("getting %s: %w: %d bytes, want %d from %d", name, checkpoint.ErrCorrupt, len(data), n, off)
	}
	return &object{ctx: ctx, Reader: bytes.NewReader(fault.bend(data[off : off+n])), after: fault.After}, nil
}

// object is an open object. After its bytes it fails with after, if there is one.
type object struct {
	*bytes.Reader
	ctx   context.Context // of the Get, whose reader fails once it ends
	after error
}

func (o *object) Read(p []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := o.Reader.Read(p)
	if errors.Is(err, io.EOF) && o.after != nil {
		return n, o.after
	}
	return n, err
}

// WriteTo hides the embedded one, which would not see ctx or after.
func (o *object) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{o})
}

func (o *object) Close() error { return nil }

// Stat implements checkpoint.Store.
func (s *Store) Stat(ctx context.Context, name string) (int64, error) {
	if _, err := s.begin(ctx, Stat, name); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.objects[name]
	if !ok {
		return 0, fmt.Errorf("looking at %s: %w", name, checkpoint.ErrNotFound)
	}
	return int64(len(data)), nil
}

// List implements checkpoint.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	fault, err := s.begin(ctx, List, prefix)
	if err != nil {
		return nil, err
	}
	var found []checkpoint.Object
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(name, prefix) && (fault.Hide == nil || !fault.Hide(name)) {
			found = append(found, checkpoint.Object{Name: name, Size: int64(len(s.objects[name]))})
		}
	}
	return found, nil
}

// Delete implements checkpoint.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	fault, err := s.begin(ctx, Delete, name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= int64(len(s.objects[name]))
	delete(s.objects, name)
	return fault.After
}
