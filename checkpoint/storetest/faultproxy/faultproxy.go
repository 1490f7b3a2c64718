// Package faultproxy stands between a store and the HTTP service that keeps its
// objects, and does to single requests what networks and services do: refuses
// them, cuts them off, slows them, flips their bits, loses answers, repeats old
// ones. It forwards everything else byte for byte, the Host header included, so
// that signatures hold.
package faultproxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Verb is what a request does with an object.
type Verb string

// The verbs.
const (
	Put    Verb = "put"
	Get    Verb = "get" // of an object or a range
	Stat   Verb = "stat"
	List   Verb = "list"
	Delete Verb = "delete"
	Other  Verb = "other"
)

// Request is one request that arrived.
type Request struct {
	Verb   Verb
	Method string
	Path   string
	Query  url.Values
	Header http.Header
	N      int // how many of this verb there were before since the plan was made
}

// Fault is what happens to a request. The zero value is nothing.
type Fault struct {
	// Delay passes first.
	Delay time.Duration
	// Status answers the request, without the service having seen it.
	Status int
	Header http.Header // of that answer
	Body   string
	// Lose forwards the request and cuts the connection instead of answering.
	Lose bool
	// Stale answers with what this URL was answered before, if it was.
	Stale bool
	// CutIn forwards only so many bytes of the body and then cuts both
	// connections; CutOut does so with the answer's. Both count from one: a cut
	// after n bytes is n+1. Zero is none. The connections are reset, as those of a
	// process that dies; a service that takes a mere end of the stream for the end
	// of the object has a fault of its own.
	CutIn, CutOut int64
	// FlipIn and FlipOut invert one bit of the body, numbered from one.
	FlipIn, FlipOut int64
	// Rate is how many bytes of either body pass in a second; 0 is all of them.
	Rate int
}

// Plan decides what happens to a request. It may be called by several
// goroutines at once.
type Plan func(Request) Fault

// Config is a proxy.
type Config struct {
	Target string                   // the service: "http://127.0.0.1:7070"
	Verb   func(*http.Request) Verb // nil: by method, as S3 and Azure do
}

// Proxy is a running one.
type Proxy struct {
	URL string // what the store is told to be its service

	cfg    Config
	target *url.URL
	out    *http.Transport

	mu   sync.Mutex
	plan Plan
	seen map[Verb]int
	old  map[string]*answer // by method and URL
}

// Start starts a proxy that ends with the test.
func Start(t testing.TB, cfg Config) *Proxy {
	t.Helper()
	target, err := url.Parse(cfg.Target)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Verb == nil {
		cfg.Verb = ByMethod
	}
	p := &Proxy{cfg: cfg, target: target, seen: map[Verb]int{}, old: map[string]*answer{},
		out: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, ExpectContinueTimeout: time.Second, DialContext: dial}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	server.Config.ErrorLog = quiet()
	server.Start()
	p.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		p.out.CloseIdleConnections()
	})
	return p
}

// dial opens a connection that is reset when it is closed.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetLinger(0)
	}
	return conn, err
}

// Set makes a plan for the requests from now on; nil lets all of them pass.
func (p *Proxy) Set(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan, p.seen = plan, map[Verb]int{}
}

// On is a plan for one verb.
func On(verb Verb, f Fault) Plan {
	return func(r Request) Fault {
		if r.Verb == verb {
			return f
		}
		return Fault{}
	}
}

// Seen is how many requests of a verb arrived since the plan was made.
func (p *Proxy) Seen(verb Verb) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[verb]
}

// ByMethod tells verbs apart by their methods, and a list from a get by what
// S3, Google's XML interface and Azure ask for in one.
func ByMethod(r *http.Request) Verb {
	q := r.URL.Query()
	switch r.Method {
	case http.MethodPut:
		return Put
	case http.MethodHead:
		return Stat
	case http.MethodDelete:
		return Delete
	case http.MethodGet:
		if q.Has("list-type") || q.Get("comp") == "list" || q.Has("prefix") {
			return List
		}
		return Get
	}
	return Other
}

func (p *Proxy) decide(r *http.Request) Fault {
	verb := p.cfg.Verb(r)
	p.mu.Lock()
	plan, n := p.plan, p.seen[verb]
	p.seen[verb]++
	p.mu.Unlock()
	if plan == nil {
		return Fault{}
	}
	return plan(Request{Verb: verb, Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header, N: n})
}

func key(r *http.Request) string {
	return strings.Join([]string{r.Method, r.Host, r.URL.RequestURI()}, " ")
}
