package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// stride is how many bytes pass the limiter at once, so that a new limit acts at
// once and a counter of bytes sent moves.
const stride = 64 << 10

// outgoing is a reader over one buffer that is being put. It keeps to the rate,
// counts what it gives, and can be rewound by a store that tries again.
type outgoing struct {
	ctx     context.Context
	data    []byte
	off     int
	counted int
	e       *Engine
}

func (o *outgoing) Read(p []byte) (int, error) {
	if o.off == len(o.data) {
		return 0, io.EOF
	}
	n := copy(p, o.data[o.off:])
	if o.e.limiter.Limit() != rate.Inf {
		n = min(n, stride)
	}
	return n, o.pass(n)
}

// WriteTo gives everything that is left in one call when nothing limits it.
func (o *outgoing) WriteTo(w io.Writer) (int64, error) {
	start := o.off
	for o.off < len(o.data) {
		n := len(o.data) - o.off
		if o.e.limiter.Limit() != rate.Inf {
			n = min(n, stride)
		}
		part := o.data[o.off : o.off+n]
		if err := o.wait(n); err != nil {
			return int64(o.off - start), err
		}
		n, err := w.Write(part)
		o.advance(n)
		if err != nil {
			return int64(o.off - start), err
		}
	}
	return int64(o.off - start), nil
}

func (o *outgoing) pass(n int) error {
	if err := o.wait(n); err != nil {
		return err
	}
	o.advance(n)
	return nil
}

// wait asks the limiter. A limit that was set in between may be for less than a
// stride, or none.
func (o *outgoing) wait(n int) error {
	if o.e.limiter.Limit() == rate.Inf {
		return o.ctx.Err()
	}
	err := o.e.limiter.WaitN(o.ctx, min(n, stride))
	if err != nil && o.ctx.Err() == nil { // it knows already that the deadline comes first
		err = wrap(context.DeadlineExceeded, err)
	}
	return err
}

func (o *outgoing) advance(n int) {
	o.off += n
	if more := o.off - o.counted; more > 0 {
		o.counted = o.off
		o.e.sent.Add(int64(more))
	}
}

// ReadAt implements io.ReaderAt for a store that sums what it will send before it
// does: that is no sending.
func (o *outgoing) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(o.data)) {
		return 0, io.EOF
	}
	n := copy(p, o.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Len is what is left to read.
func (o *outgoing) Len() int { return len(o.data) - o.off }

// Seek implements io.Seeker.
func (o *outgoing) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += int64(o.off)
	case io.SeekEnd:
		offset += int64(len(o.data))
	}
	if offset < 0 || offset > int64(len(o.data)) {
		return 0, errors.New("seeking outside of what is put")
	}
	o.off = int(offset)
	return offset, nil
}

// put writes an object and measures the link.
func (e *Engine) put(ctx context.Context, name string, data []byte) error {
	e.link.begin()
	err := e.cfg.Store.Put(ctx, name, &outgoing{ctx: ctx, data: data, e: e}, int64(len(data)))
	if err != nil {
		e.link.end(0)
		return fmt.Errorf("writing %s: %w", name, err)
	}
	e.link.end(int64(len(data)))
	return nil
}

// meter measures a rate over the time in which anything was under way.
type meter struct {
	mu     sync.Mutex
	flying int
	since  time.Time     // when flying became positive, or the last sample
	spent  time.Duration // in this sample
	bytes  int64         // in this sample
	mean   float64       // bytes a second, exponentially weighted
}

// sample is how much time makes one measurement. Shorter ones say nothing: a
// store may take a chunk at memory's speed and then make the next wait.
const sample = 500 * time.Millisecond

func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick(time.Now())
	m.flying++
}

func (m *meter) end(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick(time.Now())
	m.flying--
	m.bytes += bytes
	if m.spent < sample || m.bytes == 0 {
		return
	}
	now := float64(m.bytes) / m.spent.Seconds()
	if m.mean == 0 {
		m.mean = now
	}
	m.mean += 0.3 * (now - m.mean)
	m.spent, m.bytes = 0, 0
}

// tick accounts for the time since the last call. mu is held.
func (m *meter) tick(now time.Time) {
	if m.flying > 0 {
		m.spent += now.Sub(m.since)
	}
	m.since = now
}

// rate returns bytes a second. Before the first full sample it is what the
// sample has so far.
func (m *meter) rate() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mean == 0 && m.spent > 0 {
		return float64(m.bytes) / m.spent.Seconds()
	}
	return m.mean
}

// counters are an engine's, for Progress.
type counters struct {
	read, sent, reused, left, fetched atomic.Int64
	link                              meter
}
