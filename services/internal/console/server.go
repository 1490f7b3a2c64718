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
	Plan    func(ctx context.Context, r SubmitRequest) (Plan, error)
	Health  func(ctx context.Context) []Check
	Now     func() events.Moment
	Version string
	Logger  *zap.Logger
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
	model *model
	ready chan struct{} // closed when the model has caught up
	heard chan struct{} // closed when requests are heard
}

// New returns a Server; Run starts it.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, model: newModel(), ready: make(chan struct{}), heard: make(chan struct{})}
}

// Run keeps the read model current until ctx ends, and returns nil then. It is called once.
func (s *Server) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return s.cfg.Log.Consume(gctx, events.Subscription{
			Filters:  []string{events.FilterJobs, events.FilterLeases},
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
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, failover.ErrNoJob):
		return &Problem{Code: "not-found", Message: err.Error(), Remedy: "'spotferry job ls' lists them"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Problem{Code: "unavailable", Message: "the system did not answer in time", Remedy: "try again; 'spotferry doctor' says what is wrong"}
	}
	s.cfg.Logger.Warn("request not served", zap.Error(err))
	return &Problem{Code: "internal", Message: err.Error()}
}

func (s *Server) route(ctx context.Context, subject string, body []byte) (any, error) {
	user, verb, err := parseSubject(subject)
	if err != nil {
		return nil, &Problem{Code: "invalid", Message: err.Error()}
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch verb {
	case DoSubmit, GetPlan:
		var r SubmitRequest
		if err := decode(body, &r); err != nil {
			return nil, err
		}
		if verb == GetPlan {
			return s.cfg.Plan(ctx, r)
		}
		return s.submit(ctx, user, r)
	case DoCancel:
		var r CancelRequest
		if err := decode(body, &r); err != nil {
			return nil, err
		}
		return s.cancel(ctx, user, r)
	}
	var q Query
	if len(body) > 0 {
		if err := decode(body, &q); err != nil {
			return nil, err
		}
	}
	return s.get(ctx, verb, q)
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
	case GetFailovers:
		return s.failovers(q)
	case GetCheckpoints:
		return with(s, q.Job, func(r *jobRecord) ([]Checkpoint, error) { return r.checkpoints(), nil })
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
	}
	return nil, &Problem{Code: "invalid", Message: fmt.Sprintf("request %.40q is not known", verb)}
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
