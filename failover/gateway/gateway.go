package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
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
}

// Gateway answers agents. Handle is safe for concurrent use.
type Gateway struct {
	cfg Config

	mu      sync.Mutex
	paid    map[events.LeaseID]time.Time // market time a lease is paid until
	fenced  map[string]bool              // "<job>-<epoch>": older credentials are revoked
	keys    map[events.JobID]map[int]string
	trained map[string]int // "<job>-<epoch>": renewals seen in training without a step told
}

// New returns a Gateway.
func New(cfg Config) *Gateway {
	return &Gateway{
		cfg: cfg, paid: map[events.LeaseID]time.Time{}, fenced: map[string]bool{},
		keys: map[events.JobID]map[int]string{}, trained: map[string]int{},
	}
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
	}
	return nil, invalid("verb %.40q is not known", verb)
}

// ask is one request being answered.
type ask struct {
	g     *Gateway
	ctx   context.Context
	job   events.JobID
	epoch int
	body  []byte
}

func (a ask) read(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return invalid("body: %v", err)
	}
	return nil
}

// holder returns the job if the asker is its current agent, or the refusal.
func (a ask) holder(lease events.LeaseID) (failover.Job, error) {
	j, s, err := a.g.job(a.ctx, a.job, a.epoch, lease)
	if err == nil && s != current {
		err = errFenced
	}
	return j, err
}

func (a ask) apply(in failover.Input) (failover.Job, error) {
	j, evs, err := a.g.cfg.Book.Apply(a.ctx, a.job, in)
	failover.LogTransitions(a.g.cfg.Logger, evs)
	return j, err
}

func (a ask) join() (any, error) {
	var r events.JoinRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	if r.Key == "" {
		return nil, invalid("key: missing")
	}
	j, err := a.apply(failover.Joined{JobJoined: events.JobJoined{Epoch: a.epoch, Lease: r.Lease, Key: r.Key, Host: r.Host}})
	if err != nil {
		return nil, err
	}
	m := j.Next
	if standingOf(j, a.epoch, r.Lease) == current {
		m = j.Current // a repeat after the placement
	} else if standingOf(j, a.epoch, r.Lease) != next {
		if unheard(j, a.epoch, r.Lease) {
			return nil, &events.Refusal{Code: events.RefusedUnavailable, Message: "the purchase of this machine is not recorded yet", Remedy: "ask again"}
		}
		return nil, errFenced
	}
	if m.Key != r.Key {
		return nil, &events.Refusal{Code: events.RefusedFenced, Message: "the token has been used by another agent"}
	}
	jwt, err := a.g.cfg.Accounts.User(a.job, a.epoch, r.Key)
	if err != nil {
		return nil, err
	}
	return events.JoinReply{
		JWT: jwt, Org: j.Attribution.Org, Spec: j.Spec, Store: a.g.grantFor(j), Timers: a.g.cfg.Timers,
	}, nil
}

// unheard says whether a lease may still be on its way into the job's record: a
// machine can boot faster than the news of its purchase travels.
func unheard(j failover.Job, epoch int, lease events.LeaseID) bool {
	return !j.Over() && epoch >= j.NextEpoch && !slices.Contains(j.Open, lease) && (j.Next == nil || j.Next.Epoch == epoch)
}

func (g *Gateway) grantFor(j failover.Job) events.StoreGrant {
	grant := g.cfg.Grant
	grant.Tenant = string(j.Attribution.Org)
	return grant
}

func (a ask) grant() (any, error) {
	var r struct {
		Lease events.LeaseID `json:"lease"`
	}
	if err := a.read(&r); err != nil {
		return nil, err
	}
	j, s, err := a.g.job(a.ctx, a.job, a.epoch, r.Lease)
	if err == nil && s == strange {
		err = errFenced
	}
	return a.g.grantFor(j), err
}

func (a ask) notice() (any, error) {
	var r events.NoticeRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	j, err := a.holder(r.Lease)
	if err != nil {
		return nil, err
	}
	if r.Withdrawn {
		_, err := a.apply(failover.Withdrawn{JobNoticeWithdrawn: events.JobNoticeWithdrawn{Epoch: a.epoch, Lease: r.Lease}})
		return events.Reply{}, err
	}
	if r.Left < 0 || r.Left > time.Hour || r.Ago < 0 || r.Ago > time.Hour {
		return nil, invalid("left %s, ago %s: want 0 to 1h", r.Left, r.Ago)
	}
	now := a.g.cfg.Now().Control
	_, err = a.apply(failover.Noticed{JobNoticed: events.JobNoticed{
		Epoch: j.Epoch, Lease: r.Lease, Action: r.Action, Source: r.Source,
		Seen: now.Add(-r.Ago), Deadline: now.Add(r.Left), SignalMS: r.SignalMS,
	}})
	return events.Reply{}, err
}

func (a ask) commit() (any, error) {
	var r events.CommitRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	j, err := a.holder(r.Lease)
	if err != nil {
		return nil, err
	}
	c := r.Checkpoint
	if c.Epoch != a.epoch {
		return nil, invalid("checkpoint.epoch is %d on the subject of epoch %d", c.Epoch, a.epoch)
	}
	if n := j.Newest(); n != nil && n.Epoch == c.Epoch && c.Step < n.Step {
		return nil, &events.Refusal{Code: events.RefusedStale, Message: fmt.Sprintf("step %d is committed already", n.Step)}
	}
	ref := checkpoint.Ref{Name: c.Name, Epoch: c.Epoch, Step: c.Step, Digest: c.Digest, Bytes: c.Bytes, Files: c.Files}
	if err := checkpoint.Verify(a.ctx, a.g.cfg.Store, string(j.Attribution.Org), string(a.job), ref, false); err != nil {
		a.g.cfg.Logger.Warn("commit refused", zap.String("job", string(a.job)), zap.String("checkpoint", c.Name), zap.Error(err))
		return nil, invalid("checkpoint %s does not verify: %v", c.Name, err)
	}
	j, err = a.apply(failover.Committed{JobCommitted: events.JobCommitted{
		Epoch: a.epoch, Lease: r.Lease, Checkpoint: c, SaveMS: r.SaveMS, UploadMS: r.UploadMS, Final: r.Final,
	}})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(j.Commits, func(x events.Checkpoint) bool { return x.Name == c.Name }) {
		return nil, errFenced // the epoch moved on between the look and the append
	}
	return events.Reply{}, nil
}

func (a ask) reject() (any, error) {
	var r events.RejectRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	if _, err := a.holder(r.Lease); err != nil {
		return nil, err
	}
	_, err := a.apply(failover.Rejected{JobCheckpointRejected: events.JobCheckpointRejected{
		Epoch: a.epoch, Lease: r.Lease, Checkpoint: r.Checkpoint, Path: bounded(r.Path, 1024), Detail: bounded(r.Detail, 2048),
	}})
	return events.Reply{}, err
}

func (a ask) done() (any, error) {
	var r events.DoneRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	r.Reason = bounded(r.Reason, 2048)
	if _, err := a.holder(r.Lease); err != nil {
		return nil, err
	}
	_, err := a.apply(failover.Exited{Epoch: a.epoch, DoneRequest: r})
	return events.Reply{}, err
}

func (a ask) log() (any, error) {
	var b events.LogBatch
	if err := a.read(&b); err != nil {
		return nil, err
	}
	j, ok := a.g.cfg.Book.Cached(a.job)
	if !ok || a.epoch > max(j.Epoch, j.NextEpoch) {
		return nil, errFenced
	}
	b.Epoch = a.epoch // a dead epoch's last lines are still wanted
	return events.Reply{}, a.g.cfg.Signals.AppendLog(a.ctx, j.Attribution.Org, a.job, b)
}

func bounded(s string, n int) string { return s[:min(len(s), n)] }
