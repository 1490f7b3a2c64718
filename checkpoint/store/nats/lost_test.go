package nats_test

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/nats"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

// deaf is a server that a connection does not hear for a time once it has
// published a description. What the server is told arrives.
type deaf struct {
	next natsbus.InProcess
	span time.Duration
	once sync.Once
}

func (d *deaf) InProcessConn() (net.Conn, error) {
	c, err := d.next.InProcessConn()
	return &deafConn{Conn: c, d: d}, err
}

type deafConn struct {
	net.Conn
	d   *deaf
	now atomic.Bool
}

func (c *deafConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("HPUB $O."+nats.DefaultBucket+".M.")) {
		c.d.once.Do(func() {
			c.now.Store(true)
			time.AfterFunc(c.d.span, func() { c.now.Store(false) })
		})
	}
	return c.Conn.Write(p)
}

func (c *deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.now.Load() {
			return n, err
		}
	}
}

// TestLostAnswer: a put whose answer is lost looks whether the object is there;
// if it cannot, it says that it does not know.
func TestLostAnswer(t *testing.T) {
	for _, tc := range []struct {
		name string
		span time.Duration
		done bool
	}{
		{"the answer alone", 25 * time.Second, true},
		{"the answer, and that of looking", 5 * time.Minute, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natsbustest.Bubble(t, func(t *testing.T) {
				e := bus(t)
				s := open(t, dial(t, &deaf{next: e, span: tc.span}), nats.Config{MaxBytes: 1 << 20})
				other := open(t, dial(t, e), nats.Config{})
				err := s.Put(t.Context(), "v1/a", strings.NewReader("content"), 7)
				if (err == nil) != tc.done {
					t.Errorf("Put = %v", err)
				}
				for _, final := range []error{checkpoint.ErrExists, checkpoint.ErrNotFound, checkpoint.ErrCorrupt, checkpoint.ErrNoSpace} {
					if errors.Is(err, final) {
						t.Errorf("Put = %v, which proves something", err)
					}
				}
				if got, err := read(t.Context(), other, "v1/a"); err != nil || string(got) != "content" {
					t.Errorf("got %q, %v", got, err)
				}
				time.Sleep(10 * time.Minute) // virtual: until the bus is heard again
				if err := s.Put(t.Context(), "v1/a", strings.NewReader("content"), 7); !errors.Is(err, checkpoint.ErrExists) {
					t.Errorf("Put again = %v, want ErrExists", err)
				}
			})
		})
	}
}
