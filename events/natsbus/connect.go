package natsbus

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"
)

const (
	dialTimeout    = 5 * time.Second
	drainTimeout   = 5 * time.Second
	pingInterval   = 20 * time.Second
	reconnectAfter = 2 * time.Second
)

// ConnConfig says how to reach the bus and as whom.
type ConnConfig struct {
	// Exactly one of these says where the bus is.
	URL     string
	URLFile string // read at every dial, because a local bus may move to another port
	Server  InProcess

	// Credentials of an operator-mode bus; zero: none.
	Credentials Credentials
	// Name of the connection in the server's reports.
	Name string
	// Retry makes Connect return at once and dial in the background until the bus is there.
	Retry bool
	// Denied, if not nil, is told that the bus refuses the credentials: expired, revoked, unknown.
	// The connection goes on trying.
	Denied func(error)
	// Jitter returns a duration in [0, its argument), added between dials. nil: none.
	Jitter func(time.Duration) time.Duration
	Log    *zap.Logger
}

// InProcess is a server of this process, or what a simulation puts before it.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Connect opens a connection that never gives up: it dials again for as long
// as it is not closed, also when its credentials are refused. Nothing is
// buffered while it is away, so what was accepted was sent.
func Connect(c ConnConfig) (*nats.Conn, error) {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	o, err := c.options()
	if err != nil {
		return nil, fmt.Errorf("connecting %s: %w", c.Name, err)
	}
	nc, err := o.Connect()
	if err != nil {
		return nil, fmt.Errorf("connecting %s to the bus at %s: %w", c.Name, c.where(), err)
	}
	return nc, nil
}

func (c ConnConfig) where() string {
	switch {
	case c.Server != nil:
		return "this process"
	case c.URLFile != "":
		return c.URLFile
	}
	return c.URL
}

func (c ConnConfig) options() (nats.Options, error) {
	o := nats.GetDefaultOptions()
	o.Name = c.Name
	o.Timeout, o.DrainTimeout = dialTimeout, drainTimeout
	o.AllowReconnect, o.MaxReconnect, o.ReconnectBufSize = true, -1, -1
	o.RetryOnFailedConnect = c.Retry
	o.IgnoreAuthErrorAbort = true
	o.PingInterval, o.MaxPingsOut = pingInterval, 2
	o.NoRandomize = true
	o.CustomReconnectDelayCB = c.delay
	switch {
	case c.Server != nil:
		o.InProcessServer = c.Server
	case c.URLFile != "":
		o.CustomDialer = fileDialer(c.URLFile)
	case c.URL != "":
		o.Url = c.URL
	default:
		return o, errors.New("no URL, URL file or in-process server given")
	}
	c.handlers(&o)
	if c.Credentials.zero() {
		return o, nil
	}
	return o, c.authenticate(&o)
}

func (c ConnConfig) authenticate(o *nats.Options) error {
	user, err := c.Credentials.user()
	if err != nil {
		return err
	}
	o.InboxPrefix = inboxOf(user)
	o.UserJWT = func() (string, error) { return c.Credentials.JWT, nil }
	o.SignatureCB = func(nonce []byte) ([]byte, error) {
		kp, err := nkeys.FromSeed([]byte(c.Credentials.Seed))
		if err != nil {
			return nil, errors.New("credentials: the key cannot be read")
		}
		defer kp.Wipe()
		return kp.Sign(nonce)
	}
	return nil
}

// delay is how long to wait before the next dial, after attempts of them.
func (c ConnConfig) delay(attempts int) time.Duration {
	d := reconnectAfter
	if attempts <= 1 {
		d = reconnectAfter / 20 // most interruptions are a server that starts again
	}
	if c.Jitter != nil {
		d += c.Jitter(d)
	}
	return d
}

func (c ConnConfig) handlers(o *nats.Options) {
	log := c.Log.With(zap.String("connection", c.Name))
	o.ConnectedCB = func(*nats.Conn) { log.Debug("bus connected") }
	o.DisconnectedErrCB = func(nc *nats.Conn, err error) {
		if err == nil || nc.IsClosed() {
			log.Debug("bus left")
			return
		}
		log.Warn("bus lost", zap.Error(err))
	}
	o.ReconnectedCB = func(*nats.Conn) { log.Info("bus back") }
	o.ReconnectErrCB = func(_ *nats.Conn, err error) {
		log.Debug("bus still away", zap.Error(err))
		c.denied(err)
	}
	o.ClosedCB = func(*nats.Conn) { log.Debug("bus closed") }
	o.LameDuckModeHandler = func(*nats.Conn) { log.Info("bus about to stop") }
	o.AsyncErrorCB = func(_ *nats.Conn, s *nats.Subscription, err error) {
		subject := ""
		if s != nil {
			subject = s.Subject
		}
		log.Warn("bus error", zap.String("subject", subject), zap.Error(err))
		c.denied(err)
	}
}

func (c ConnConfig) denied(err error) {
	if c.Denied == nil {
		return
	}
	for _, e := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, e) {
			c.Denied(err)
			return
		}
	}
}

// fileDialer dials whatever the file named by it says at that moment.
type fileDialer string

// Dial ignores the address it is given.
func (f fileDialer) Dial(network, _ string) (net.Conn, error) {
	b, err := os.ReadFile(string(f))
	if err != nil {
		return nil, fmt.Errorf("where the bus listens: %w", err)
	}
	u, err := url.Parse(strings.TrimSpace(string(b)))
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("where the bus listens: %s holds no URL", string(f))
	}
	return (&net.Dialer{Timeout: dialTimeout}).Dial(network, u.Host)
}
