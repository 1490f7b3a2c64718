package noticedrill

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/time/rate"
)

// line is a TCP proxy that carries so many bytes a second towards its far end,
// over all connections together.
type line struct {
	listener net.Listener
	to       string
	limit    *rate.Limiter
	open     sync.WaitGroup
	ctx      context.Context
	hangUp   context.CancelFunc
}

const (
	// slice is how much goes through at once: connections share the line by it.
	slice = 8 << 10
	// slack is how many seconds' worth may be made up for when this process was
	// not woken in time: the line is to be as fast as it says on a busy machine too.
	slack = 0.2
)

func newLine(t *testing.T, to string, perSecond float64) *line {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &line{listener: l, to: to, limit: rate.NewLimiter(rate.Limit(perSecond), max(int(perSecond*slack), slice))}
	p.ctx, p.hangUp = context.WithCancel(context.Background())
	p.open.Go(p.serve)
	return p
}

func (p *line) addr() string { return p.listener.Addr().String() }

// cut ends it, in the middle of whatever it carries.
func (p *line) cut() {
	p.hangUp()
	p.listener.Close()
	p.open.Wait()
}

func (p *line) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.open.Go(func() { p.carry(near) })
	}
}

func (p *line) carry(near net.Conn) {
	defer near.Close()
	// What lies in buffers has not arrived: they are small.
	_ = near.(*net.TCPConn).SetReadBuffer(16 << 10)
	var d net.Dialer
	far, err := d.DialContext(p.ctx, "tcp", p.to)
	if err != nil {
		return
	}
	defer far.Close()
	defer context.AfterFunc(p.ctx, func() { near.Close(); far.Close() })()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.CopyBuffer(far, onlyRead{&limited{p, near}}, make([]byte, slice))
		_ = far.(*net.TCPConn).CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(onlyWrite{near}, far)
		_ = near.(*net.TCPConn).CloseWrite()
	})
	both.Wait()
}

type limited struct {
	p    *line
	from io.Reader
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.from.Read(b[:min(len(b), slice)])
	if n > 0 {
		err = errors.Join(err, l.p.limit.WaitN(l.p.ctx, n))
	}
	return n, err
}

// onlyRead and onlyWrite hide short cuts of io.Copy.
type (
	onlyRead  struct{ io.Reader }
	onlyWrite struct{ io.Writer }
)
