package remote

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// endpoint is one operation: it reads a request, asks the seller and returns the
// pages of the answer.
type endpoint struct {
	op     string
	answer func(ctx context.Context, body []byte, limit int) ([][]byte, error)
}

func (s *server) endpoints() []endpoint {
	return []endpoint{
		{opCapabilities, s.capabilities},
		{provider.OpOffers, s.offers},
		{provider.OpLaunch, s.launch},
		{provider.OpTerminate, s.terminate},
		{provider.OpList, s.list},
		{provider.OpMetered, s.metered},
		{provider.OpRebid, s.rebid},
	}
}

// errMalformed marks requests that could not be understood, for the counter.
var errMalformed = errors.New("malformed request")

func badRequest(op string, err error) error {
	return &provider.Error{Kind: provider.Invalid, Op: op, Code: "malformed_request", Err: fmt.Errorf("%w: %w", errMalformed, err)}
}

// serve carries out one call and answers it, whatever happens.
func (s *server) serve(life context.Context, e endpoint, r micro.Request) {
	ctx, cancel := context.WithTimeout(life, s.timeout(e.op, r))
	defer cancel()
	result := "ok"
	ctx, end := s.span(ctx, e.op, r.Headers())
	pages, err := s.guarded(ctx, e, r.Data())
	end(err)
	if err != nil {
		result = provider.KindOf(err).String()
		if errors.Is(err, errMalformed) {
			result = "malformed"
		}
		pages = [][]byte{errorPage(e.op, err)}
	}
	s.answered.WithLabelValues(s.cfg.Seller, e.op, result).Inc()
	s.respond(e.op, r, pages)
}

// guarded turns a panic of the adapter into an answer: a bug in one call must
// not take the launches of others with it.
func (s *server) guarded(ctx context.Context, e endpoint, body []byte) (pages [][]byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.cfg.Log.Error("seller panicked", zap.String("seller", s.cfg.Seller), zap.String("op", e.op),
				zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
			s.answered.WithLabelValues(s.cfg.Seller, e.op, "panic").Inc()
			failed := provider.Unanswered(e.op, errors.New("the adapter panicked; its log has the stack"))
			failed.Code = "panic"
			pages, err = nil, failed
		}
	}()
	return e.answer(ctx, body, int(s.nc.MaxPayload()))
}

func errorPage(op string, err error) []byte {
	body, marshalErr := json.Marshal(page{Pages: 1, Error: failureOf(op, err)})
	if marshalErr != nil { // only a time outside years 0 to 9999 could do it, and there is none in it
		return []byte(`{"pages":1,"error":{"kind":"unknown_outcome"}}`)
	}
	return body
}

func (s *server) capabilities(context.Context, []byte, int) ([][]byte, error) {
	return paginate(opCapabilities, []provider.Capabilities{s.can()}, nil, 4*pageOverhead)
}

func (s *server) offers(ctx context.Context, _ []byte, limit int) ([][]byte, error) {
	all, err := s.p.Offers(ctx)
	if err != nil {
		return nil, err
	}
	return paginate(provider.OpOffers, all, nil, limit)
}

func (s *server) list(ctx context.Context, _ []byte, limit int) ([][]byte, error) {
	l, err := s.p.List(ctx)
	if err != nil {
		return nil, err
	}
	return paginate(provider.OpList, l.Instances, &listMeta{l.Complete, l.At}, limit)
}

// launch runs one launch per token at a time. The key has a hash of the request
// in it: another request with the same token is for the seller to refuse.
//
// The shared call lives as long as the first caller's, which is the server's life and limit.
func (s *server) launch(ctx context.Context, body []byte, limit int) ([][]byte, error) {
	var q launchRequest
	if err := decode(body, &q); err != nil {
		return nil, badRequest(provider.OpLaunch, err)
	}
	if err := events.CheckToken("token", q.Token); err != nil {
		return nil, badRequest(provider.OpLaunch, err)
	}
	key := fmt.Sprintf("%s %x", q.Token, sha256.Sum256(body))
	shared, err, _ := s.launches.Do(key, func() (any, error) {
		return s.p.Launch(ctx, q.Spec, q.Token)
	})
	if err != nil {
		return nil, err
	}
	i, ok := shared.(provider.Instance)
	if !ok {
		return nil, fmt.Errorf("launch gave a %T", shared)
	}
	pages, err := paginate(provider.OpLaunch, []provider.Instance{i}, nil, limit)
	if err != nil { // it exists, but cannot be told
		return nil, provider.Unanswered(provider.OpLaunch, err)
	}
	return pages, nil
}

func (s *server) instance(op string, body []byte) (events.InstanceID, error) {
	var q instanceRequest
	if err := decode(body, &q); err != nil {
		return "", badRequest(op, err)
	}
	return q.Instance, checkInstance(op, q.Instance)
}

func checkInstance(op string, id events.InstanceID) error {
	if id == "" || len(id) > 1024 {
		return badRequest(op, fmt.Errorf("field \"instance\" has %d bytes, want 1 to 1024", len(id)))
	}
	return nil
}

func (s *server) terminate(ctx context.Context, body []byte, _ int) ([][]byte, error) {
	id, err := s.instance(provider.OpTerminate, body)
	if err != nil {
		return nil, err
	}
	if err := s.p.Terminate(ctx, id); err != nil {
		return nil, err
	}
	return done(), nil
}

func done() [][]byte { return [][]byte{[]byte(`{"page":0,"pages":1}`)} }

func (s *server) metered(ctx context.Context, body []byte, limit int) ([][]byte, error) {
	id, err := s.instance(provider.OpMetered, body)
	if err != nil {
		return nil, err
	}
	meter, ok := provider.As[provider.Meter](s.p)
	if !ok {
		return nil, unable(provider.OpMetered)
	}
	r, err := meter.Metered(ctx, id)
	if err != nil {
		return nil, err
	}
	return paginate(provider.OpMetered, []provider.Reading{r}, nil, limit)
}

func (s *server) rebid(ctx context.Context, body []byte, _ int) ([][]byte, error) {
	var q rebidRequest
	if err := decode(body, &q); err != nil {
		return nil, badRequest(provider.OpRebid, err)
	}
	if err := checkInstance(provider.OpRebid, q.Instance); err != nil {
		return nil, err
	}
	if q.Price <= 0 {
		return nil, badRequest(provider.OpRebid, fmt.Errorf("field \"price\" is %s, want more than 0", q.Price))
	}
	bidder, ok := provider.As[provider.Rebidder](s.p)
	if !ok {
		return nil, unable(provider.OpRebid)
	}
	if err := bidder.Rebid(ctx, q.Instance, q.Price); err != nil {
		return nil, err
	}
	return done(), nil
}

func unable(op string) error {
	return &provider.Error{Kind: provider.Invalid, Op: op, Scope: "seller", Code: "unsupported", Message: "this seller has no such capability"}
}

// relay publishes the seller's notices for as long as the server lives.
func (s *server) relay(ctx context.Context, n provider.Notifier) {
	subject := Subject(s.cfg.Seller, provider.OpNotices)
	for ctx.Err() == nil {
		err := n.Notices(ctx, func(notice provider.Notice) {
			body, err := json.Marshal(notice)
			if err == nil {
				err = s.nc.Publish(subject, body)
			}
			if err != nil {
				s.cfg.Log.Warn("notice not relayed", zap.String("instance", string(notice.Instance)), zap.Error(err))
			}
		})
		if ctx.Err() != nil {
			return
		}
		s.cfg.Log.Warn("seller stopped sending notices", zap.String("seller", s.cfg.Seller), zap.Duration("again_in", s.cfg.Relisten), zap.Error(err))
		t := time.NewTimer(s.cfg.Relisten)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}
