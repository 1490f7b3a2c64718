package runpodfake

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Config configures a fake.
type Config struct {
	Backend provider.Provider // who sells, required
	Key     string            // the account's; "": any
	Now     func() events.Moment
	Stuck   bool // pods never get beyond STARTING
	// UserData is what a pod's environment tells it; nil: SPOTFERRY_BOOTSTRAP in base64.
	UserData func(env map[string]string) []byte
}

// Fake is RunPod for one account.
type Fake struct {
	cfg Config
	mux *http.ServeMux

	mu      sync.Mutex
	pods    map[string]*pod
	used    map[string]int // creates by name
	creates int
	lastID  int
	vague   int
}

// pod is one. Without a backend's id it is not known yet.
type pod struct {
	id      string
	backend events.InstanceID
	token   string
	name    string
	env     map[string]string
	deleted bool
}

// New makes one.
func New(cfg Config) *Fake {
	if cfg.UserData == nil {
		cfg.UserData = func(env map[string]string) []byte {
			b, _ := base64.StdEncoding.DecodeString(env["SPOTFERRY_BOOTSTRAP"]) // what is no base64 is no user data
			return b
		}
	}
	f := &Fake{cfg: cfg, mux: http.NewServeMux(), pods: map[string]*pod{}, used: map[string]int{}}
	f.mux.HandleFunc("POST /graphql", f.graph)
	f.mux.HandleFunc("POST /v2/pods", f.create)
	f.mux.HandleFunc("GET /v2/pods", f.list)
	f.mux.HandleFunc("DELETE /v2/pods/{id}", f.destroy)
	return f
}

// ServeHTTP implements http.Handler.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.cfg.Key != "" && r.Header.Get("Authorization") != "Bearer "+f.cfg.Key {
		refuse(w, &provider.Error{Kind: provider.Auth})
		return
	}
	f.mux.ServeHTTP(w, r)
}

// Vague makes the next creates fail with a status 400 that says nothing.
func (f *Fake) Vague(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.vague = n
}

// Creates counts those that made something.
func (f *Fake) Creates() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.creates
}

// Backend is the seller's own id of a pod.
func (f *Fake) Backend(id events.InstanceID) (events.InstanceID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pods[string(id)]
	if p == nil || p.backend == "" {
		return "", false
	}
	return p.backend, true
}

// fresh is a token that the backend has not seen: the name's own for its first pod. f.mu is held.
func (f *Fake) fresh(token string) string {
	f.used[token]++
	if n := f.used[token]; n > 1 {
		suffix := "-again" + strconv.Itoa(n)
		return token[:min(len(token), 64-len(suffix))] + suffix
	}
	return token
}

// tokenOf is the last part of a name, as a token.
func tokenOf(name string) string { return events.Token(name[strings.LastIndexByte(name, ':')+1:]) }

// say answers a refusal of the REST API.
func say(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	tell(w, status, map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail})
}

func tell(w http.ResponseWriter, status int, body any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever asked has gone
}

// unheard ends an answer that is none: HTML of something between, or a broken connection.
func unheard(w http.ResponseWriter, err error) (*provider.Error, bool) {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>")
		return nil, true
	}
	if e.MaybeCreated && e.Kind == provider.UnknownOutcome {
		panic(http.ErrAbortHandler) // done, and the answer is lost
	}
	return e, false
}

// noResources is how want of capacity is told.
const noResources = "This machine does not have the resources to deploy your pod. Please try a different machine."

// refuse puts a backend's refusal into the words of the REST API.
func refuse(w http.ResponseWriter, err error) {
	e, ended := unheard(w, err)
	if ended {
		return
	}
	switch e.Kind {
	case provider.NoCapacity, provider.OfferGone, provider.PriceTooLow:
		say(w, http.StatusBadRequest, noResources)
	case provider.Throttled:
		w.Header().Set("Retry-After", strconv.Itoa(max(int(e.RetryAfter.Seconds()), 1)))
		w.Header().Set("RateLimit-Policy", `"default";q=100;w=60`)
		say(w, http.StatusTooManyRequests, "Too many requests.")
	case provider.Auth:
		say(w, http.StatusUnauthorized, "Unauthorized.")
	case provider.Quota:
		say(w, http.StatusPaymentRequired, "Your balance or spend limit does not allow it.")
	case provider.Invalid:
		say(w, http.StatusUnprocessableEntity, e.Message)
	case provider.Conflict:
		say(w, http.StatusConflict, "Not valid now.")
	case provider.NotFound:
		say(w, http.StatusNotFound, "pod not found to terminate")
	case provider.Transient:
		say(w, http.StatusServiceUnavailable, "Try again.")
	default:
		say(w, http.StatusInternalServerError, "Something went wrong.")
	}
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		say(w, http.StatusUnprocessableEntity, err.Error())
	}
	return err == nil
}

func (f *Fake) sorted() []*pod {
	var all []*pod
	for _, p := range f.pods {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pod) int { return strings.Compare(a.id, b.id) })
	return all
}
