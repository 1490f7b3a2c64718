package lambda_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/lambda/lambdafake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
)

// huge is a valid object of n bytes.
func huge(w http.ResponseWriter, n int) {
	fmt.Fprint(w, `{"data":{"instance_ids":["x"]},"x":"`)
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
		{"an answer cut in the middle", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":{"instance_ids":["x"]`) }},
		{"a body shorter than it says", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"data":{"instance_ids":["x"]}}`)
		}},
		{"fifty megabytes", func(w http.ResponseWriter, _ *http.Request) { huge(w, 50<<20) }},
		{"nothing", func(http.ResponseWriter, *http.Request) {}},
		{"null", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "null") }},
		{"data of null", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":null}`) }},
		{"data of another shape", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":"yes"}`) }},
		{"brackets without an end", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("[", 1<<20)) }},
		{"a redirect that would carry the key elsewhere", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://192.0.2.1/", http.StatusTemporaryRedirect)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bad := ""
			r := open(t, providertest.Config{}, lambdafake.Config{}, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if bad != "" && strings.HasSuffix(q.URL.Path, bad) {
						tc.body(w, q)
						return
					}
					next.ServeHTTP(w, q)
				})
			})
			i, spec := r.buy(t, "lease-1"), r.spec(t)
			bad = "/instance-types"
			if _, err := r.client.Offers(t.Context()); provider.KindOf(err) != provider.Transient {
				t.Errorf("offers: %v, want transient", err)
			}
			bad = "/instances"
			if _, err := r.client.List(t.Context()); provider.KindOf(err) != provider.Transient {
				t.Errorf("list: %v, want transient", err)
			}
			if _, err := r.client.Launch(t.Context(), spec, "lease-2"); provider.KindOf(err) != provider.Transient {
				t.Errorf("a launch without a list: %v, want transient, since nothing was bought", err)
			}
			bad = "/launch"
			_, err := r.client.Launch(t.Context(), spec, "lease-2")
			if e, ok := errors.AsType[*provider.Error](err); !ok || e.Kind != provider.UnknownOutcome || !e.MaybeCreated {
				t.Errorf("launch: %v, want an unknown outcome", err)
			}
			bad = "/terminate"
			if err := r.client.Terminate(t.Context(), i.ID); provider.KindOf(err) != provider.Transient {
				t.Errorf("terminate: %v, want transient", err)
			}
			if strings.Contains(fmt.Sprint(err), key) {
				t.Error("the key stands in an error")
			}
		})
	}
}

func TestAnErrorBesideDataIsAnError(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, lambdafake.Config{}, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"data":[],"error":{"code":"global/account-inactive","message":"Pay."}}`)
		})
	})
	if _, err := r.client.List(t.Context()); provider.KindOf(err) != provider.Auth {
		t.Errorf("%v, want the error", err)
	}
}
