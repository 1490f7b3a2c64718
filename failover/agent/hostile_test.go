package agent

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// readers are all that there are, by the kind of notice that they read.
var readers = []events.NoticeKind{events.NoticeEC2, events.NoticeGCP, events.NoticeAzure, events.NoticeAlibaba}

func reader(t *testing.T, kind events.NoticeKind, h http.Handler) Reader {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	r, err := OpenMetadata(kind, srv.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// plausible lets a reader come as far as the notice: what stands before it is in order.
func plausible(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		switch {
		case r.Method == http.MethodPut:
			fmt.Fprint(w, "token")
		case strings.HasPrefix(r.URL.Path, "/metadata/instance/compute/name"):
			fmt.Fprint(w, "vm-1")
		default:
			h(w, r)
		}
	}
}

func body(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
}

// What is no answer is no notice, withdraws none, and words itself the same way
// every time, so that it is logged once.
func TestAHostileMetadataServiceIsNoNotice(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	for name, h := range map[string]http.HandlerFunc{
		"a page of HTML with 200": plausible(body("<html><body>Welcome to the airport's WLAN</body></html>")),
		"JSON that breaks off":    plausible(body(`{"action":"terminate","time":"2026-11-30T12:2`)),
		"a document that is null": plausible(body("null")),
		"nothing at all":          plausible(body("")),
		"an answer that breaks off": plausible(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"Events":[`)
		}),
		"401 for ever":         plausible(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }),
		"not even a token":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"a service without it": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"503":                  plausible(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }),
		"a redirect": plausible(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}),
		"a connection that is cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		for _, kind := range readers {
			t.Run(string(kind)+" and "+name, func(t *testing.T) {
				t.Parallel()
				m := reader(t, kind, h)
				first := ""
				for range 3 {
					w, err := m.Warning(t.Context())
					if w != nil || err == nil {
						t.Fatalf("%+v, %v", w, err)
					}
					if first == "" {
						first = err.Error()
					}
					if err.Error() != first {
						t.Errorf("%q is not %q: it would be logged again and again", err, first)
					}
				}
				if h, ok := m.(Hinter); ok {
					if hint, err := h.Hint(t.Context()); hint != "" {
						t.Errorf("hint %q, %v", hint, err)
					}
				}
			})
		}
	}
}

func TestAMetadataServiceThatHangsIsGivenUp(t *testing.T) {
	for _, kind := range readers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			m := reader(t, kind, plausible(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			began := time.Now()
			if w, err := m.Warning(ctx); w != nil || err == nil || time.Since(began) > 10*time.Second {
				t.Errorf("%+v, %v after %v", w, err, time.Since(began))
			}
		})
	}
}

func TestAnAnswerOfFiftyMegabytesIsNotRead(t *testing.T) {
	chunk := strings.Repeat("x", 64<<10)
	for _, kind := range readers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			m := reader(t, kind, plausible(func(w http.ResponseWriter, _ *http.Request) {
				for range 800 {
					n, err := fmt.Fprint(w, chunk)
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			}))
			if w, err := m.Warning(t.Context()); w != nil || err == nil {
				t.Errorf("%+v, %v", w, err)
			}
			if data, err := m.UserData(t.Context()); len(data) > 0 || err == nil {
				t.Errorf("%d bytes of user data, %v", len(data), err)
			}
			if n := sent.Load(); n > 45<<20 {
				t.Errorf("%d MiB were taken from the service", n>>20)
			}
		})
	}
}

func TestANameIsNotAnything(t *testing.T) {
	for _, kind := range readers {
		for _, name := range []string{"<html>", "", "i-1\r\nX: y", "i 1", strings.Repeat("i", 200), "\x00"} {
			m := reader(t, kind, func() http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Metadata-Flavor", "Google")
					if r.Method == http.MethodPut {
						fmt.Fprint(w, "token")
						return
					}
					fmt.Fprint(w, name)
				}
			}())
			if id, err := m.Instance(t.Context()); err == nil && !(kind == events.NoticeGCP && name == "") {
				t.Errorf("%s: %q is the machine's name %q", kind, name, id)
			}
		}
	}
}

// A clock that is wrong, on either side, never makes a deadline later than the
// seller warns ahead, nor earlier than now.
func TestClocksThatDisagreeAreBounded(t *testing.T) {
	const at = "2026-11-30T12:23:40Z"
	doc := `{"Events":[{"EventId":"e","EventType":"Preempt","EventStatus":"Scheduled","Resources":["vm-1"],"NotBefore":"` + at + `"}]}`
	for _, tc := range []struct {
		name, date string
		least      time.Duration
		most       time.Duration
	}{
		{"in step", "Mon, 30 Nov 2026 12:23:20 GMT", 19 * time.Second, 19 * time.Second},
		{"a day behind", "Sun, 29 Nov 2026 12:23:20 GMT", 30 * time.Second, 30 * time.Second},
		{"a day ahead", "Tue, 01 Dec 2026 12:23:20 GMT", 0, 0},
		{"no date", "none", 29 * time.Second, 30 * time.Second},
	} {
		for _, kind := range []events.NoticeKind{events.NoticeEC2, events.NoticeAzure, events.NoticeAlibaba} {
			t.Run(string(kind)+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				m := reader(t, kind, plausible(func(w http.ResponseWriter, r *http.Request) {
					w.Header()["Date"] = []string{tc.date}
					switch kind {
					case events.NoticeEC2:
						fmt.Fprintf(w, `{"action":"terminate","time":%q}`, at)
					case events.NoticeAlibaba:
						fmt.Fprint(w, at)
					default:
						fmt.Fprint(w, doc)
					}
				}))
				w, err := m.Warning(t.Context())
				if err != nil || w == nil {
					t.Fatalf("%+v, %v", w, err)
				}
				if left := deadline(0, *w, 30*time.Second); left < tc.least || left > tc.most {
					t.Errorf("%v left of %+v, want %v to %v", left, w, tc.least, tc.most)
				}
			})
		}
	}
}

func TestOpenMetadataNamesWhatItDoesNotKnow(t *testing.T) {
	if _, err := OpenMetadata("smoke", "", 0); err == nil || !strings.Contains(err.Error(), "smoke") {
		t.Errorf("%v", err)
	}
	for _, kind := range readers {
		if _, err := OpenMetadata(kind, "ftp://x", 0); err == nil || !strings.Contains(err.Error(), MetadataEndpointVariable) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if r, err := OpenMetadata(events.NoticeNone, "", 0); r != nil || err != nil {
		t.Errorf("none: %v, %v", r, err)
	}
}
