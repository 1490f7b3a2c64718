package agent

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// azure is a metadata service that gives the document it is told to.
type azure struct {
	mu     sync.Mutex
	name   string
	doc    string
	date   string
	starts []string
}

func (z *azure) give(doc string) { z.mu.Lock(); defer z.mu.Unlock(); z.doc = doc }

func (z *azure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	z.mu.Lock()
	defer z.mu.Unlock()
	w.Header()["Date"] = []string{z.date}
	switch {
	case r.Header.Get("Metadata") != "true" || r.URL.Query().Get("api-version") == "":
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		z.starts = append(z.starts, string(body))
	case r.URL.Path == "/metadata/scheduledevents":
		fmt.Fprint(w, z.doc)
	case r.URL.Path == "/metadata/instance/compute/name" && z.name != "":
		fmt.Fprint(w, z.name)
	case r.URL.Path == "/metadata/instance/compute/userData":
		fmt.Fprint(w, base64.StdEncoding.EncodeToString([]byte("born with")))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// recording reads what came out of a real service. It lies beside the checkout.
func recording(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../shared/recorded/" + name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("the recorded documents do not lie beside this checkout: %v", err)
	}
	return text
}

func TestTheRecordedFreezeIsRiddenOut(t *testing.T) {
	var docs []json.RawMessage
	if err := json.Unmarshal(recording(t, "azure-scheduled-events-freeze-sequence.json"), &docs); err != nil || len(docs) != 4 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	for _, tc := range []struct {
		name, vm string
		change   func(string) string
		hint     bool
		left     []time.Duration // of a warning, in each document; -1: none
	}{
		{"five seconds of standing still are a hint", "WestNO_0", nil, true, []time.Duration{-1, -1, -1, -1}},
		{"names are the same in any case", "westno_1", nil, true, []time.Duration{-1, -1, -1, -1}},
		{"another machine's are nothing", "WestNO_2", nil, false, []time.Duration{-1, -1, -1, -1}},
		{"an hour of it is a relocation, that ends", "WestNO_0",
			func(s string) string {
				return strings.ReplaceAll(s, `"DurationInSeconds": 5`, `"DurationInSeconds": 3600`)
			},
			false, []time.Duration{-1, 9*time.Minute + 57*time.Second, 0, -1}},
		{"so is one of unknown length", "WestNO_0",
			func(s string) string {
				return strings.ReplaceAll(s, `"DurationInSeconds": 5`, `"DurationInSeconds": -1`)
			},
			false, []time.Duration{-1, 9*time.Minute + 57*time.Second, 0, -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &azure{name: tc.vm, date: "Mon, 11 Apr 2026 22:17:00 GMT"}
			m := reader(t, events.NoticeAzure, s).(*Azure)
			for i, doc := range docs {
				text := string(doc)
				if tc.change != nil {
					text = tc.change(text)
				}
				s.give(text)
				for range 2 { // every document is polled more than once
					w, err := m.Warning(t.Context())
					if err != nil || (w != nil) != (tc.left[i] >= 0) || w != nil && (w.Left != tc.left[i] || w.Action != "freeze" || !w.Known) {
						t.Errorf("document %d: %+v, %v, want %v", i+1, w, err, tc.left[i])
					}
					hint, err := m.Hint(t.Context())
					if want := tc.hint && (i == 1 || i == 2); (hint != "") != want || err != nil {
						t.Errorf("document %d: hint %q, %v", i+1, hint, err)
					}
				}
				if agreed, err := m.Acknowledge(t.Context()); agreed || err != nil {
					t.Errorf("document %d: a freeze is agreed to: %v", i+1, err)
				}
			}
			if len(s.starts) > 0 {
				t.Errorf("asked to start %q", s.starts)
			}
		})
	}
}

func TestTheRecordedPreemptionIsRead(t *testing.T) {
	s := &azure{name: "vm-spot", date: "Tue, 09 Aug 2022 17:07:10 GMT", doc: string(recording(t, "azure-scheduled-events-preempt.json"))}
	m := reader(t, events.NoticeAzure, s).(*Azure)
	w, err := m.Warning(t.Context())
	if err != nil || w == nil || *w != (Warning{Action: "terminate", Source: "azure", Left: 21 * time.Second, Known: true}) {
		t.Fatalf("%+v, %v", w, err)
	}
	for range 2 {
		if agreed, err := m.Acknowledge(t.Context()); !agreed || err != nil {
			t.Errorf("%v, %v", agreed, err)
		}
	}
	const want = `{"StartRequests":[{"EventId":"C1BF8322-4CBF-4FC4-9C45-B40CF3106D0E"}]}`
	if len(s.starts) != 2 || s.starts[0] != want {
		t.Errorf("asked to start %q", s.starts)
	}
	s.give(`{"DocumentIncarnation":2,"Events":[]}`)
	if w, err := m.Warning(t.Context()); w != nil || err != nil {
		t.Errorf("vanished: %+v, %v", w, err)
	}
	if agreed, err := m.Acknowledge(t.Context()); agreed || err != nil {
		t.Errorf("what has vanished is agreed to: %v", err)
	}
	if data, err := m.UserData(t.Context()); string(data) != "born with" || err != nil {
		t.Errorf("user data %q, %v", data, err)
	}
}

func TestScheduledEvents(t *testing.T) {
	event := func(kind, status, before string, vms ...string) string {
		names, _ := json.Marshal(vms)
		return fmt.Sprintf(`{"EventId":"%s-%s","EventType":%q,"EventStatus":%q,"Resources":%s,"NotBefore":%q}`, kind, before, kind, status, names, before)
	}
	const soon, later = "2026-11-30T12:00:21Z", "Mon, 30 Nov 2026 12:08:21 GMT"
	for _, tc := range []struct {
		name   string
		events []string
		want   string // action and time left
		agreed int    // events that are agreed to
	}{
		{"a date of either kind is read", []string{event("Redeploy", "Scheduled", later, "vm-1")}, "redeploy 8m20s", 0},
		{"the one that comes first counts", []string{event("Reboot", "Scheduled", later, "vm-1"), event("Preempt", "Scheduled", soon, "vm-1"), event("Redeploy", "Scheduled", later, "vm-1")}, "terminate 20s", 1},
		{"a preemption without a time is half a minute away", []string{event("Preempt", "Scheduled", "", "vm-1")}, "terminate 30s", 1},
		{"so is one whose time is absurd", []string{event("Preempt", "Scheduled", "3026-11-30T12:00:21Z", "vm-1")}, "terminate 30s", 1},
		{"a failure of hardware has started", []string{event("Redeploy", "Started", "", "vm-1")}, "redeploy 0s", 0},
		{"a preemption of several machines is not agreed to", []string{event("Preempt", "Scheduled", soon, "vm-1", "vm-2")}, "terminate 20s", 0},
		{"a termination that a person asked for is one", []string{event("Terminate", "Scheduled", later, "vm-1")}, "terminate 8m20s", 1},
		{"of another machine nothing is", []string{event("Preempt", "Scheduled", soon, "vm-10"), event("Preempt", "Scheduled", soon)}, "", 0},
		{"an event of a kind that is not known is none", []string{event("Levitate", "Scheduled", soon, "vm-1")}, "", 0},
		{"twice the same is the same", []string{event("Preempt", "Scheduled", soon, "vm-1"), event("Preempt", "Scheduled", soon, "vm-1")}, "terminate 20s", 2},
		{"null among them is passed over", []string{"null", "{}", event("Preempt", "Scheduled", soon, "vm-1")}, "terminate 20s", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &azure{name: "vm-1", date: "Mon, 30 Nov 2026 12:00:00 GMT", doc: `{"DocumentIncarnation":"2","Events":[` + strings.Join(tc.events, ",") + `]}`}
			m := reader(t, events.NoticeAzure, s).(*Azure)
			m.elapsed = func() time.Duration { return time.Hour }
			got := ""
			w, err := m.Warning(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if w != nil {
				got = fmt.Sprint(w.Action, " ", w.Left)
			}
			if got != tc.want || len(m.ending) != tc.agreed {
				t.Errorf("%s, %d to agree to; want %s, %d", got, len(m.ending), tc.want, tc.agreed)
			}
		})
	}
}

func TestEventsOfAMachineWithoutANameAreNeitherOursNorNot(t *testing.T) {
	s := &azure{doc: `{"Events":[]}`}
	m := reader(t, events.NoticeAzure, s).(*Azure)
	if m.Patience() < 2*time.Minute {
		t.Errorf("the first answer is waited for %v", m.Patience())
	}
	if w, err := m.Warning(t.Context()); w != nil || err != nil {
		t.Errorf("no events: %+v, %v", w, err)
	}
	if m.Patience() > 10*time.Second {
		t.Errorf("later ones are waited for %v", m.Patience())
	}
	s.give(`{"Events":[{"EventId":"e","EventType":"Preempt","EventStatus":"Scheduled","Resources":["vm-1"]}]}`)
	if w, err := m.Warning(t.Context()); w != nil || err == nil {
		t.Errorf("events: %+v, %v", w, err)
	}
}
