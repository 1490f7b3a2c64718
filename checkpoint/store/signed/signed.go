// Package signed is the checkpoint store of a machine that is not ours: it has no
// key and no vendor's SDK, only plain HTTP requests that somebody else signed, each
// good for one verb on one object for a time. It does not know whose service it
// speaks to; Amazon's, Google's and Azure's accesses all carry the headers that
// their service wants.
//
// Accesses come from a [Granter], up to 64 at a time: whoever needs one while a
// request is on its way waits for the next, which asks for all of them. Those for
// reading are kept until they end. They end by this machine's monotonic clock, so
// a wrong wall clock does no harm; one that is refused all the same is replaced
// once.
//
// A machine may put, get and look. It may not list or delete: those are
// errors.ErrUnsupported, and whoever relies on a list has to look at what it
// needs by name instead.
package signed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// Granter gives accesses: the gateway, seen from the machine.
type Granter interface {
	// Grant returns an access to each object, in their order, of which there are
	// at most [MaxBatch]. Sizes are of puts. Until is by this machine's clock: the
	// time the answer came, as time.Now tells it, plus the life it was given.
	Grant(ctx context.Context, verb checkpoint.Verb, objects []checkpoint.Object) ([]checkpoint.Access, error)
}

// MaxBatch is how many accesses are asked for at once.
const MaxBatch = 64

// Config is what a store is made of.
type Config struct {
	Granter Granter
	// Margin is how long before its end an access that was kept is not used any
	// more; 0 means 5 s. A new one is used whatever its life.
	Margin time.Duration
	Keep   int           // accesses kept at most; 0 means 4096
	Stall  time.Duration // how long a transfer may stand still; 0 means [wire.Stall]
	Now    func() time.Time

	Transport http.RoundTripper // nil means [wire.Transport]'s
}

// Validate reports what is missing or out of range.
func (c Config) Validate() error {
	switch {
	case c.Granter == nil:
		return errors.New("signed store: no granter")
	case c.Margin < 0 || c.Keep < 0 || c.Stall < 0:
		return fmt.Errorf("signed store: margin %v, keep %d, stall %v: none may be negative", c.Margin, c.Keep, c.Stall)
	}
	return nil
}

// Store is a checkpoint.Store by signed requests.
type Store struct {
	cfg    Config
	grants *grants
}

var _ checkpoint.Store = (*Store)(nil)

// Open returns the store. It asks for nothing yet.
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Margin == 0 {
		cfg.Margin = 5 * time.Second
	}
	if cfg.Keep == 0 {
		cfg.Keep = 4096
	}
	if cfg.Stall == 0 {
		cfg.Stall = wire.Stall
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Transport == nil {
		cfg.Transport = wire.Transport()
	}
	return &Store{cfg: cfg, grants: newGrants(cfg)}, nil
}

// Close releases the connections that are idle.
func (s *Store) Close() error {
	if t, ok := s.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// Prefetch gets the accesses that are about to be needed, and keeps them: the
// rest of a restore's plan, the chunks of a file that are yet to be put. It asks
// for 64 at a time and returns when all are there.
func (s *Store) Prefetch(ctx context.Context, verb checkpoint.Verb, objects []checkpoint.Object) error {
	s.grants.expect(verb, objects)
	for _, o := range objects {
		if _, err := s.grants.get(ctx, verb, o, false); err != nil {
			return fmt.Errorf("being granted a %s of %s: %w", verb, o.Name, err)
		}
	}
	return nil
}

// List implements checkpoint.Store: a machine may not.
func (s *Store) List(context.Context, string) ([]checkpoint.Object, error) {
	return nil, fmt.Errorf("listing: %w on a machine that holds no key: look at objects by name", errors.ErrUnsupported)
}

// Delete implements checkpoint.Store: a machine may not.
func (s *Store) Delete(context.Context, string) error {
	return fmt.Errorf("deleting: %w on a machine that holds no key: the gateway collects", errors.ErrUnsupported)
}

// call is one thing that is done with one object.
type call struct {
	s      *Store
	verb   checkpoint.Verb
	object checkpoint.Object
	doing  string
}

func (s *Store) call(ctx context.Context, verb checkpoint.Verb, doing, name string, size int64) (call, error) {
	if !checkpoint.ObjectName(name) {
		return call{}, fmt.Errorf("%s %q: not an object name", doing, name)
	}
	return call{s, verb, checkpoint.Object{Name: name, Size: size}, doing + " " + name}, ctx.Err()
}

// try does something with an access, and with a fresh one if that is refused.
// again says whether it can be done again.
func (c call) try(ctx context.Context, do func(checkpoint.Access) error, again func() bool) error {
	for fresh := false; ; fresh = true {
		a, err := c.s.grants.get(ctx, c.verb, c.object, fresh)
		if err != nil {
			return fmt.Errorf("%s: being granted access: %w", c.doing, err)
		}
		if err = do(a); err == nil {
			return nil
		}
		if over(c.verb, err) || wire.Cut(err) { // a refusal may be lost in a cut
			c.s.grants.drop(c.verb, c.object)
		}
		if fresh || !over(c.verb, err) || ctx.Err() != nil || !again() {
			return fmt.Errorf("%s: %w", c.doing, err)
		}
	}
}

func always() bool { return true }

// over reports whether an answer says that an access is. Google says so with a
// 400, of which the answer to a HEAD has no more than that.
func over(verb checkpoint.Verb, err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && (e.Expired() || verb == checkpoint.VerbHead && e.Status == http.StatusBadRequest)
}

// send sends a request by an access. The answer is of one of the good statuses,
// and its body is the caller's to close.
func (s *Store) send(ctx context.Context, a checkpoint.Access, body *wire.Body, header map[string]string, good ...int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, a.Method, a.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: the access has no URL: %w", checkpoint.ErrRefused, wire.Broken(err))
	}
	for _, h := range []map[string]string{a.Header, header} {
		for k, v := range h {
			req.Header.Set(k, v)
		}
	}
	req.Header.Del("Content-Length") // HTTP sends the body's own, which is the one that was signed
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if body != nil {
		req.Body, req.ContentLength = io.ReadCloser(body.Take()), body.Size()
	}
	resp, err := s.cfg.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	for _, g := range good {
		if resp.StatusCode == g {
			return resp, nil
		}
	}
	defer resp.Body.Close()
	return nil, wire.Answer(resp)
}
