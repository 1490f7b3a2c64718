package gcs_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/gcs"
)

// scripted is a store whose service answers every request in one way.
func scripted(t *testing.T, h http.HandlerFunc) (store *gcs.Store, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		h(w, r)
	}))
	t.Cleanup(server.Close)
	return open(t, gcs.Config{Bucket: "b", Endpoint: server.URL}), requests
}

// TestErrorsByMeaning: what a service's answer means, and that none is asked for twice.
func TestErrorsByMeaning(t *testing.T) {
	t.Parallel()
	const (
		jsonError = `{"error":{"code":%d,"message":"%s","errors":[{"reason":"%s","message":"%[2]s"}]}}`
		xmlBucket = `<?xml version='1.0'?><Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist.</Message></Error>`
		xmlKey    = `<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>`
	)
	known := []error{checkpoint.ErrNotFound, checkpoint.ErrExists, checkpoint.ErrNoSpace, checkpoint.ErrCorrupt}
	for _, tc := range []struct {
		name   string
		status int
		body   string
		put    error // nil: none of the contract's
		stat   error
	}{
		{"an object that is missing", 404, fmt.Sprintf(jsonError, 404, "No such object: b/v1/a", "notFound"), checkpoint.ErrNotFound, checkpoint.ErrNotFound},
		{"an object that is missing, in XML", 404, xmlKey, checkpoint.ErrNotFound, checkpoint.ErrNotFound},
		{"a bucket that is missing proves nothing", 404, fmt.Sprintf(jsonError, 404, "The specified bucket does not exist.", "notFound"), nil, nil},
		{"a bucket that is missing, in XML", 404, xmlBucket, nil, nil},
		{"a name that is taken", 412, fmt.Sprintf(jsonError, 412, "pre-conditions", "conditionNotMet"), checkpoint.ErrExists, checkpoint.ErrExists},
		{"a quota that is used up", 403, fmt.Sprintf(jsonError, 403, "quota", "quotaExceeded"), checkpoint.ErrNoSpace, checkpoint.ErrNoSpace},
		{"a service that is full", 507, "", checkpoint.ErrNoSpace, checkpoint.ErrNoSpace},
		{"rights that are missing", 403, fmt.Sprintf(jsonError, 403, "no", "forbidden"), nil, nil},
		{"too many requests", 429, fmt.Sprintf(jsonError, 429, "slow down", "rateLimitExceeded"), nil, nil},
		{"an error of the service", 500, "", nil, nil},
		{"a service that is away", 503, "", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store, requests := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			check := func(what string, err, want error) {
				t.Helper()
				if n := requests.Swap(0); n != 1 {
					t.Errorf("%s made %d requests", what, n)
				}
				if err == nil {
					t.Errorf("%s succeeded", what)
				}
				for _, k := range known {
					if errors.Is(err, k) != (k == want) {
						t.Errorf("%s = %v, want %v", what, err, want)
					}
				}
			}
			check("Put", store.Put(t.Context(), "v1/a", strings.NewReader("x"), 1), tc.put)
			_, err := store.Stat(t.Context(), "v1/a")
			check("Stat", err, tc.stat)
			_, err = store.Get(t.Context(), "v1/a")
			check("Get", err, tc.stat)
			_, err = store.List(t.Context(), "v1/")
			if err == nil || requests.Load() != 1 {
				t.Errorf("List = %v after %d requests", err, requests.Load())
			}
		})
	}
}

// TestBrokenBody: a body that breaks is an error, and not asked for again.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	store, requests := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "only this")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	r, err := store.Get(t.Context(), "v1/a")
	must(t, err)
	data, err := io.ReadAll(r)
	if err == nil || string(data) != "only this" || requests.Load() != 1 {
		t.Errorf("got %q, %v after %d requests", data, err, requests.Load())
	}
	for _, k := range []error{checkpoint.ErrNotFound, checkpoint.ErrCorrupt} {
		if errors.Is(err, k) {
			t.Errorf("%v proves a checkpoint bad", err)
		}
	}
	must(t, r.Close())
}

// TestFlippedBit: the checksum that Google sends along is checked.
func TestFlippedBit(t *testing.T) {
	t.Parallel()
	store, _ := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Goog-Hash", "crc32c=AAAAAA==")
		_, _ = io.WriteString(w, "content")
	})
	r, err := store.Get(t.Context(), "v1/a")
	must(t, err)
	if data, err := io.ReadAll(r); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("got %q, %v; want ErrCorrupt", data, err)
	}
	must(t, r.Close())
}

// TestListPages follows the tokens, and gives no part of a list for the whole.
func TestListPages(t *testing.T) {
	t.Parallel()
	const page = `{"items":[{"name":"v1/%s","size":"3"}],"nextPageToken":"%s"}`
	fail := false
	store, _ := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		switch token := r.URL.Query().Get("pageToken"); {
		case token == "":
			_, _ = fmt.Fprintf(w, page, "b", "next")
		case fail:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = fmt.Fprintf(w, page, "a", "")
		}
	})
	found, err := store.List(t.Context(), "v1/")
	if err != nil || len(found) != 2 || found[0] != (checkpoint.Object{Name: "v1/a", Size: 3}) {
		t.Errorf("List = %v, %v", found, err)
	}
	fail = true
	if found, err := store.List(t.Context(), "v1/"); err == nil || found != nil {
		t.Errorf("List = %v, %v; want an error", found, err)
	}
}
