package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// BusConfig says how to reach the gateway over the bus.
type BusConfig struct {
	Bootstrap events.Bootstrap
	Entropy   io.Reader // for the agent's own key; crypto/rand.Reader
	// Dial opens a connection to an address; nil is TCP. It wins over the URL's
	// address and over URLFile, for a server in the same process.
	Dial func(address string) (net.Conn, error)
	Log  *zap.Logger // nil: silence
}

// Validate reports what is missing.
func (c BusConfig) Validate() error {
	if c.Entropy == nil {
		return errors.New("agent bus: Entropy is nil: give crypto/rand.Reader")
	}
	if _, err := url.Parse(c.Bootstrap.URL); err != nil || c.Bootstrap.URL == "" {
		return fmt.Errorf("agent bus: URL is %.100q: give the address of the bus, such as nats://127.0.0.1:4222", c.Bootstrap.URL)
	}
	return checkTimers(c.Bootstrap.Timers)
}

// Bus is Control by request and reply. It connects with the bootstrap token,
// joins, and from then on with credentials of its own; a connection that is lost
// is sought for ever. Nothing is kept for a connection that is down: a commit
// sent minutes late would be sent without a hold.
type Bus struct {
	cfg   BusConfig
	key   nkeys.KeyPair
	hints chan struct{}

	mu    sync.Mutex
	conn  *nats.Conn
	epoch int
}

var _ Control = (*Bus)(nil)

// OpenBus makes the agent's key and begins to connect; it does not wait for it.
func OpenBus(cfg BusConfig) (*Bus, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	key, err := nkeys.CreatePairWithRand(nkeys.PrefixByteUser, cfg.Entropy)
	if err != nil {
		return nil, fmt.Errorf("agent bus: making a key: %w", err)
	}
	b := &Bus{cfg: cfg, key: key, hints: make(chan struct{}, 1), epoch: cfg.Bootstrap.Epoch}
	token, err := bootstrapUser(cfg.Bootstrap.Token)
	if err != nil {
		return nil, err
	}
	b.conn, err = b.connect(token...)
	return b, err
}

// bootstrapUser reads a credentials file's text. A bus without users has none.
func bootstrapUser(token string) ([]nats.Option, error) {
	if token == "" {
		return nil, nil
	}
	jwt, err := nkeys.ParseDecoratedJWT([]byte(token))
	if err != nil {
		return nil, fmt.Errorf("agent bus: the bootstrap token holds no user: %w", err)
	}
	key, err := nkeys.ParseDecoratedUserNKey([]byte(token))
	if err != nil {
		return nil, fmt.Errorf("agent bus: the bootstrap token holds no user key: %w", err)
	}
	return asUser(jwt, key)
}

// asUser connects with a credential and hears answers where only its key may.
func asUser(jwt string, key nkeys.KeyPair) ([]nats.Option, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("agent bus: %w", err)
	}
	return []nats.Option{
		nats.UserJWT(func() (string, error) { return jwt, nil }, key.Sign), nats.CustomInboxPrefix("_INBOX." + public),
	}, nil
}

func (b *Bus) connect(user ...nats.Option) (*nats.Conn, error) {
	t := b.cfg.Bootstrap.Timers
	opts := []nats.Option{
		nats.Name(string(b.cfg.Bootstrap.Lease)),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(func(tries int) time.Duration {
			return min(t.Heartbeat/8<<min(tries, 6), t.Heartbeat, 2*time.Second)
		}),
		nats.Timeout(2 * time.Second),
		nats.PingInterval(t.Heartbeat), nats.MaxPingsOutstanding(2),
		nats.IgnoreDiscoveredServers(), nats.DontRandomize(), nats.SkipHostLookup(),
		nats.SetCustomDialer(dialer{b.cfg}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { b.cfg.Log.Warn("bus connection lost", zap.Error(err)) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { b.cfg.Log.Debug("bus not reached", zap.Error(err)) }),
		nats.ReconnectHandler(func(*nats.Conn) { b.cfg.Log.Info("bus connection is back"); b.hint() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { b.cfg.Log.Warn("bus", zap.Error(err)) }),
	}
	conn, err := nats.Connect(b.cfg.Bootstrap.URL, append(opts, user...)...)
	if err != nil {
		return nil, fmt.Errorf("agent bus: connecting to %s: %w", b.cfg.Bootstrap.URL, err)
	}
	return conn, nil
}

// Close ends the connection.
func (b *Bus) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn.Close()
}

// Hints implements Control.
func (b *Bus) Hints() <-chan struct{} { return b.hints }

func (b *Bus) hint() {
	select {
	case b.hints <- struct{}{}:
	default:
	}
}

// Join implements Control.
func (b *Bus) Join(ctx context.Context, r events.JoinRequest) (events.JoinReply, error) {
	public, err := b.key.PublicKey()
	if err != nil {
		return events.JoinReply{}, fmt.Errorf("agent bus: %w", err)
	}
	r.Key = public
	if r.SealTo, r.Proof, err = b.sealTo(); err != nil {
		return events.JoinReply{}, err
	}
	reply, err := request[events.JoinReply](ctx, b, events.VerbJoin, r)
	if err != nil {
		return reply, err
	}
	if reply.Refusal != nil {
		return reply, reply.Refusal
	}
	return reply, b.Adopt(b.cfg.Bootstrap.Epoch, reply.JWT)
}

// Adopt implements Control: it goes over to the agent's own user and listens for
// the hints of the epoch.
func (b *Bus) Adopt(epoch int, jwt string) error {
	var user []nats.Option
	if jwt != "" {
		var err error
		if user, err = asUser(jwt, b.key); err != nil {
			return err
		}
	}
	conn, err := b.connect(user...)
	if err != nil {
		return err
	}
	down := events.DownSubject(b.cfg.Bootstrap.Job, epoch)
	if _, err := conn.Subscribe(down, func(*nats.Msg) { b.hint() }); err != nil {
		conn.Close()
		return fmt.Errorf("agent bus: subscribing to %s: %w", down, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn.Close()
	b.conn, b.epoch = conn, epoch
	return nil
}

// Renew implements Control.
func (b *Bus) Renew(ctx context.Context, h events.Heartbeat) (events.RenewReply, error) {
	reply, err := request[events.RenewReply](ctx, b, events.VerbRenew, h)
	if err == nil && reply.Refusal != nil {
		err = reply.Refusal
	}
	return reply, err
}

// Notice implements Control.
func (b *Bus) Notice(ctx context.Context, r events.NoticeRequest) error {
	return b.tell(ctx, events.VerbNotice, r)
}

// Commit implements Control.
func (b *Bus) Commit(ctx context.Context, r events.CommitRequest) error {
	return b.tell(ctx, events.VerbCommit, r)
}

// Reject implements Control.
func (b *Bus) Reject(ctx context.Context, r events.RejectRequest) error {
	return b.tell(ctx, events.VerbReject, r)
}

// Done implements Control.
func (b *Bus) Done(ctx context.Context, r events.DoneRequest) error {
	return b.tell(ctx, events.VerbDone, r)
}

// Trouble implements Control.
func (b *Bus) Trouble(ctx context.Context, r events.TroubleRequest) error {
	return b.tell(ctx, events.VerbTrouble, r)
}

// Grant asks for access to objects of the checkpoint store.
func (b *Bus) Grant(ctx context.Context, r events.GrantRequest) (events.GrantReply, error) {
	reply, err := request[events.GrantReply](ctx, b, events.VerbGrant, r)
	if err == nil && reply.Refusal != nil {
		err = reply.Refusal
	}
	return reply, err
}

// Log implements Control.
func (b *Bus) Log(ctx context.Context, l events.LogBatch) error {
	return b.tell(ctx, events.VerbLog, l)
}

func (b *Bus) tell(ctx context.Context, v events.Verb, body any) error {
	reply, err := request[events.Reply](ctx, b, v, body)
	if err == nil && reply.Refusal != nil {
		err = reply.Refusal
	}
	return err
}

// request asks the gateway one thing.
func request[R any](ctx context.Context, b *Bus, v events.Verb, body any) (R, error) {
	var reply R
	data, err := json.Marshal(body)
	if err != nil {
		return reply, fmt.Errorf("agent bus: %s: %w", v, err)
	}
	b.mu.Lock()
	conn, epoch := b.conn, b.epoch
	b.mu.Unlock()
	subject := events.AgentSubject(b.cfg.Bootstrap.Job, epoch, v)
	msg, err := conn.RequestWithContext(ctx, subject, data)
	if err != nil {
		return reply, fmt.Errorf("asking %s: %w", subject, err)
	}
	if err := json.Unmarshal(msg.Data, &reply); err != nil {
		return reply, fmt.Errorf("asking %s: the answer of %d bytes does not parse: %w", subject, len(msg.Data), err)
	}
	return reply, nil
}

// dialer dials where the bus is now. A bus on one machine may come back on
// another port, and says so in a file.
type dialer struct{ cfg BusConfig }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	if d.cfg.Dial != nil {
		return d.cfg.Dial(address)
	}
	if file := d.cfg.Bootstrap.URLFile; file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading where the bus is: %w", err)
		}
		u, err := url.Parse(strings.TrimSpace(string(data)))
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("%s holds %.100q, not the address of a bus", file, data)
		}
		address = u.Host
	}
	return net.DialTimeout(network, address, 2*time.Second)
}
