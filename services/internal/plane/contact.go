package plane

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// contact knows how long the control plane has been within reach of the bus. While
// it was not, nobody's silence proves anything.
type contact struct {
	conn *nats.Conn
	now  func() time.Time

	mu      sync.Mutex
	since   time.Time
	returns uint64 // how often the connection has come back
}

// unbroken is since when silence may be judged: this process's start, or the
// first time it was asked after its connection had been away. It is now while the
// connection is away.
func (c *contact) unbroken() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.conn.Stats().Reconnects; n != c.returns || !c.conn.IsConnected() {
		c.since, c.returns = c.now(), n
	}
	return c.since
}
