package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// service answers as the recorded mock of the metadata service does.
type service struct {
	tokens atomic.Int64
	valid  atomic.Int64 // the number of the token that is accepted
	action atomic.Pointer[string]
	asked  atomic.Int64
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := func(code int) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		fmt.Fprint(w, `<?xml version="1.0"?><html><body>error</body></html>`)
	}
	if r.URL.Path == "/latest/api/token" {
		if r.Method != http.MethodPut || r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") == "" {
			page(http.StatusBadRequest)
			return
		}
		s.valid.Store(s.tokens.Add(1))
		fmt.Fprintf(w, "token-%d", s.valid.Load())
		return
	}
	s.asked.Add(1)
	if r.Header.Get("X-aws-ec2-metadata-token") != fmt.Sprintf("token-%d", s.valid.Load()) {
		page(http.StatusUnauthorized)
		return
	}
	switch body := s.action.Load(); {
	case r.URL.Path == "/latest/meta-data/instance-id":
		fmt.Fprint(w, "i-0abc\n")
	case r.URL.Path == "/latest/user-data":
		fmt.Fprint(w, `{"job":"j"}`)
	case r.URL.Path == "/latest/meta-data/spot/instance-action" && body != nil:
		w.Header().Set("Date", "Mon, 30 Nov 2026 12:21:40 GMT") // whatever this machine's clock says
		fmt.Fprint(w, *body)
	default:
		page(http.StatusNotFound)
	}
}

func imds(t *testing.T, h http.Handler) *IMDS {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	m, err := NewIMDS(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func TestIMDS(t *testing.T) {
	s := &service{}
	m := imds(t, s)
	if w, err := m.Warning(t.Context()); w != nil || err != nil {
		t.Fatalf("before a notice: %+v, %v", w, err)
	}
	notice := "{\n\t\"action\": \"terminate\",\n\t\"time\": \"2026-11-30T12:23:40Z\"\n}"
	s.action.Store(&notice)
	w, err := m.Warning(t.Context())
	if err != nil || w == nil || w.Action != "terminate" || w.Left != 119*time.Second {
		t.Fatalf("a notice: %+v, %v", w, err)
	}
	s.valid.Add(7) // the token has expired
	if w, err := m.Warning(t.Context()); err != nil || w == nil {
		t.Fatalf("with an old token: %+v, %v", w, err)
	}
	s.action.Store(nil)
	if w, err := m.Warning(t.Context()); w != nil || err != nil {
		t.Fatalf("withdrawn: %+v, %v", w, err)
	}
	if id, err := m.Instance(t.Context()); id != "i-0abc" || err != nil {
		t.Errorf("instance %q, %v", id, err)
	}
	if data, err := m.UserData(t.Context()); string(data) != `{"job":"j"}` || err != nil {
		t.Errorf("user data %q, %v", data, err)
	}
	if got := s.tokens.Load(); got != 2 {
		t.Errorf("%d tokens for %d questions, want 2", got, s.asked.Load())
	}
}

func TestIMDSThatMisbehavesIsNoNotice(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"an error page as an answer": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>sorry</html>") },
		"a token with a line end":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a\r\nX-Evil: 1") },
		"errors":                     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		},
		"an endless answer": func(w http.ResponseWriter, r *http.Request) {
			for range 1000 {
				if _, err := fmt.Fprint(w, strings.Repeat("x", 4096)); err != nil {
					return
				}
			}
		},
		"no token, ever":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"a cut connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			m := imds(t, h)
			if w, err := m.Warning(t.Context()); w != nil || err == nil {
				t.Errorf("%+v, %v", w, err)
			}
		})
	}
	for _, bad := range []string{"ftp://x", "http://", "://", "file:///etc/passwd"} {
		if _, err := NewIMDS(bad); err == nil {
			t.Errorf("endpoint %q is taken", bad)
		}
	}
}

func TestARecommendationToRebalanceIsAHint(t *testing.T) {
	for _, tc := range []struct {
		name, body, want string
		fails            bool
	}{
		{"one is read", "{\n\t\"noticeTime\": \"2026-11-30T12:21:40Z\"\n}", "rebalance recommended at 2026-11-30T12:21:40Z", false},
		{"none is none", "", "", false},
		{"a page is none", "<html>", "", true},
		{"no time is none", "{}", "", true},
		{"a number is none", `{"noticeTime": 7}`, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := imds(t, plausible(func(w http.ResponseWriter, r *http.Request) {
				if tc.body == "" || r.URL.Path != "/latest/meta-data/events/recommendations/rebalance" {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				fmt.Fprint(w, tc.body)
			}))
			if hint, err := m.Hint(t.Context()); hint != tc.want || (err != nil) != tc.fails {
				t.Errorf("%q, %v", hint, err)
			}
			if w, err := m.Warning(t.Context()); w != nil || err != nil {
				t.Errorf("a hint is a notice: %+v, %v", w, err)
			}
		})
	}
}

func TestLoadBootstrap(t *testing.T) {
	m := imds(t, &service{})
	if _, err := LoadBootstrap(t.Context(), "", m); err == nil || strings.Contains(err.Error(), "token") {
		t.Errorf("half a bootstrap: %v", err)
	}
	if _, err := LoadBootstrap(t.Context(), "", nil); err == nil {
		t.Error("from nowhere")
	}
	good := `{"job":"j","epoch":2,"lease":"j-2-1","url":"nats://x","token":"canary","timers":{"heartbeat":1,"hold":2,"silence":3,"fence":1,"boot":1}}`
	if b, err := ParseBootstrap([]byte(good)); err != nil || b.Epoch != 2 {
		t.Errorf("%+v, %v", b, err)
	}
	for _, bad := range []string{"", "null", "[]", `{"job":"j"}`, `{"job":"a.b","epoch":1,"lease":"a.b-1-1"}`,
		strings.Replace(good, `"epoch":2`, `"epoch":3`, 1), strings.Replace(good, `"j-2-1"`, `"k-2-1"`, 1),
		strings.Replace(good, `"heartbeat":1`, `"heartbeat":0`, 1), good[:len(good)-9]} {
		_, err := ParseBootstrap([]byte(bad))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.60s: %v", bad, err)
		}
	}
}
