package lambdafake

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Config configures a fake.
type Config struct {
	Backend provider.Provider // who sells, required
	Key     string            // the account's; "": any
	Now     func() events.Moment
	Every   time.Duration // launches that come faster are throttled; 0: none are
	IPAfter time.Duration // control time until an instance has an address
	// UserData is what a machine's cloud-config tells it; nil: the content of its one file.
	UserData func(cloudConfig string) []byte
}

// Fake is Lambda Cloud for one account.
type Fake struct {
	cfg Config
	mux *http.ServeMux

	mu       sync.Mutex
	machines map[string]*machine
	used     map[string]int // launches by name
	refusals int
	launches int
	lastID   int
	last     time.Time
}

// machine is an instance. Without a backend's id it is not known yet.
type machine struct {
	id      string
	backend events.InstanceID
	token   string
	name    string
	tags    []tag
	since   time.Time // control
	ordered bool      // its end was asked for
}

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// New makes one.
func New(cfg Config) *Fake {
	if cfg.UserData == nil {
		cfg.UserData = content
	}
	f := &Fake{cfg: cfg, mux: http.NewServeMux(), machines: map[string]*machine{}, used: map[string]int{}}
	f.mux.HandleFunc("GET /api/v1/instance-types", f.types)
	f.mux.HandleFunc("GET /api/v1/instances", f.list)
	f.mux.HandleFunc("POST /api/v1/instance-operations/launch", f.launch)
	f.mux.HandleFunc("POST /api/v1/instance-operations/terminate", f.terminate)
	return f
}

func content(cloudConfig string) []byte {
	_, after, _ := strings.Cut(cloudConfig, "content: ")
	line, _, _ := strings.Cut(after, "\n")
	b, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(line)) // what is no base64 is no user data
	return b
}

// ServeHTTP implements http.Handler.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, _, basic := r.BasicAuth()
	if f.cfg.Key != "" && r.Header.Get("Authorization") != "Bearer "+f.cfg.Key && (!basic || user != f.cfg.Key) {
		say(w, http.StatusForbidden, "global/invalid-api-key", "API key was invalid, expired, or deleted.")
		return
	}
	f.mux.ServeHTTP(w, r)
}

// Refuse makes the next launches fail for want of capacity, though their types are listed.
func (f *Fake) Refuse(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusals = n
}

// Launches counts those that made something.
func (f *Fake) Launches() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.launches
}

// Backend is the seller's own id of an instance.
func (f *Fake) Backend(id events.InstanceID) (events.InstanceID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.machines[string(id)]
	if m == nil || m.backend == "" {
		return "", false
	}
	return m.backend, true
}

// fresh is a token that the backend has not seen: the name itself for its first machine.
func (f *Fake) fresh(name string) string {
	f.used[name]++
	if n := f.used[name]; n > 1 {
		suffix := "-again" + strconv.Itoa(n)
		return name[:min(len(name), 64-len(suffix))] + suffix
	}
	return name
}

func say(w http.ResponseWriter, status int, code, message string) {
	tell(w, status, map[string]any{"error": map[string]any{"code": code, "message": message, "suggestion": "Check the request."}})
}

func give(w http.ResponseWriter, data any) { tell(w, http.StatusOK, map[string]any{"data": data}) }

func tell(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever asked has gone
}

// refuse puts a backend's refusal into Lambda's words.
func refuse(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok { // something between us and the buyer answers
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>")
		return
	}
	if e.MaybeCreated && e.Kind == provider.UnknownOutcome {
		panic(http.ErrAbortHandler) // done, and the answer is lost
	}
	switch e.Kind {
	case provider.NoCapacity:
		say(w, http.StatusBadRequest, "instance-operations/launch/insufficient-capacity", "Not enough capacity to fulfill launch request.")
	case provider.Quota:
		say(w, http.StatusBadRequest, "global/quota-exceeded", "Quota exceeded.")
	case provider.Throttled:
		if e.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())))
		}
		tell(w, http.StatusTooManyRequests, map[string]any{"message": "rate limit"})
	case provider.Auth:
		say(w, http.StatusForbidden, "global/invalid-api-key", "API key was invalid, expired, or deleted.")
	case provider.Invalid, provider.PriceTooLow:
		say(w, http.StatusBadRequest, "global/invalid-parameters", e.Message)
	case provider.Conflict:
		say(w, http.StatusBadRequest, "global/duplicate", "Duplicate.")
	case provider.NotFound, provider.OfferGone:
		say(w, http.StatusNotFound, "global/object-does-not-exist", "Specified instance does not exist.")
	case provider.Transient:
		http.Error(w, "upstream unavailable", http.StatusServiceUnavailable)
	default:
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	}
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2<<20))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		say(w, http.StatusBadRequest, "global/invalid-parameters", err.Error())
	}
	return err == nil
}
