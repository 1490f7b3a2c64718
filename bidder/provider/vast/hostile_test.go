package vast_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/vast"
	"github.com/spotferry/spotferry/bidder/provider/vast/vastfake"
)

// read reads a request's body and puts it back.
func read(q *http.Request) string {
	b, _ := io.ReadAll(q.Body) // short of it, the handler sees the same
	q.Body = io.NopCloser(bytes.NewReader(b))
	return string(b)
}

func openWith(t *testing.T, cfg vast.Config) *vast.Client {
	t.Helper()
	c, err := vast.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// huge is a valid object of n bytes.
func huge(w http.ResponseWriter, n int) {
	fmt.Fprint(w, `{"success":true,"offers":[],"instances":[],"x":"`)
	chunk := bytes.Repeat([]byte("a"), 1<<20)
	for ; n > 0; n -= len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
	fmt.Fprint(w, `"}`)
}

func TestAbsurdAnswersAreErrorsAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		body func(w http.ResponseWriter, q *http.Request)
	}{
		{"a page of HTML with 200", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><h1>Welcome</h1></html>") }},
		{"an answer cut in the middle", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"success":true,"new_contract":7,"offers":[{"id":`)
		}},
		{"a body shorter than it says", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"success":true}`)
		}},
		{"seventy megabytes", func(w http.ResponseWriter, _ *http.Request) { huge(w, 70<<20) }},
		{"nothing", func(http.ResponseWriter, *http.Request) {}},
		{"null", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "null") }},
		{"a list where an object should be", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[[[[]]]]") }},
		{"an object with other things", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"offers":7,"instances":"none"}`)
		}},
		{"brackets without an end", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("[", 1<<20)) }},
		{"a redirect that would carry the key elsewhere", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://192.0.2.1/", http.StatusTemporaryRedirect)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bad := ""
			r := open(t, providertest.Config{}, vastfake.Config{}, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if bad != "" && strings.Contains(q.URL.Path, bad) {
						tc.body(w, q)
						return
					}
					next.ServeHTTP(w, q)
				})
			})
			i, spec := r.buy(t, "lease-1"), r.spec(t)
			bad = "/bundles/"
			if _, err := r.client.Offers(t.Context()); provider.KindOf(err) != provider.Transient {
				t.Errorf("offers: %v, want transient", err)
			}
			bad = "/v1/instances/"
			if _, err := r.client.List(t.Context()); provider.KindOf(err) != provider.Transient {
				t.Errorf("list: %v, want transient", err)
			}
			if _, err := r.client.Launch(t.Context(), spec, "lease-2"); provider.KindOf(err) != provider.Transient {
				t.Errorf("a launch without a list: %v, want transient, since nothing was bought", err)
			}
			bad = "/asks/"
			_, err := r.client.Launch(t.Context(), spec, "lease-2")
			if e, ok := errors.AsType[*provider.Error](err); !ok || e.Kind != provider.UnknownOutcome || !e.MaybeCreated {
				t.Errorf("launch: %v, want an unknown outcome", err)
			}
			bad = "/v0/instances/"
			if err := r.client.Terminate(t.Context(), i.ID); provider.KindOf(err) != provider.Transient {
				t.Errorf("terminate: %v, want transient", err)
			}
			if strings.Contains(fmt.Sprint(err), key) {
				t.Error("the key stands in an error")
			}
		})
	}
}

func TestPageTokensThatLeadBackEnd(t *testing.T) {
	t.Parallel()
	pages := 0
	r := open(t, providertest.Config{}, vastfake.Config{}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path != "/api/v1/instances/" {
				next.ServeHTTP(w, q)
				return
			}
			pages++
			fmt.Fprintf(w, `{"instances":[],"next_token":"t%d"}`, pages%3)
		})
	})
	if _, err := r.client.List(t.Context()); provider.KindOf(err) != provider.Transient || pages > 5 {
		t.Errorf("after %d pages: %v, want an error", pages, err)
	}
}
