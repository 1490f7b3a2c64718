package vastfake

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	AskTTL  time.Duration // how long an offer's id can be bought; 10 min
	Page    int           // instances a page; 25
	// UserData is what a machine's environment tells it; nil: SPOTFERRY_BOOTSTRAP in base64.
	UserData func(env map[string]string) []byte
	// LeaveStopped leaves a stopped instance after a refused bid even when the
	// buyer said that it must not.
	LeaveStopped bool
	// One makes a list of one instance hold the object and not a list.
	One bool
}

// Fake is Vast.ai for one account.
type Fake struct {
	cfg Config
	mux *http.ServeMux

	mu        sync.Mutex
	asks      map[int]ask
	ids       map[events.Pool]int // of asks
	contracts map[int]*contract
	used      map[string]int    // creates by token
	pages     map[string][]byte // what follows a page, by its token
	broken    map[string]bool   // page tokens that lead nowhere
	lastID    int
	creates   int
}

// ask is an offer that can be bought until it expires.
type ask struct {
	pool    events.Pool
	price   events.PerInstanceHour
	bid     bool
	expires time.Time // control
}

// contract is an instance. Without a backend's id it is either not known yet or was never there.
type contract struct {
	id        int
	backend   events.InstanceID
	token     string // by which the backend knows it
	label     string
	env       map[string]string
	machine   int
	isBid     bool
	base      events.PerInstanceHour
	start     time.Time // market
	hollow    bool      // stopped from the first: a bid that never won
	destroyed bool
	spec      provider.LaunchSpec
}

// New makes one.
func New(cfg Config) *Fake {
	if cfg.AskTTL == 0 {
		cfg.AskTTL = 10 * time.Minute
	}
	if cfg.Page == 0 {
		cfg.Page = 25
	}
	if cfg.UserData == nil {
		cfg.UserData = func(env map[string]string) []byte {
			b, _ := base64.StdEncoding.DecodeString(env["SPOTFERRY_BOOTSTRAP"]) // what is no base64 is no user data
			return b
		}
	}
	f := &Fake{
		cfg: cfg, mux: http.NewServeMux(), asks: map[int]ask{}, ids: map[events.Pool]int{}, contracts: map[int]*contract{}, used: map[string]int{},
		pages: map[string][]byte{}, broken: map[string]bool{}, lastID: 5_000_000,
	}
	f.mux.HandleFunc("POST /api/v0/bundles/{$}", f.search)
	f.mux.HandleFunc("PUT /api/v0/asks/{id}/{$}", f.create)
	f.mux.HandleFunc("GET /api/v1/instances/{$}", f.list)
	f.mux.HandleFunc("GET /api/v0/instances/{id}/{$}", f.show)
	f.mux.HandleFunc("DELETE /api/v0/instances/{id}/{$}", f.destroy)
	f.mux.HandleFunc("PUT /api/v0/instances/bid_price/{id}/{$}", f.rebid)
	return f
}

// ServeHTTP implements http.Handler.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.cfg.Key != "" && r.Header.Get("Authorization") != "Bearer "+f.cfg.Key {
		say(w, http.StatusUnauthorized, "auth_error", "Invalid user key", 0)
		return
	}
	f.mux.ServeHTTP(w, r)
}

// Expire makes every offer id that was told so far useless.
func (f *Fake) Expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asks = map[int]ask{}
}

// Creates counts the creates that made something.
func (f *Fake) Creates() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.creates
}

// Backend is the seller's own id of an instance.
func (f *Fake) Backend(id events.InstanceID) (events.InstanceID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := strconv.Atoi(string(id))
	if c := f.contracts[n]; err == nil && c != nil && c.backend != "" {
		return c.backend, true
	}
	return "", false
}

// Resume makes a paused instance run again, as one does whose bid wins after all:
// the machine is born again with what it was born with.
func (f *Fake) Resume(ctx context.Context, id events.InstanceID) error {
	n, err := strconv.Atoi(string(id))
	f.mu.Lock()
	c := f.contracts[n]
	f.mu.Unlock()
	if err != nil || c == nil || c.hollow || c.destroyed {
		return fmt.Errorf("no paused instance %q", id)
	}
	i, err := f.cfg.Backend.Launch(ctx, c.spec, f.fresh(c.token))
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c.backend, c.token = i.ID, i.Token
	return nil
}

// fresh is a token that the backend has not seen: the label's own for its first machine.
func (f *Fake) fresh(token string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[token]++
	if n := f.used[token]; n > 1 {
		suffix := "-again" + strconv.Itoa(n)
		return token[:min(len(token), 64-len(suffix))] + suffix
	}
	return token
}

// say answers a refusal.
func say(w http.ResponseWriter, status int, code, msg string, contract int) {
	body := map[string]any{"success": false, "error": code, "msg": msg}
	if contract > 0 {
		body["new_contract"] = contract
	}
	tell(w, status, body)
}

func tell(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever asked has gone
}

// refuse puts a backend's refusal into Vast.ai's words. contract is what was left behind, 0 for nothing.
func refuse(w http.ResponseWriter, err error, contract int) {
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
		if contract > 0 {
			say(w, http.StatusBadRequest, "unavailable", "the instance could not be started", contract)
			return
		}
		say(w, http.StatusGone, "no_such_ask", "error 410/3907: no_such_ask  the offer was just taken", 0)
	case provider.OfferGone:
		say(w, http.StatusNotFound, "no_such_ask", "error 404/3603: no_such_ask  Instance type by id is not available.", contract)
	case provider.PriceTooLow:
		say(w, http.StatusBadRequest, "invalid_price", "the bid is below the minimum", contract)
	case provider.Throttled:
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, "API requests too frequent endpoint threshold=3.0")
	case provider.Auth:
		say(w, http.StatusUnauthorized, "auth_error", "Invalid user key", 0)
	case provider.Invalid:
		say(w, http.StatusBadRequest, "invalid_args", e.Message, contract)
	case provider.Quota:
		tell(w, http.StatusForbidden, map[string]any{"detail": "limit of the account"})
	case provider.NotFound:
		say(w, http.StatusNotFound, "no_such_instance", "error 404/3612: no_such_instance", 0)
	case provider.Transient:
		tell(w, http.StatusServiceUnavailable, map[string]any{"message": "temporarily unavailable"})
	default:
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	}
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	var b bytes.Buffer
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(b.Bytes(), into)
	}
	if err != nil {
		say(w, http.StatusBadRequest, "invalid_args", err.Error(), 0)
	}
	return err == nil
}

// tokenOf is the last part of a label, as a token.
func tokenOf(label string) string {
	return events.Token(label[strings.LastIndexByte(label, ':')+1:])
}

func (f *Fake) sorted() []*contract {
	var all []*contract
	for _, c := range f.contracts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *contract) int { return a.id - b.id })
	return all
}
