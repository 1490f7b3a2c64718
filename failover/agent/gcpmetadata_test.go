package agent

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// google is a metadata server that says what it is told to, and keeps the
// questions that it was asked.
type google struct {
	mu        sync.Mutex
	preempted string
	event     string
	flavor    string
	asked     []string
}

func (g *google) set(f func()) { g.mu.Lock(); defer g.mu.Unlock(); f() }

func (g *google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Header.Get("Metadata-Flavor") != "Google" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Metadata-Flavor", g.flavor)
	switch r.URL.Path {
	case "/computeMetadata/v1/instance/preempted":
		g.asked = append(g.asked, r.URL.RawQuery)
		w.Header().Set("Etag", "e-"+g.preempted)
		fmt.Fprintln(w, g.preempted)
	case "/computeMetadata/v1/instance/maintenance-event":
		fmt.Fprint(w, g.event)
	case "/computeMetadata/v1/instance/zone":
		fmt.Fprint(w, "projects/1/zones/us-central1-a")
	case "/computeMetadata/v1/instance/name":
		fmt.Fprint(w, "sf-1")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestGCP(t *testing.T) {
	s := &google{preempted: "FALSE", event: "NONE", flavor: "Google"}
	m := reader(t, events.NoticeGCP, s).(*GCP)
	now := time.Hour
	m.elapsed = func() time.Duration { return now }
	expect := func(what string, want *Warning) {
		t.Helper()
		w, err := m.Warning(t.Context())
		if err != nil || (w == nil) != (want == nil) || w != nil && *w != *want {
			t.Fatalf("%s: %+v, %v, want %+v", what, w, err, want)
		}
	}
	expect("before", nil)
	expect("before, waiting for a change", nil)
	s.set(func() {
		if len(s.asked) != 2 || s.asked[0] != "" || s.asked[1] != "wait_for_change=true&last_etag=e-FALSE&timeout_sec=5" {
			t.Errorf("asked %q", s.asked)
		}
		s.preempted = "TRUE"
	})
	expect("the machine is being taken", &Warning{Action: "terminate", Source: "gcp", Left: 30 * time.Second, Known: true})
	now += 12 * time.Second
	expect("the time counts from when that was seen", &Warning{Action: "terminate", Source: "gcp", Left: 18 * time.Second, Known: true})
	s.set(func() { s.preempted = "maybe" })
	if w, err := m.Warning(t.Context()); err == nil {
		t.Errorf("maybe: %+v", w)
	}
	s.set(func() { s.preempted = "FALSE" })
	expect("withdrawn", nil)
	s.set(func() { s.preempted = "TRUE" })
	expect("a new one has its whole time", &Warning{Action: "terminate", Source: "gcp", Left: 30 * time.Second, Known: true})

	s.set(func() { s.preempted, s.event = "FALSE", "TERMINATE_ON_HOST_MAINTENANCE" })
	expect("maintenance ends the machine, nobody says when", &Warning{Action: "terminate", Source: "gcp-maintenance"})
	s.set(func() { s.event = "MIGRATE_ON_HOST_MAINTENANCE" })
	expect("maintenance moves the machine", nil)
	if hint, err := m.Hint(t.Context()); hint == "" || err != nil {
		t.Errorf("hint %q, %v", hint, err)
	}
	s.set(func() { s.event = "A_NEW_WORD" })
	if w, err := m.Warning(t.Context()); err == nil {
		t.Errorf("maintenance of an unknown kind: %+v", w)
	}
	s.set(func() { s.preempted = "TRUE" })
	expect("and does not hide that it is being taken", &Warning{Action: "terminate", Source: "gcp", Left: 30 * time.Second, Known: true})
	if id, err := m.Instance(t.Context()); id != "us-central1-a/sf-1" || err != nil {
		t.Errorf("instance %q, %v", id, err)
	}
	s.set(func() { s.flavor = "" })
	if w, err := m.Warning(t.Context()); err == nil {
		t.Errorf("a server that is not Google's is believed: %+v", w)
	}
}
