package gcpfake

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

// Config describes a project. Zero fields mean their defaults.
type Config struct {
	Seller  string // of the pools behind; "gcp"
	Project string // "project"
	Token   string // the one bearer token that is let in; any, if empty
	// Accept is how long an insertion is looked at before it is answered with an
	// operation that runs; 50 ms.
	Accept time.Duration
	// EarlyWaits is how often waiting for an operation returns at once and undone.
	EarlyWaits int
	// WaitLimit is how long waiting lasts at most; 2 min.
	WaitLimit time.Duration
	PageSize  int  // the most items of a page; 500
	SKUPage   int  // the most prices of a page; 5000
	Unheeded  bool // filters are not heeded
	// Stays leaves preempted machines behind, stopped, though they ask to be deleted.
	Stays bool
	Now   func() time.Time // market time; time.Now
}

// Fake is an http.Handler. It is safe for concurrent use.
type Fake struct {
	cfg     Config
	backend provider.Provider
	mux     *http.ServeMux
	ctx     context.Context // of purchases, which outlive the calls that asked for them
	cancel  context.CancelFunc
	buying  sync.WaitGroup

	mu          sync.Mutex
	records     map[string]*record // by zone/name
	requests    map[string]*record // by request id
	operations  map[string]*operation
	zones       map[string]bool // that were ever offered
	unreachable []string
	used        map[string]bool // permissions
	calls       map[string]int  // by permission
	serial      uint64
}

// New puts the protocol in front of backend. Close ends what it started.
func New(backend provider.Provider, cfg Config) *Fake {
	for _, d := range []struct {
		field *string
		value string
	}{{&cfg.Seller, "gcp"}, {&cfg.Project, "project"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	for _, d := range []struct {
		field *int
		value int
	}{{&cfg.PageSize, 500}, {&cfg.SKUPage, 5000}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if cfg.Accept <= 0 {
		cfg.Accept = 50 * time.Millisecond
	}
	if cfg.WaitLimit <= 0 {
		cfg.WaitLimit = 2 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	f := &Fake{
		cfg: cfg, backend: backend, mux: http.NewServeMux(), records: map[string]*record{}, requests: map[string]*record{},
		operations: map[string]*operation{}, zones: map[string]bool{}, used: map[string]bool{}, calls: map[string]int{},
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

// method is what one path does and which permissions it takes.
type method func(w http.ResponseWriter, r *http.Request)

func (f *Fake) route() {
	project := "/compute/v1/projects/{project}"
	zone := project + "/zones/{zone}"
	for _, m := range []struct {
		pattern string
		serve   method
		needs   []string
	}{
		{"POST " + zone + "/instances", f.insert, []string{"compute.instances.create", "compute.disks.create", "compute.instances.setMetadata", "compute.instances.setLabels", "compute.subnetworks.use"}},
		{"GET " + zone + "/instances/{instance}", f.get, []string{"compute.instances.get"}},
		{"DELETE " + zone + "/instances/{instance}", f.delete, []string{"compute.instances.delete"}},
		{"GET " + zone + "/operations", f.listOperations, []string{"compute.zoneOperations.list"}},
		{"POST " + zone + "/operations/{operation}/wait", f.wait, []string{"compute.zoneOperations.get"}},
		{"GET " + project + "/aggregated/instances", f.listInstances, []string{"compute.instances.list"}},
		{"GET " + project + "/aggregated/operations", f.listAllOperations, []string{"compute.globalOperations.list"}},
		{"GET " + project + "/aggregated/machineTypes", f.listMachineTypes, []string{"compute.machineTypes.list"}},
		{"GET " + project + "/aggregated/acceleratorTypes", f.listAcceleratorTypes, []string{"compute.acceleratorTypes.list"}},
		{"POST " + project + "/regions/{region}/advice/capacity", f.advise, []string{"compute.advice.capacity"}},
		{"GET /v1/services/{service}/skus", f.listSKUs, nil},
	} {
		f.mux.HandleFunc(m.pattern, func(w http.ResponseWriter, r *http.Request) {
			if f.admit(w, r) {
				f.use(m.needs...)
				m.serve(w, r)
			}
		})
	}
}

// ServeHTTP implements http.Handler.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }

// admit refuses whoever has no token, and other projects.
func (f *Fake) admit(w http.ResponseWriter, r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch project := r.PathValue("project"); {
	case !ok || token == "":
		refuse(w, 401, "required", "Request is missing required authentication credential.")
	case f.cfg.Token != "" && token != f.cfg.Token:
		refuse(w, 401, "authError", "Request had invalid authentication credentials.")
	case project != "" && project != f.cfg.Project:
		refuse(w, 403, "forbidden", "Required permission for project "+project)
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

// Unreachable makes zones fail to answer lists. None: all answer.
func (f *Fake) Unreachable(zones ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unreachable = zones
}

// Behind is the machine behind one that is here known as zone/name.
func (f *Fake) Behind(id events.InstanceID) events.InstanceID {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.records[string(id)]; r != nil {
		return r.behind
	}
	return ""
}
