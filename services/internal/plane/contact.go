package plane

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// contact knows how long the control plane has been within reach of the bus. While
// it was not, nobody's silence proves anything.
type contact struct {
	conn  *nats.Conn
	now   func() time.Time
	pause time.Duration // not having been asked for this long means that this process stood still

	mu      sync.Mutex
	since   time.Time
	asked   time.Time
	returns uint64 // how often the connection has come back
}

// unbroken is since when silence may be judged: this process's start, or the
// first time it was asked after its connection had been away, or after it had itself
// been stopped: what agents said meanwhile waits in a buffer that nobody has read. It is
// now while the connection is away.
func (c *contact) unbroken() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	stood := !c.asked.IsZero() && now.Sub(c.asked) > c.pause
	c.asked = now
	if n := c.conn.Stats().Reconnects; stood || n != c.returns || !c.conn.IsConnected() {
		c.since, c.returns = now, n
	}
	return c.since
}
