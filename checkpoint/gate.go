package checkpoint

import (
	"context"
	"sync"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

// gate bounds how many chunks are worked on at once and how much memory their
// buffers take. Both limits may change while work goes on. It is the only place
// large buffers come from.
type gate struct {
	mu      sync.Mutex
	workers int
	memory  int64
	size    int64 // of a pooled buffer

	busy    int   // tickets given out
	used    int64 // bytes they may hold
	waiting []*waiter
	idle    [][]byte // buffers between two tickets
	coders  []*chunk.Coder
	users   int // operations under way; without any, idle buffers are let go
}

type waiter struct {
	bytes int64
	ready chan struct{}
}

// ticket is the right to work on one chunk, with buffers of so many bytes.
type ticket struct {
	g     *gate
	bytes int64
	held  [][]byte
	code  *chunk.Coder
}

func newGate(workers int, memory, size int64) *gate {
	return &gate{workers: workers, memory: memory, size: size}
}

// limit changes the limits. What is under way is not interrupted.
func (g *gate) limit(workers int, memory int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.workers, g.memory = workers, memory
	g.admit()
}

// enter waits for a worker and memory, first come, first served. One that asks
// for more memory than there is at all works alone.
func (g *gate) enter(ctx context.Context, bytes int64) (*ticket, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{bytes, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.admit()
	g.mu.Unlock()
	select {
	case <-w.ready:
		return &ticket{g: g, bytes: bytes}, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, other := range g.waiting {
		if other == w {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			g.admit()
			return nil, ctx.Err()
		}
	}
	g.leave(bytes) // admitted in the same moment
	return nil, ctx.Err()
}

// admit lets in who is next, as long as there is room. mu is held.
func (g *gate) admit() {
	for len(g.waiting) > 0 {
		w := g.waiting[0]
		if g.busy >= g.workers || g.busy > 0 && g.used+w.bytes > g.memory {
			return
		}
		g.waiting = g.waiting[1:]
		g.busy++
		g.used += w.bytes
		close(w.ready)
	}
}

func (g *gate) leave(bytes int64) {
	g.busy--
	g.used -= bytes
	g.admit()
}

// room returns how much memory a buffer for n bytes takes.
func (g *gate) room(n int64) int64 {
	if n < g.size/4 {
		return n
	}
	return max(n, g.size)
}

// more adds to what a ticket is for, if there is memory for it now.
func (t *ticket) more(n int64) bool {
	n = t.g.room(n)
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	if t.g.used+n > t.g.memory {
		return false
	}
	t.g.used += n
	t.bytes += n
	return true
}

// coder returns the ticket's coder.
func (t *ticket) coder() *chunk.Coder {
	if t.code == nil {
		t.g.mu.Lock()
		defer t.g.mu.Unlock()
		if last := len(t.g.coders) - 1; last >= 0 {
			t.code, t.g.coders = t.g.coders[last], t.g.coders[:last]
		} else {
			t.code = &chunk.Coder{}
		}
	}
	return t.code
}

// buffer returns an empty buffer with room for n bytes, the ticket's until it is
// closed. The caller keeps to what the ticket is for.
func (t *ticket) buffer(n int64) []byte {
	if n < t.g.size/4 {
		return make([]byte, 0, n)
	}
	room := t.g.size + sealing
	if n > room {
		return make([]byte, 0, n)
	}
	t.g.mu.Lock()
	var b []byte
	if last := len(t.g.idle) - 1; last >= 0 {
		b, t.g.idle = t.g.idle[last], t.g.idle[:last]
	}
	t.g.mu.Unlock()
	if b == nil {
		b = make([]byte, 0, room)
	}
	t.held = append(t.held, b)
	return b
}

// take returns a buffer like buffer, which may be given back with put before
// the ticket is closed.
func (t *ticket) take(n int64) []byte {
	had := len(t.held)
	b := t.buffer(n)
	t.held = t.held[:had]
	return b
}

// put gives buffers back that were taken.
func (t *ticket) put(list [][]byte) {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	t.g.keep(list)
}

// lend keeps a ticket's buffers from being used again: something that failed
// may still be reading them.
func (t *ticket) lend() { t.held = nil }

// close gives worker, memory and buffers back.
func (t *ticket) close() {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	t.g.keep(t.held)
	if t.code != nil && t.g.users > 0 {
		t.g.coders = append(t.g.coders, t.code)
	}
	t.held, t.code = nil, nil
	t.g.leave(t.bytes)
}

// keep makes buffers available to others. mu is held.
func (g *gate) keep(list [][]byte) {
	if g.users == 0 {
		return
	}
	for _, b := range list {
		if int64(cap(b)) == g.size+sealing && int64(len(g.idle)+1)*g.size <= g.memory {
			g.idle = append(g.idle, b[:0])
		}
	}
}

// begin and end surround an operation: between operations no buffer is kept.
func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
}

func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users--; g.users == 0 {
		g.idle, g.coders = nil, nil
	}
}
