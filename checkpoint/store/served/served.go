// Package served lets machines reach a checkpoint store that knows no signed
// requests, a directory or the bus, as they reach a cloud's bucket: by plain
// HTTP requests that the gateway signs. Here the gateway also serves them.
//
// It is for installations that have no bucket. Every byte of every checkpoint
// passes through the gateway; a bucket is what grows.
//
// A request's right is an HMAC-SHA256 over what it may do, to which object, of
// what size, until when. It can do that and nothing else: put what is not there,
// get, or look. There is no list and no deletion.
package served

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
)

// Config is what is served, and where.
type Config struct {
	Store checkpoint.Store
	// URL is how machines reach the handler: "https://gateway.example:7443/objects".
	// Over http whoever listens can repeat a get until it ends.
	URL string
	// Secret is at least 32 random bytes, the same for all gateways of an
	// installation. What was signed with one ends with it.
	Secret []byte

	MaxObject int64         // bytes of one put; 0: 64 MiB
	MaxAtOnce int           // requests being served; 0: 64. More are told to come again.
	Stall     time.Duration // how long a machine may take or give nothing; 0: a minute

	Now func() time.Time // the wall clock that accesses end by; nil means time.Now
	Log *zap.Logger      // of what the store could not do; nil: none
}

const (
	longest   = 7 * 24 * time.Hour // life of an access, as the clouds have it
	leastRate = 64 << 10           // bytes per second, on the whole, beyond one Stall
	purpose   = "spotferry object access 1"
)

// Validate reports what is missing or out of range.
func (c Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case c.Store == nil:
		return errors.New("served store: no store")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("served store: %q is not an http or https URL without a query", c.URL)
	case len(c.Secret) < 32:
		return fmt.Errorf("served store: a secret of %d bytes, want at least 32 random ones", len(c.Secret))
	case c.MaxObject < 0 || c.MaxAtOnce < 0 || c.Stall < 0:
		return fmt.Errorf("served store: max object %d, max at once %d, stall %v: none may be negative", c.MaxObject, c.MaxAtOnce, c.Stall)
	}
	return nil
}

// Service signs requests and serves them.
type Service struct {
	cfg  Config
	base string        // of the paths it serves; ends with a slash
	room chan struct{} // holds one for each request being served
}

var (
	_ checkpoint.Signer = (*Service)(nil)
	_ http.Handler      = (*Service)(nil)
)

// New returns the service. It is an http.Handler for the paths below URL's.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.MaxObject == 0 {
		cfg.MaxObject = 64 << 20
	}
	if cfg.MaxAtOnce == 0 {
		cfg.MaxAtOnce = 64
	}
	if cfg.Stall == 0 {
		cfg.Stall = time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	cfg.URL = strings.TrimSuffix(cfg.URL, "/") + "/"
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("served store: %w", err)
	}
	return &Service{cfg: cfg, base: u.Path, room: make(chan struct{}, cfg.MaxAtOnce)}, nil
}

// Server returns a server for the service alone, bounded against clients that
// are slow to ask. Its address, certificate and life are the caller's.
func (s *Service) Server() *http.Server {
	return &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
}

// right is what an access allows.
type right struct {
	verb checkpoint.Verb
	name string
	size int64     // of a put, else 0
	ends time.Time // in whole milliseconds
}

// mac authenticates a right. No field can have the character that divides them.
func (s *Service) mac(r right) []byte {
	h := hmac.New(sha256.New, s.cfg.Secret)
	fmt.Fprintf(h, "%s\n%s\n%s\n%d\n%d", purpose, r.verb, r.name, r.size, r.ends.UnixMilli())
	return h.Sum(nil)
}

// Sign implements checkpoint.Signer.
func (s *Service) Sign(ctx context.Context, verb checkpoint.Verb, name string, size int64, life time.Duration) (checkpoint.Access, error) {
	method, known := methods()[verb]
	if verb != checkpoint.VerbPut {
		size = 0
	}
	switch {
	case !checkpoint.ObjectName(name):
		return checkpoint.Access{}, fmt.Errorf("signing for %q: not an object name", name)
	case !known:
		return checkpoint.Access{}, fmt.Errorf("signing for %s: no verb %q", name, verb)
	case size < 0 || size > s.cfg.MaxObject:
		return checkpoint.Access{}, fmt.Errorf("signing for %s: %w: a put of %d bytes, at most %d", name, checkpoint.ErrTooLarge, size, s.cfg.MaxObject)
	case life < time.Second || life > longest:
		return checkpoint.Access{}, fmt.Errorf("signing for %s: a life of %v is not between a second and %v", name, life, longest)
	}
	r := right{verb, name, size, s.cfg.Now().Add(life).Truncate(time.Millisecond)}
	q := url.Values{"verb": {string(verb)}, "until": {strconv.FormatInt(r.ends.UnixMilli(), 10)}, "mac": {hex.EncodeToString(s.mac(r))}}
	if verb == checkpoint.VerbPut {
		q.Set("size", strconv.FormatInt(size, 10))
	}
	return checkpoint.Access{Method: method, URL: s.cfg.URL + escaped(name) + "?" + q.Encode(), Until: r.ends}, ctx.Err()
}

func methods() map[checkpoint.Verb]string {
	return map[checkpoint.Verb]string{checkpoint.VerbPut: http.MethodPut, checkpoint.VerbGet: http.MethodGet, checkpoint.VerbHead: http.MethodHead}
}

// escaped is a name as a path.
func escaped(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// admit reads the right that a request has, or says why it has none.
func (s *Service) admit(r *http.Request) (right, *refusal) {
	q := r.URL.Query()
	name, below := strings.CutPrefix(r.URL.Path, s.base)
	ends, err := strconv.ParseInt(q.Get("until"), 10, 64)
	mac, herr := hex.DecodeString(q.Get("mac"))
	size := int64(0)
	var serr error
	if q.Has("size") {
		size, serr = strconv.ParseInt(q.Get("size"), 10, 64)
	}
	has := right{checkpoint.Verb(q.Get("verb")), name, size, time.UnixMilli(ends)}
	switch {
	case !below || !checkpoint.ObjectName(name) || err != nil || herr != nil || serr != nil || !hmac.Equal(mac, s.mac(has)):
		return right{}, &refusal{http.StatusForbidden, "SignatureDoesNotMatch", "the request is not one that was signed"}
	case !s.cfg.Now().Before(has.ends):
		return right{}, &refusal{http.StatusForbidden, "ExpiredToken", "the access has ended"}
	case r.Method != methods()[has.verb]:
		return right{}, &refusal{http.StatusForbidden, "AccessDenied", "the access is for another method"}
	}
	return has, nil
}
