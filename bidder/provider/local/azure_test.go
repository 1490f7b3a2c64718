//go:build linux

package local

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func TestAzuresScheduledEvents(t *testing.T) {
	t.Parallel()
	var agreed atomic.Int64
	var now atomic.Pointer[time.Time]
	tell := func(at time.Time) { now.Store(&at) }
	tell(noon)
	m, srv := spoken(t, MetadataConfig{Kind: events.NoticeAzure, Now: func() time.Time { return *now.Load() }, Acknowledged: func() { agreed.Add(1) }})
	url := srv.URL + "/metadata/scheduledevents?api-version=2020-07-01"
	type document struct {
		DocumentIncarnation int
		Events              []scheduled
	}
	newest := 0
	read := func(events int) document {
		t.Helper()
		var d document
		resp := put(t, "GET", url, "", "Metadata", "true")
		if err := json.NewDecoder(resp.Body).Decode(&d); err != nil || resp.StatusCode != http.StatusOK || len(d.Events) != events || d.DocumentIncarnation < newest {
			t.Fatalf("%d %+v, %v, want %d events", resp.StatusCode, d, err, events)
		}
		newest = d.DocumentIncarnation
		return d
	}
	read(0)
	m.Warn(noon.Add(30 * time.Second))
	e := read(1).Events[0]
	if e.EventType != "Preempt" || e.EventStatus != "Scheduled" || e.NotBefore != noon.Add(30*time.Second).UTC().Format(http.TimeFormat) || len(e.Resources) != 1 || e.Resources[0] != "i-1" {
		t.Errorf("%+v", e)
	}
	if again := read(1).Events[0]; again.EventID != e.EventID {
		t.Errorf("event %s became %s", e.EventID, again.EventID)
	}
	start := func(id string) int {
		return put(t, "POST", url, fmt.Sprintf(`{"StartRequests":[{"EventId":%q}]}`, id), "Metadata", "true").StatusCode
	}
	if code := start("another"); code != http.StatusBadRequest || agreed.Load() != 0 {
		t.Errorf("an event that there is not is begun with %d", code)
	}
	for range 2 {
		if code := start(e.EventID); code != http.StatusOK || agreed.Load() != 1 {
			t.Errorf("agreeing is answered with %d, agreed %d times", code, agreed.Load())
		}
	}
	if e := read(1).Events[0]; e.EventStatus != "Started" || e.NotBefore != "" {
		t.Errorf("after agreeing: %+v", e)
	}
	m.Warn(time.Time{})
	read(0)
	if code := start(e.EventID); code != http.StatusBadRequest {
		t.Errorf("an event that has vanished is begun with %d", code)
	}
	m.Warn(noon.Add(30 * time.Second))
	if second := read(1).Events[0]; second.EventID == e.EventID {
		t.Error("another event has the same id")
	}
	tell(noon.Add(31 * time.Second))
	if e := read(1).Events[0]; e.EventStatus != "Started" {
		t.Errorf("after the deadline: %+v", e)
	}
}

func TestAzuresMetadataIsRefused(t *testing.T) {
	t.Parallel()
	_, srv := spoken(t, MetadataConfig{Kind: events.NoticeAzure})
	const list, version = "/metadata/scheduledevents", "?api-version=2020-07-01"
	for _, tc := range []struct {
		name, method, path, body string
		header                   []string
		want                     int
		text                     string
	}{
		{"without its header", "GET", list + version, "", nil, 400, ""},
		{"without a version", "GET", list, "", []string{"Metadata", "true"}, 400, ""},
		{"through a proxy", "GET", list + version, "", []string{"Metadata", "true", "X-Forwarded-For", "1.2.3.4"}, 400, ""},
		{"a start of nothing", "POST", list + version, `{"StartRequests":[]}`, []string{"Metadata", "true"}, 400, ""},
		{"a start that is no JSON", "POST", list + version, `{`, []string{"Metadata", "true"}, 400, ""},
		{"a leaf without a format", "GET", "/metadata/instance/compute/name" + version, "", []string{"Metadata", "true"}, 404, ""},
		{"a leaf that there is not", "GET", "/metadata/instance/compute/soul" + version + "&format=text", "", []string{"Metadata", "true"}, 404, ""},
		{"but not its name", "GET", "/metadata/instance/compute/name" + version + "&format=text", "", []string{"Metadata", "true"}, 200, "i-1"},
		{"nor what it was born with", "GET", "/metadata/instance/compute/userData" + version + "&format=text", "", []string{"Metadata", "true"}, 200, "Ym9ybiB3aXRo"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			resp := put(t, tc.method, srv.URL+tc.path, tc.body, tc.header...)
			text, err := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.want || err != nil || tc.text != "" && string(text) != tc.text {
				t.Errorf("%d %q, %v, want %d %q", resp.StatusCode, text, err, tc.want, tc.text)
			}
		})
	}
}

func TestAzuresFirstAnswerIsSlow(t *testing.T) {
	t.Parallel()
	_, srv := spoken(t, MetadataConfig{Kind: events.NoticeAzure, FirstAnswer: 200 * time.Millisecond})
	url := srv.URL + "/metadata/scheduledevents?api-version=2020-07-01"
	began := time.Now()
	put(t, "GET", url, "", "Metadata", "true")
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("the first answer took %v", took)
	}
}

func TestAlibabasMetadata(t *testing.T) {
	t.Parallel()
	m, srv := spoken(t, MetadataConfig{Kind: events.NoticeAlibaba})
	token, err := io.ReadAll(put(t, "PUT", srv.URL+"/latest/api/token", "", alibaba.ttl, "60").Body)
	if err != nil {
		t.Fatal(err)
	}
	const at = "/latest/meta-data/instance/spot/termination-time"
	ask := func(path string, headers ...string) (int, string) {
		resp := put(t, "GET", srv.URL+path, "", headers...)
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	if code, _ := ask(at); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	if code, _ := ask(at, tokenHeader, string(token)); code != http.StatusUnauthorized {
		t.Errorf("with EC2's header: %d", code)
	}
	if code, _ := ask(at, alibaba.token, string(token)); code != http.StatusNotFound {
		t.Errorf("before: %d", code)
	}
	m.Warn(noon)
	if code, text := ask(at, alibaba.token, string(token)); code != http.StatusOK || text != "2027-03-01T12:00:00Z" {
		t.Errorf("then: %d %q", code, text)
	}
	if code, text := ask("/latest/meta-data/instance-id", alibaba.token, string(token)); code != http.StatusOK || text != "i-1" {
		t.Errorf("its name: %d %q", code, text)
	}
}

func TestAMachineWithoutNoticesHasNoneInItsMetadata(t *testing.T) {
	t.Parallel()
	for _, kind := range []events.NoticeKind{events.NoticeNone, events.NoticeSignal} {
		m, srv := spoken(t, MetadataConfig{Kind: kind})
		m.Warn(noon)
		token, err := io.ReadAll(put(t, "PUT", srv.URL+"/latest/api/token", "", ttlHeader, "60").Body)
		if err != nil {
			t.Fatal(err)
		}
		if code := put(t, "GET", srv.URL+"/latest/meta-data/spot/instance-action", "", tokenHeader, string(token)).StatusCode; code != http.StatusNotFound {
			t.Errorf("%s: %d", kind, code)
		}
		if code := put(t, "GET", srv.URL+"/latest/user-data", "", tokenHeader, string(token)).StatusCode; code != http.StatusOK {
			t.Errorf("%s: user data %d", kind, code)
		}
	}
}
