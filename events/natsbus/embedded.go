package natsbus

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

// Limits of an embedded server. They are explicit because the broker's own
// depend on the machine, or are too low.
const (
	// DefaultMaxStore is what the streams may hold on disk together; the table of
	// streams reserves less than this.
	DefaultMaxStore = 8 << 30
	// DefaultMaxMemory is what the memory streams may hold together.
	DefaultMaxMemory = 512 << 20
	maxPayload       = 1 << 20
	maxConsumers     = 20_000
	maxDedupe        = 2 * time.Hour
	startTimeout     = 30 * time.Second
	loopback         = "127.0.0.1"
)

// EmbeddedConfig describes the bus of one machine.
type EmbeddedConfig struct {
	// Dir is the state directory of the bus. It is created if need be and used by
	// one server at a time.
	Dir string
	// Listen opens a port for agents and the command line. Without it
	// only connections of this process are possible, and nothing touches a socket.
	Listen bool
	// Host to listen on. "": loopback.
	Host string
	// Port to listen on. 0: the one used last time if it is free, else any.
	Port int
	// Operator switches accounts on; so does Trust, in a process that is not to have
	// the operator's keys. Without either everybody may do everything: for tests.
	Operator *Operator
	Trust    *Trust
	// MaxStore bounds the streams on disk, in bytes. 0: DefaultMaxStore.
	MaxStore int64
	// Log takes the server's own lines. nil: none.
	Log *zap.Logger
}

// Embedded is a NATS server in this process. Every write to a truth stream is
// on disk before it is acknowledged.
type Embedded struct {
	cfg   EmbeddedConfig
	state *stateDir

	mu    sync.Mutex // of what a restart replaces
	srv   *server.Server
	lines *serverLog
	url   string
}

// Start runs a server until Shutdown. An error is one line that says what is
// wrong with the directory, the port or the disk, and what to do about it.
func Start(c EmbeddedConfig) (*Embedded, error) {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	state, err := openStateDir(c.Dir)
	if err != nil {
		return nil, err
	}
	e := &Embedded{cfg: c, state: state}
	if err := e.start(c); err != nil {
		state.release()
		return nil, err
	}
	return e, nil
}

// start is called with e.mu held, or before anybody else has e.
func (e *Embedded) start(c EmbeddedConfig) error {
	port, err := e.state.choosePort(c)
	if err != nil {
		return err
	}
	opts := options(c, port)
	if err := c.trust(opts); err != nil {
		return err
	}
	if err := e.run(opts, c.Log); err != nil {
		return fmt.Errorf("starting the bus in %s: %w", c.Dir, err)
	}
	if !c.Listen {
		return nil
	}
	addr, ok := e.srv.Addr().(*net.TCPAddr)
	if !ok {
		e.stop()
		return fmt.Errorf("starting the bus in %s: it does not listen", c.Dir)
	}
	host := c.host()
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = loopback // from here it is reached there
	}
	e.url = "nats://" + net.JoinHostPort(host, strconv.Itoa(addr.Port))
	if err := e.state.publishPort(addr.Port, e.url); err != nil {
		e.stop()
		return err
	}
	return nil
}

func options(c EmbeddedConfig, port int) *server.Options {
	maxStore := c.MaxStore
	if maxStore == 0 {
		maxStore = DefaultMaxStore
	}
	return &server.Options{
		ServerName: "spotferry",
		Host:       c.host(), Port: port, DontListen: !c.Listen,
		NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: c.Dir, SyncAlways: true,
		JetStreamMaxStore: maxStore, JetStreamMaxMemory: DefaultMaxMemory,
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: maxConsumers, Duplicates: maxDedupe},
		MaxPayload:      maxPayload,
		PingInterval:    20 * time.Second, MaxPingsOut: 2,
	}
}

func (c EmbeddedConfig) host() string {
	if c.Host == "" {
		return loopback
	}
	return c.Host
}

// trust switches accounts on, if anybody is to be trusted.
func (c EmbeddedConfig) trust(opts *server.Options) error {
	dir := filepath.Join(c.Dir, accountsDir)
	switch {
	case c.Operator != nil:
		if err := c.Operator.SeedResolver(dir); err != nil {
			return err
		}
		return withAccounts(opts, c.Operator.operatorJWT, c.Operator.sys, dir)
	case c.Trust != nil:
		if err := c.Trust.Seed(dir); err != nil {
			return err
		}
		return withAccounts(opts, c.Trust.OperatorJWT, c.Trust.System, dir)
	}
	return nil
}

// withAccounts trusts the operator and keeps account claims in dir, where a
// claims update from a system user replaces or deletes them.
func withAccounts(opts *server.Options, operatorJWT, system, dir string) error {
	claims, err := jwt.DecodeOperatorClaims(operatorJWT)
	if err != nil {
		return fmt.Errorf("reading the operator's own claims: %w", err)
	}
	// A server on its own has nobody to ask for an account that it does not have:
	// whoever comes with one that was deleted is refused at once.
	resolver, err := server.NewDirAccResolver(dir, 0, time.Hour, server.HardDelete, server.FetchTimeout(time.Microsecond))
	if err != nil {
		return fmt.Errorf("opening the account directory %s: %w", dir, err)
	}
	opts.TrustedOperators = []*jwt.OperatorClaims{claims}
	opts.SystemAccount = system
	opts.AccountResolver = resolver
	return nil
}

func (e *Embedded) run(opts *server.Options, log *zap.Logger) error {
	srv, err := server.NewServer(opts)
	if err != nil {
		if opts.AccountResolver != nil {
			opts.AccountResolver.Close()
		}
		return err
	}
	lines := &serverLog{log: log}
	srv.SetLoggerV2(lines, false, false, false)
	e.srv, e.lines = srv, lines
	srv.Start()
	if fatal := lines.fatal(); fatal != "" {
		e.stop()
		return explain(fatal)
	}
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		e.stop()
		return errors.New("the server was not ready in time; look at its log lines")
	}
	return nil
}

// URL is where agents and the command line connect; "" without Listen. It is
// also in the file that URLFile names.
func (e *Embedded) URL() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.url
}

// Addr is the host:port that it listens on; "" without Listen.
func (e *Embedded) Addr() string { return strings.TrimPrefix(e.URL(), "nats://") }

// URLFile names the file that holds the current URL while the server listens.
func (e *Embedded) URLFile() string { return URLFile(e.state.dir) }

// InProcessConn opens a connection without a socket.
func (e *Embedded) InProcessConn() (net.Conn, error) {
	e.mu.Lock()
	srv := e.srv
	e.mu.Unlock()
	c, err := srv.InProcessConn()
	if err != nil {
		return nil, err
	}
	return newPipe(c), nil
}

// Room returns an error wrapping ErrFull when the disk under the bus is nearly
// full. Log asks it before it writes, because a broker that meets a full disk
// does not answer at all.
func (e *Embedded) Room() error { return e.state.room() }

// Shutdown stops the server and returns when every goroutine of it has ended
// and the directory may be used by another.
func (e *Embedded) Shutdown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop()
	e.state.release()
}

func (e *Embedded) stop() {
	e.srv.Shutdown()
	e.srv.WaitForShutdown()
}
