package awsfake

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Config describes the account. Zero fields mean their defaults.
type Config struct {
	Backend provider.Provider // required: sells what is sold here
	Now     func() events.Moment

	Page     int           // the most rows of a page, whatever is asked for; 1000
	Remember time.Duration // how long a machine that ended is listed, control time; 1 h
	// EndedTokens are refused, as IdempotentInstanceTerminated; without it the token
	// of a machine that has ended gives it back.
	EndedTokens bool
	// Burst and PerSecond bound the calls of an action in a region; 0: as many as come.
	Burst     int
	PerSecond float64
	// Rebalance sends a rebalance recommendation before every warning.
	Rebalance bool
	// Twice sends every event twice.
	Twice bool
}

// Server is the fake. It is an http.Handler for every region and for the queue:
// a request's signature says which it is for.
type Server struct {
	cfg Config

	mu       sync.Mutex
	actions  map[string]int
	zones    map[string][]string      // zone ids by region, in the order they are named
	rows     map[priceKey][]priceRow  // oldest first
	tokens   map[string]string        // digest of the parameters by region and client token
	turns    map[string]chan struct{} // one launch at a time for a token
	ours     map[string]bool          // ids of machines sold here
	ended    map[string]time.Time     // when a machine was first seen ended, control time
	buckets  map[string]*bucket       // by region and action
	queue    []*message               // interruption events
	arrived  chan struct{}            // closed when a message arrives
	sequence int
}

// New returns a fake.
func New(cfg Config) *Server {
	cfg.Page = cmp.Or(cfg.Page, 1000)
	cfg.Remember = cmp.Or(cfg.Remember, time.Hour)
	if cfg.Now == nil {
		cfg.Now = func() events.Moment { now := time.Now(); return events.Moment{Control: now, Market: now} }
	}
	return &Server{
		cfg: cfg, actions: map[string]int{}, zones: map[string][]string{}, rows: map[priceKey][]priceRow{},
		tokens: map[string]string{}, turns: map[string]chan struct{}{}, ours: map[string]bool{}, ended: map[string]time.Time{},
		buckets: map[string]*bucket{}, arrived: make(chan struct{}),
	}
}

// Actions returns what was called, as policies name it, each once and in order.
func (s *Server) Actions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.actions))
	for a := range s.actions {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}

// Calls counts the calls of an action: "ec2:RunInstances".
func (s *Server) Calls(action string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.actions[action]
}

func (s *Server) count(action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions[action]++
}

// signature is a request's credential scope, of which region and service are read.
var signature = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=[^/ ]+/\d{8}/([a-z0-9-]+)/(ec2|sqs)/aws4_request, ?SignedHeaders=[a-z0-9;-]+, ?Signature=[0-9a-f]{64}$`)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scope := signature.FindStringSubmatch(r.Header.Get("Authorization"))
	if scope == nil || r.Header.Get("X-Amz-Date") == "" {
		writeError(w, &fault{http.StatusForbidden, "MissingAuthenticationToken", "the request is not signed with version 4"})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if scope[2] == "sqs" {
		s.serveQueue(w, r)
		return
	}
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
		writeError(w, &fault{http.StatusBadRequest, "MalformedQueryString", fmt.Sprintf("%s: %v", r.Method, err)})
		return
	}
	s.serveQuery(w, r, scope[1])
}

func (s *Server) serveQuery(w http.ResponseWriter, r *http.Request, region string) {
	action := r.PostForm.Get("Action")
	do, ok := actions[action]
	switch {
	case !ok:
		writeError(w, &fault{http.StatusBadRequest, "InvalidAction", fmt.Sprintf("the action %.60q is not valid for this service", action)})
		return
	case r.PostForm.Get("Version") != version:
		writeError(w, &fault{http.StatusBadRequest, "NoSuchVersion", "this is version " + version})
		return
	}
	s.count("ec2:" + action)
	if !s.allow(region + " " + action) {
		writeError(w, &fault{http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded."})
		return
	}
	answer, err := do(s, r.Context(), query{region, r.PostForm})
	if err != nil {
		writeFailure(w, r.PostForm, err)
		return
	}
	writeAnswer(w, action, answer)
}

const version = "2016-11-15"

// actions are what can be asked.
var actions = map[string]func(*Server, context.Context, query) (any, error){
	"RunInstances":                  (*Server).runInstances,
	"TerminateInstances":            (*Server).terminateInstances,
	"DescribeInstances":             (*Server).describeInstances,
	"DescribeAvailabilityZones":     (*Server).describeAvailabilityZones,
	"DescribeInstanceTypes":         (*Server).describeInstanceTypes,
	"DescribeInstanceTypeOfferings": (*Server).describeInstanceTypeOfferings,
	"DescribeSpotPriceHistory":      (*Server).describeSpotPriceHistory,
	"GetSpotPlacementScores":        (*Server).getSpotPlacementScores,
}

// bucket is what is left of a rate.
type bucket struct {
	left float64
	at   time.Time
}

// allow takes a token for one call.
func (s *Server) allow(of string) bool {
	if s.cfg.Burst == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now().Control
	b := s.buckets[of]
	if b == nil {
		b = &bucket{float64(s.cfg.Burst), now}
		s.buckets[of] = b
	}
	b.left = min(b.left+now.Sub(b.at).Seconds()*s.cfg.PerSecond, float64(s.cfg.Burst))
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// turn makes callers with one token wait for each other.
func (s *Server) turn(ctx context.Context, token string) (done func(), err error) {
	s.mu.Lock()
	t := s.turns[token]
	if t == nil {
		t = make(chan struct{}, 1)
		s.turns[token] = t
	}
	s.mu.Unlock()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// letters are those of an account's zones in the order in which they were met:
// they do not follow the ids.
const letters = "badcfehgjilknmporqtsvuxwzy"

// name is a zone's name in this account; s.mu is held.
func (s *Server) name(region, zone string) string {
	n := slices.Index(s.zones[region], zone)
	if n < 0 || n >= len(letters) {
		return ""
	}
	return region + letters[n:n+1]
}

func (s *Server) zoneNamed(region, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.zones[region] {
		if s.name(region, id) == name {
			return id
		}
	}
	return ""
}

// arn is a machine's resource name as events have it: the zone stands where a
// region belongs, and no account does.
func (s *Server) arn(p events.Pool, id events.InstanceID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join([]string{"arn", "aws", "ec2", s.name(p.Region, p.Zone), "", "instance/" + string(id)}, ":")
}
