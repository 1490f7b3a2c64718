package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/chunk"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// accounts is what the gateway needs of the operator: one account per job, one user per epoch.
type accounts interface {
	// AddJob makes the job's account known to the bus; repeating it is harmless.
	AddJob(ctx context.Context, job events.JobID) error
	// Bootstrap mints a credential that may only join.
	Bootstrap(job events.JobID, epoch int, lease events.LeaseID) (creds string, err error)
	// User mints the credential of one job and epoch for an agent's own key.
	User(job events.JobID, epoch int, publicKey string) (jwt string, err error)
	// Revoke cuts a key off, connections included, before it returns.
	Revoke(ctx context.Context, job events.JobID, publicKey string) error
	// DropJob removes the account of a job that is closed.
	DropJob(ctx context.Context, job events.JobID) error
}

// signals takes heartbeats and log lines, which belong to no aggregate.
type signals interface {
	PutSignal(ctx context.Context, org events.OrgID, job events.JobID, epoch int, hb events.Heartbeat) error
	AppendLog(ctx context.Context, org events.OrgID, job events.JobID, b events.LogBatch) error
	// Signal returns the newest heartbeat of a job's epoch, or false.
	Signal(ctx context.Context, org events.OrgID, job events.JobID, epoch int) (events.Heartbeat, bool, error)
}

// vault keeps what must be handed out byte for byte the same.
type vault interface {
	// Keep stores value under key unless there is one already, and returns what is stored.
	Keep(ctx context.Context, key string, value []byte) ([]byte, error)
}

// Config of a Gateway. Every field is required unless it says so.
type Config struct {
	Log      events.Log
	Book     *failover.Book
	Accounts accounts
	Signals  signals
	Vault    vault
	Secrets  secrets // optional: without it no job with secrets is joined
	Keys     sealer  // required with Secrets
	Store    checkpoint.Store
	Grant    events.StoreGrant // as agents are told; Tenant is set per organisation
	Timers   events.Timers
	URL      string // of the bus, as agents dial it
	URLFile  string // optional
	Now      func() events.Moment
	// Control converts a market time to control time.
	Control func(market time.Time) time.Time
	// Push tells an agent to renew at once.
	Push   func(job events.JobID, epoch int)
	Logger *zap.Logger
	// Workers is how many requests to the store are under way at once; 0: 8.
	Workers    int
	Collection Collection
	Metrics    *Metrics // optional
	// Turn, if set, is called before each round of the collection: a simulation gives it an instant of its own.
	Turn func()
	// Signer signs accesses to the store for grants of kind "signed"; required with that kind.
	Signer checkpoint.Signer
	// TenantKey returns the key that an organisation's checkpoints are encrypted
	// with, or false. nil: none is. With it Keys is required.
	TenantKey func(ctx context.Context, org events.OrgID) (chunk.Key, bool, error)
}

// Gateway answers agents. Handle is safe for concurrent use.
type Gateway struct {
	cfg Config

	read      reading
	collector collector
	metrics   *Metrics

	mu    sync.Mutex
	jobs  map[events.JobID]*memo
	purse purse
}

// memo is what the gateway remembers of a job to spare itself work. Losing it costs
// a repetition and nothing else.
type memo struct {
	fenced  int             // the newest epoch whose predecessors' credentials are revoked
	revoked map[string]bool // keys
	pushed  events.Command  // the newest order that was pushed
	rate    rate            // of the newest machine
}

// New returns a Gateway.
func New(cfg Config) *Gateway {
	cfg.Collection = cfg.Collection.defaults(cfg.Timers)
	return &Gateway{cfg: cfg, read: newReading(), collector: newCollector(), metrics: cfg.Metrics, jobs: map[events.JobID]*memo{}, purse: newPurse()}
}

// Bootstrap returns a machine's user data: minted once per lease and the same bytes ever after.
func (g *Gateway) Bootstrap(ctx context.Context, job events.JobID, epoch int, lease events.LeaseID) ([]byte, error) {
	if err := g.cfg.Accounts.AddJob(ctx, job); err != nil {
		return nil, fmt.Errorf("making the account of job %s: %w", job, err)
	}
	creds, err := g.cfg.Accounts.Bootstrap(job, epoch, lease)
	if err != nil {
		return nil, fmt.Errorf("minting the bootstrap token of %s: %w", lease, err)
	}
	b, err := json.Marshal(events.Bootstrap{
		Job: job, Epoch: epoch, Lease: lease, URL: g.cfg.URL, URLFile: g.cfg.URLFile, Token: creds, Timers: g.cfg.Timers,
	})
	if err != nil {
		return nil, err
	}
	return g.cfg.Vault.Keep(ctx, "bootstrap."+string(lease), b)
}

// standing is what an agent is to its job.
type standing int

const (
	strange   standing = iota // its epoch is over, or never was
	next                      // joined and waiting to be placed
	current                   // may commit
	restarted                 // same machine, but its job goes on under a newer epoch
)

func standingOf(j failover.Job, epoch int, lease events.LeaseID) standing {
	c, n := j.Current, j.Next
	switch {
	case j.Closed:
		return strange
	case c != nil && c.Lease == lease && epoch == j.Epoch:
		return current
	case c != nil && c.Lease == lease && epoch < j.Epoch:
		return restarted
	case n != nil && n.Lease == lease && n.Epoch == epoch && !n.Joined.IsZero() && !j.Over():
		return next
	}
	return strange
}

var errFenced = &events.Refusal{Code: events.RefusedFenced, Message: "this epoch is over", Remedy: "stop the trainer; commit nothing more"}

func invalid(format string, args ...any) *events.Refusal {
	return &events.Refusal{Code: events.RefusedInvalid, Message: fmt.Sprintf(format, args...)}
}

// refusalOf turns an error of ours into what an agent is told: nothing of our inside, and that it may ask again.
func (g *Gateway) refusalOf(err error) *events.Refusal {
	var r *events.Refusal
	if errors.As(err, &r) {
		return r
	}
	if errors.Is(err, failover.ErrNoJob) {
		return errFenced
	}
	g.cfg.Logger.Warn("agent request not served", zap.Error(err))
	return &events.Refusal{Code: events.RefusedUnavailable, Message: "the control plane cannot answer now", Remedy: "ask again"}
}

// job returns the job and the agent's standing. The cache answers when it knows
// the agent; before a stranger is turned away the log is asked.
func (g *Gateway) job(ctx context.Context, id events.JobID, epoch int, lease events.LeaseID) (failover.Job, standing, error) {
	if j, ok := g.cfg.Book.Cached(id); ok {
		if s := standingOf(j, epoch, lease); s != strange {
			return j, s, nil
		}
	}
	j, err := g.cfg.Book.Job(ctx, id)
	if err != nil {
		return failover.Job{}, strange, err
	}
	return j, standingOf(j, epoch, lease), nil
}

// Handle answers one request. subject is the one it came on; the reply is JSON.
// It never panics, whatever the bytes.
func (g *Gateway) Handle(ctx context.Context, subject string, body []byte) []byte {
	reply, err := g.route(ctx, subject, body)
	if err != nil {
		reply = events.Reply{Refusal: g.refusalOf(err)}
	}
	b, err := json.Marshal(reply)
	if err != nil {
		g.cfg.Logger.Error("encoding a reply", zap.Error(err))
		return []byte(`{"refusal":{"code":"unavailable","message":"no answer could be encoded"}}`)
	}
	return b
}

func (g *Gateway) route(ctx context.Context, subject string, body []byte) (any, error) {
	job, epoch, verb, err := events.ParseAgentSubject(subject)
	if err != nil {
		return nil, invalid("%v", err)
	}
	a := ask{g: g, ctx: ctx, job: job, epoch: epoch, body: body}
	switch verb {
	case events.VerbJoin:
		return a.join()
	case events.VerbRenew:
		return a.renew()
	case events.VerbNotice:
		return a.notice()
	case events.VerbCommit:
		return a.commit()
	case events.VerbGrant:
		return a.grant()
	case events.VerbReject:
		return a.reject()
	case events.VerbDone:
		return a.done()
	case events.VerbLog:
		return a.log()
	case events.VerbTrouble:
		return a.trouble()
	}
	return nil, invalid("verb %.40q is not known", verb)
}
