package bidder

import (
	"context"
	"sync"
)

// flights are the goroutines at work on single tasks, at most one for each key.
type flights struct {
	mu     sync.Mutex
	ctx    context.Context // of Run
	flying map[string]bool
	closed bool
	wg     sync.WaitGroup
}

func (f *flights) open(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ctx, f.flying = ctx, map[string]bool{}
}

// start runs task unless one of this key is at work.
func (f *flights) start(key string, task func(context.Context)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx == nil || f.closed || f.flying[key] {
		return
	}
	f.flying[key] = true
	f.wg.Add(1)
	go func() {
		defer f.wg.Done()
		defer f.end(key)
		task(f.ctx)
	}()
}

func (f *flights) end(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.flying, key)
}

func (f *flights) has(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flying[key]
}

// close waits for all of them; their context has ended.
func (f *flights) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.wg.Wait()
}
