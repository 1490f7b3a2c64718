package simtest

import (
	"errors"
	"net"
	"sync"

	"github.com/spotferry/spotferry/events/natsbus"
)

var errCut = errors.New("network is unreachable")

// link is how one party reaches the bus.
type link struct {
	bus  func() *natsbus.Embedded // nil while it is down
	wire *wire                    // what it does to commands; nil: nothing

	mu     sync.Mutex
	down   bool
	cables map[*cable]bool
}

func newLink(bus func() *natsbus.Embedded) *link {
	return &link{bus: bus, cables: map[*cable]bool{}}
}

// InProcessConn makes a link an address to connect to.
func (l *link) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bus()
	if l.down || b == nil {
		return nil, errCut
	}
	c, err := b.InProcessConn()
	if err != nil {
		return nil, err
	}
	out := &cable{Conn: c, link: l}
	l.cables[out] = true
	return out, nil
}

// cut refuses new connections until heal. Those that are open break at once, or
// swallow everything without a word if mute is set.
func (l *link) cut(mute bool) {
	l.mu.Lock()
	l.down = true
	l.mu.Unlock()
	l.each(func(c *cable) {
		if mute {
			c.silence()
		} else {
			c.Close()
		}
	})
}

// heal lets connections be made again. What was swallowed stays so: muted ones break.
func (l *link) heal() {
	l.mu.Lock()
	l.down = false
	l.mu.Unlock()
	l.each(func(c *cable) {
		if c.muted() {
			c.Close()
		}
	})
}

func (l *link) each(f func(*cable)) {
	l.mu.Lock()
	var all []*cable
	for c := range l.cables {
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all { // each is on its own: the order does not matter
		f(c)
	}
}

// cable is one connection.
type cable struct {
	net.Conn
	link *link

	mu   sync.Mutex
	mute bool
}

func (c *cable) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = true
}

func (c *cable) muted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mute
}

// Read implements net.Conn.
func (c *cable) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.muted() {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (c *cable) Write(b []byte) (int, error) {
	if c.muted() {
		return len(b), nil
	}
	if c.link.wire == nil {
		return c.Conn.Write(b)
	}
	return len(b), c.link.wire.write(c, b)
}

// Close implements net.Conn.
func (c *cable) Close() error {
	c.link.mu.Lock()
	delete(c.link.cables, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
