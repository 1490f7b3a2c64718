package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/ops"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// Config of a Server. Every field is required unless it says so.
type Config struct {
	Log     events.Log
	Signals signals
	Book    *failover.Book // appends submissions and cancellations
	Money   *ledger.Book
	Org     events.OrgID // of this installation's jobs
	Offers  func() []Offer
	Sellers map[string]provider.Provider
	Logs    LogReader
	Mark    string  // of this installation, on its machines; "": none is ever reaped
	Secrets secrets // nil: no job with secrets is taken
	// Checkpoints is whoever has the checkpoint store. nil: what needs it is refused.
	Checkpoints checkpoints
	Plan        func(ctx context.Context, r SubmitRequest) (Plan, error)
	Health      func(ctx context.Context) []Check
	Now         func() events.Moment
	Version     string
	Logger      *zap.Logger
	// Newest is the position of the newest event in the log. A read waits until the model has come
	// that far, so that what one replica has just written every replica shows. nil: it does not wait.
	Newest func(ctx context.Context) (uint64, error)
	// ReadOnly refuses everything that changes anything: no services run behind it.
	ReadOnly bool
}

// LogReader reads trainers' output back.
type LogReader interface {
	// ReadLog returns what was kept at or after since, oldest first, only the last tail
	// lines if tail is positive. epoch 0 is all.
	ReadLog(ctx context.Context, org events.OrgID, job events.JobID, epoch int, since time.Time, tail int) ([]events.LogBatch, error)
}

// Server answers requests from a read model that it keeps current.
type Server struct {
	cfg   Config
	ops   *ops.Book
	model *model
	ready chan struct{} // closed when the model has caught up
	heard chan struct{} // closed when requests are heard
}

// New returns a Server; Run starts it.
func New(cfg Config) *Server {
	book := ops.NewBook(cfg.Log, "/spotferry/console", func() time.Time { return cfg.Now().Control })
	return &Server{cfg: cfg, ops: book, model: newModel(), ready: make(chan struct{}), heard: make(chan struct{})}
}

// Run keeps the read model current until ctx ends, and returns nil then. It is called once.
func (s *Server) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return s.cfg.Log.Consume(gctx, events.Subscription{
			Filters:  []string{events.FilterJobs, events.FilterLeases, events.FilterOps},
			CaughtUp: func() { close(s.ready) },
		}, s.model.fold)
	})
	g.Go(func() error {
		return s.cfg.Signals.WatchSignals(gctx, s.model.heartbeat)
	})
	err := g.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

// Ready is closed once everything that was there at the start can be answered from.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Listening is closed once Serve hears requests: who asks before has no responder.
func (s *Server) Listening() <-chan struct{} { return s.heard }

// Handle answers one request; it waits for the model to catch up first. It never panics, whatever the bytes.
func (s *Server) Handle(ctx context.Context, subject string, body []byte) []byte {
	v, err := s.route(ctx, subject, body)
	a := answer[any]{Value: v}
	if err != nil {
		a = answer[any]{Problem: s.problemOf(err)}
	}
	b, err := json.Marshal(a)
	if err != nil {
		s.cfg.Logger.Error("encoding an answer", zap.Error(err))
		b = []byte(`{"problem":{"code":"internal","message":"the answer could not be encoded"}}`)
	}
	return b
}

func (s *Server) problemOf(err error) *Problem {
	var p *Problem
	refused, isRefused := failover.IsRefused(err)
	switch {
	case errors.As(err, &p):
		return p
	case isRefused:
		return &Problem{Code: "conflict", Message: refused.What, Remedy: refused.Remedy}
	case errors.Is(err, failover.ErrNoJob):
		return &Problem{Code: "not-found", Message: err.Error(), Remedy: "'spotferry job ls' lists them"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Problem{Code: "unavailable", Message: "the system did not answer in time", Remedy: "try again; 'spotferry doctor' says what is wrong"}
	}
	s.cfg.Logger.Warn("request not served", zap.Error(err))
	return &Problem{Code: "internal", Message: err.Error()}
}

func (s *Server) route(ctx context.Context, subject string, body []byte) (any, error) {
	who, verb, err := parseSubject(subject)
	if err != nil {
		return nil, &Problem{Code: "invalid", Message: err.Error(), Remedy: "the command line and the system may be of different versions"}
	}
	if err := s.permit(who, verb); err != nil {
		return nil, err
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.current(ctx)
	if verbs()[verb].changes {
		return s.do(ctx, who, verb, body)
	}
	switch verb {
	case GetPlan:
		return asked(body, func(r SubmitRequest) (Plan, error) { return s.cfg.Plan(ctx, r) })
	case GetFailover:
		return asked(body, func(q FailoverQuery) (FailoverReport, error) { return s.failover(ctx, q) })
	case GetFailovers, GetFailoverList, GetFailoverStats, GetFailoverEvents, GetDecision:
		return asked(body, func(q FailoverQuery) (any, error) { return s.answerFailovers(verb, q) })
	case GetCheckpoint, GetCheckpointUse, GetCheckpointAccess, GetCollectable:
		return asked(body, func(q CheckpointQuery) (any, error) { return s.askStore(ctx, verb, q) })
	case GetDrill:
		return asked(body, func(r DrillRequest) (Drill, error) { return s.drillCost(ctx, r) })
	}
	var q Query
	if len(body) > 0 {
		if err := decode(body, &q); err != nil {
			return nil, err
		}
	}
	return s.get(ctx, verb, q)
}

// do carries out what changes something.
func (s *Server) do(ctx context.Context, who asker, verb Verb, body []byte) (any, error) {
	switch verb {
	case DoSubmit:
		return asked(body, func(r SubmitRequest) (any, error) { return s.submit(ctx, who.name, r) })
	case DoCancel:
		return asked(body, func(r CancelRequest) (any, error) { return s.cancel(ctx, who.name, r) })
	case DoPause, DoResume, DoMigrate:
		return asked(body, func(r JobRequest) (Job, error) { return s.steer(ctx, who, verb, r) })
	case DoDrill:
		return asked(body, func(r DrillRequest) (Job, error) { return s.drill(ctx, who, r) })
	case DoHold, DoRelease:
		return asked(body, func(r HoldRequest) (Ops, error) { return s.hold(ctx, who, verb, r) })
	case DoFreeze:
		return asked(body, func(r FreezeRequest) (Ops, error) { return s.freeze(ctx, who, r) })
	case DoUnfreeze:
		return asked(body, func(r FreezeRequest) (Ops, error) { return s.unfreeze(ctx, who, r) })
	case DoPin, DoUnpin, DoDrop:
		return asked(body, func(r CheckpointRequest) ([]Checkpoint, error) { return s.retain(ctx, who, verb, r) })
	case DoCollect:
		return asked(body, func(r CollectRequest) (any, error) { return s.collect(ctx, who, r) })
	case DoBudget:
		return asked(body, func(r BudgetRequest) (Budget, error) { return s.setBudget(ctx, who, r) })
	case DoReap:
		return asked(body, func(r ReapRequest) ([]Reapable, error) { return s.reap(ctx, who, r) })
	}
	return nil, fmt.Errorf("request %s is in the table of verbs and nowhere else", verb)
}

// asked reads a request's body and answers it.
func asked[R, A any](body []byte, answer func(R) (A, error)) (any, error) {
	var r R
	if len(body) > 0 {
		if err := decode(body, &r); err != nil {
			return nil, err
		}
	}
	return answer(r)
}

func decode(b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return &Problem{Code: "invalid", Message: "request: " + err.Error(), Remedy: "the command line and the system may be of different versions"}
	}
	return nil
}

func (s *Server) get(ctx context.Context, verb Verb, q Query) (any, error) {
	switch verb {
	case GetClock:
		now := s.cfg.Now()
		return Clock{Control: now.Control, Market: now.Market, Version: s.cfg.Version}, nil
	case GetJobs:
		return s.jobs(ctx)
	case GetJob:
		return s.job(ctx, q.Job)
	case GetEvents:
		return s.events(q)
	case GetCheckpoints:
		return with(s, q.Job, func(r *jobRecord) ([]Checkpoint, error) { return r.checkpoints(s.cfg.Now().Control), nil })
	case GetBill:
		return s.bills(ctx, q.Job)
	case GetOffers:
		return s.offers(q), nil
	case GetInstances:
		return s.instances(ctx)
	case GetLogs:
		return s.logs(ctx, q)
	case GetHealth:
		return s.cfg.Health(ctx), nil
	case GetOps:
		return s.opsNow(ctx)
	case GetSellers:
		return s.sellers(ctx)
	case GetPools:
		return s.pools(ctx)
	case GetBudget:
		return s.budgets(ctx, q.Job)
	case GetReapable:
		return s.reapable(ctx)
	case GetSecretsKey:
		return s.secretsKey(ctx)
	}
	return nil, fmt.Errorf("request %s is in the table of verbs and nowhere else", verb)
}

// with runs f on the job that s names, under the model's lock.
func with[T any](s *Server, job string, f func(*jobRecord) (T, error)) (T, error) {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	r, p := s.model.find(job)
	if p != nil {
		var zero T
		return zero, p
	}
	return f(r)
}
