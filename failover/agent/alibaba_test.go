package agent

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func TestAlibaba(t *testing.T) {
	var at atomic.Value
	at.Store("")
	var valid atomic.Int64
	m := reader(t, events.NoticeAlibaba, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = []string{"Mon, 30 Nov 2026 12:21:40 GMT"}
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aliyun-ecs-metadata-token-ttl-seconds") != "":
			fmt.Fprintf(w, "token-%d", valid.Add(1))
		case r.Header.Get("X-aliyun-ecs-metadata-token") != fmt.Sprintf("token-%d", valid.Load()):
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/latest/meta-data/instance/spot/termination-time" && at.Load() != "":
			fmt.Fprintln(w, at.Load())
		case r.URL.Path == "/latest/meta-data/instance-id":
			fmt.Fprint(w, "i-bp1")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	if w, err := m.Warning(t.Context()); w != nil || err != nil {
		t.Fatalf("before: %+v, %v", w, err)
	}
	at.Store("2026-11-30T12:26:40Z")
	w, err := m.Warning(t.Context())
	if err != nil || w == nil || *w != (Warning{Action: "terminate", Source: "alibaba", Left: 299 * time.Second, Known: true}) {
		t.Errorf("%+v, %v", w, err)
	}
	valid.Add(1) // the token has expired
	at.Store("")
	if w, err := m.Warning(t.Context()); w != nil || err != nil {
		t.Errorf("withdrawn: %+v, %v", w, err)
	}
	if id, err := m.Instance(t.Context()); id != "i-bp1" || err != nil {
		t.Errorf("instance %q, %v", id, err)
	}
}
