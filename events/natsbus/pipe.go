package natsbus

import (
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	pipeLinger = 100 * time.Millisecond
	pipeLimit  = 64 << 20 // what the server lets a slow client owe it, too
)

// pipe is an in-process connection whose writes do not wait for the reader, as
// a socket's do not. On a bare net.Pipe a client that is still writing and a
// server that is already refusing it wait for each other.
type pipe struct {
	net.Conn
	wake chan struct{}

	mu     sync.Mutex
	buf    bytes.Buffer
	err    error
	closed bool
}

func newPipe(c net.Conn) *pipe {
	p := &pipe{Conn: c, wake: make(chan struct{}, 1)}
	go p.pump()
	return p
}

// Write keeps b for the pump. It fails when an earlier write has failed.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return 0, net.ErrClosed
	case p.err != nil:
		return 0, p.err
	case p.buf.Len()+len(b) > pipeLimit:
		p.err = net.ErrClosed
		return 0, p.err
	}
	p.buf.Write(b)
	p.signal()
	return len(b), nil
}

// Close returns at once; what was written before is still delivered if the
// other side reads it within a moment, as a socket would do.
func (p *pipe) Close() error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.mu.Unlock()
	if already {
		return nil
	}
	past := time.Unix(1, 0)
	_ = p.Conn.SetReadDeadline(past)
	_ = p.Conn.SetWriteDeadline(time.Now().Add(pipeLinger))
	p.signal()
	return nil
}

// Read maps the deadline that Close sets to what a closed socket answers.
func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if err != nil && p.isClosed() {
		return n, net.ErrClosed
	}
	return n, err
}

// SetDeadline bounds reads. Writes never wait.
func (p *pipe) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// SetReadDeadline does nothing once the connection is closed, so that no reader is revived.
func (p *pipe) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	return p.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: writes never wait.
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

func (p *pipe) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *pipe) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pump is the connection's one writer. It ends when the connection is closed
// and drained, or broken.
func (p *pipe) pump() {
	defer p.Conn.Close()
	var out []byte
	for range p.wake {
		for {
			p.mu.Lock()
			out = append(out[:0], p.buf.Bytes()...)
			p.buf.Reset()
			done := p.closed
			p.mu.Unlock()
			if len(out) == 0 && done {
				return
			}
			if len(out) == 0 {
				break
			}
			if _, err := p.Conn.Write(out); err != nil {
				p.fail(err)
				return
			}
		}
	}
}

func (p *pipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}
