package azurefake

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Config describes a subscription. Zero fields mean their defaults.
type Config struct {
	Subscription string // required
	Token        string // the one bearer token that is let in; any, if empty
	// Accept is how long a creation is looked at before it is answered with an
	// operation that runs; 50 ms.
	Accept     time.Duration
	RetryAfter int // seconds that whoever follows an operation is asked to wait; 0: it is not said
	PageSize   int // the most machines or sizes of a page; 100
	PricePage  int // the most prices of a page; 100
	// Leaves has a creation that failed leave a machine, in state Failed.
	Leaves bool
	// Deallocates has evictions deallocate machines that ask to be deleted.
	Deallocates bool
	Restricted  []string         // sizes that are not for this subscription
	Now         func() time.Time // market time; time.Now
}

// Fake is an http.Handler. It is safe for concurrent use.
type Fake struct {
	cfg     Config
	backend provider.Provider
	mux     *http.ServeMux
	ctx     context.Context // of purchases, which outlive the calls that asked for them
	cancel  context.CancelFunc
	buying  sync.WaitGroup

	mu         sync.Mutex
	records    map[string]*record // by group/name, in lower case
	operations map[string]*operation
	used       map[string]bool // permissions
	calls      map[string]int  // by permission
	serial     int
	stuck      bool
}

// New puts the protocol in front of backend. Close ends what it started.
func New(backend provider.Provider, cfg Config) *Fake {
	for _, d := range []*int{&cfg.PageSize, &cfg.PricePage} {
		if *d <= 0 {
			*d = 100
		}
	}
	if cfg.Accept <= 0 {
		cfg.Accept = 50 * time.Millisecond
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	f := &Fake{
		cfg: cfg, backend: backend, mux: http.NewServeMux(), records: map[string]*record{},
		operations: map[string]*operation{}, used: map[string]bool{}, calls: map[string]int{},
	}
	f.ctx, f.cancel = context.WithCancel(context.Background()) // ends with Close
	f.route()
	return f
}

// Close gives up purchases under way and waits for them to end.
func (f *Fake) Close() {
	f.cancel()
	f.buying.Wait()
}

func (f *Fake) route() {
	compute := "/subscriptions/{subscription}/providers/Microsoft.Compute"
	vm := "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute/virtualMachines/{name}"
	for _, m := range []struct {
		pattern string
		serve   http.HandlerFunc
		needs   []string
	}{
		{"PUT " + vm, f.put, []string{
			"Microsoft.Compute/virtualMachines/write", "Microsoft.Compute/disks/write",
			"Microsoft.Network/networkInterfaces/write", "Microsoft.Network/networkInterfaces/join/action",
			"Microsoft.Network/virtualNetworks/subnets/join/action",
		}},
		{"GET " + vm, f.get, []string{"Microsoft.Compute/virtualMachines/read", "Microsoft.Compute/virtualMachines/instanceView/read"}},
		{"DELETE " + vm, f.delete, []string{
			"Microsoft.Compute/virtualMachines/delete", "Microsoft.Compute/disks/delete", "Microsoft.Network/networkInterfaces/delete",
		}},
		{"GET " + compute + "/virtualMachines", f.list, []string{"Microsoft.Compute/virtualMachines/read"}},
		{"GET " + compute + "/skus", f.skus, []string{"Microsoft.Compute/skus/read"}},
		{"GET " + compute + "/locations/{location}/operations/{operation}", f.operation, []string{"Microsoft.Compute/locations/operations/read"}},
	} {
		f.mux.HandleFunc(m.pattern, func(w http.ResponseWriter, r *http.Request) {
			if f.admit(w, r) {
				f.use(m.needs...)
				m.serve(w, r)
			}
		})
	}
	f.mux.HandleFunc("GET /api/retail/prices", f.prices)
}

// ServeHTTP implements http.Handler.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }

// admit refuses whoever has no token, and other subscriptions.
func (f *Fake) admit(w http.ResponseWriter, r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok || token == "" || f.cfg.Token != "" && token != f.cfg.Token:
		refuse(w, word{status: 401, code: "InvalidAuthenticationToken", message: "The access token is invalid."})
	case r.PathValue("subscription") != f.cfg.Subscription:
		refuse(w, word{status: 404, code: "SubscriptionNotFound", message: "The subscription could not be found."})
	case r.URL.Query().Get("api-version") == "":
		refuse(w, word{status: 400, code: "MissingApiVersionParameter", message: "The api-version query parameter is required."})
	default:
		return true
	}
	return false
}

func (f *Fake) use(permissions ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range permissions {
		f.used[p] = true
		f.calls[p]++
	}
}

// Permissions are those that the calls so far have needed, sorted.
func (f *Fake) Permissions() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for p := range f.used {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// Calls counts the calls that needed a permission.
func (f *Fake) Calls(permission string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[permission]
}

// Behind is the machine behind one that has this name here.
func (f *Fake) Behind(name string) events.InstanceID {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records {
		if r.name == name {
			return r.behind
		}
	}
	return ""
}

// Stick makes deletions be refused, until it is called with false.
func (f *Fake) Stick(stuck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck = stuck
}

// Foreign puts a machine there that somebody else made.
func (f *Fake) Foreign(group, name string, tags map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records[key(group, name)] = &record{
		group: group, name: name, born: f.cfg.Now(), alien: true,
		body: vm{Location: "eastus", Tags: tags, Properties: map[string]any{"hardwareProfile": map[string]any{"vmSize": "Standard_B1s"}}},
	}
}

// Standing counts the machines of others that are still there.
func (f *Fake) Standing() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.records {
		if r.alien && !r.gone {
			n++
		}
	}
	return n
}
