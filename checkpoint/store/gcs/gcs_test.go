package gcs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/gcs"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
)

func TestConformance(t *testing.T) {
	s := serve(t)
	storetest.Check(t, storetest.Config{
		Column: "gcs",
		Without: map[storetest.Feature]string{
			storetest.LateLists: "the SDK asks for fields in an order that changes, so no two lists are one request",
		},
		Open: func(t *testing.T) checkpoint.Store { return s.open(t, "below/here") },
		Faulty: func(t *testing.T) (checkpoint.Store, *faultproxy.Proxy) {
			proxy := faultproxy.Start(t, faultproxy.Config{Target: s.url, Verb: verb})
			return open(t, gcs.Config{Bucket: s.bucket(t), Prefix: "below/here", Credentials: s.file, Endpoint: proxy.URL}), proxy
		},
	})
}

// verb tells what a request of Google's JSON interface does.
func verb(r *http.Request) faultproxy.Verb {
	switch {
	case strings.HasPrefix(r.URL.Path, "/upload/"):
		return faultproxy.Put
	case r.Method == http.MethodDelete:
		return faultproxy.Delete
	case strings.HasSuffix(r.URL.Path, "/o"):
		return faultproxy.List
	case r.URL.Query().Get("alt") == "media":
		return faultproxy.Get
	}
	return faultproxy.Stat
}

// odd is a name with all that URLs treat in a special way.
const odd = "v1/acme/ü %25+&=?#~'()*!,;:@$[]{}/=x"

// TestSignedByPlainHTTP uses Accesses as a machine does.
func TestSignedByPlainHTTP(t *testing.T) {
	store := serve(t).open(t, "spotferry/")
	content := string(storetest.Content(100_000))
	sign := func(verb checkpoint.Verb, name string, size int64) checkpoint.Access {
		a, err := store.Sign(t.Context(), verb, name, size, time.Minute)
		must(t, err)
		if left := time.Until(a.Until); left > time.Minute || left < 50*time.Second {
			t.Errorf("good for %v", left)
		}
		return a
	}
	put := sign(checkpoint.VerbPut, odd, int64(len(content)))
	if got := send(t, put, content, nil); got.status != http.StatusOK {
		t.Fatalf("put = %v", got)
	}
	if got := send(t, put, content, nil); got.status != http.StatusPreconditionFailed {
		t.Errorf("put again = %v, want 412", got)
	}
	get := sign(checkpoint.VerbGet, odd, 0)
	if got := send(t, get, "", nil); got.status != http.StatusOK || got.body != content {
		t.Errorf("get = %v", got)
	}
	if got := send(t, get, "", map[string]string{"Range": "bytes=10-19"}); got.status != http.StatusPartialContent || got.body != content[10:20] {
		t.Errorf("range = %v", got)
	}
	if got := send(t, sign(checkpoint.VerbHead, odd, 0), "", nil); got.status != http.StatusOK || got.length != int64(len(content)) {
		t.Errorf("head = %v", got)
	}
	if got := send(t, sign(checkpoint.VerbGet, "v1/none", 0), "", nil); got.status != http.StatusNotFound {
		t.Errorf("get of nothing = %v", got)
	}
	if size, err := store.Stat(t.Context(), odd); err != nil || size != int64(len(content)) {
		t.Errorf("Stat = %d, %v", size, err)
	}
}

// TestSignatureBinds: what a machine may not change about an Access.
func TestSignatureBinds(t *testing.T) {
	s := serve(t)
	store := s.open(t, "")
	must(t, store.Put(t.Context(), "v1/taken", strings.NewReader("first"), 5))
	sign := func(verb checkpoint.Verb, name string) checkpoint.Access {
		a, err := store.Sign(t.Context(), verb, name, 5, time.Minute)
		must(t, err)
		return a
	}
	for _, tc := range []struct {
		name   string
		access checkpoint.Access
		change func(*checkpoint.Access)
		body   string
		want   int
	}{
		{"nothing changed", sign(checkpoint.VerbPut, "v1/free"), func(*checkpoint.Access) {}, "other", 200},
		{"a put without the generation", sign(checkpoint.VerbPut, "v1/taken"), drop("x-goog-if-generation-match"), "other", 403},
		{"a put with another generation", sign(checkpoint.VerbPut, "v1/taken"), set("x-goog-if-generation-match", "1"), "other", 403},
		{"a put without the length", sign(checkpoint.VerbPut, "v1/new"), drop("x-goog-content-length-range"), "other", 403},
		{"a longer put", sign(checkpoint.VerbPut, "v1/new"), func(*checkpoint.Access) {}, "longer", 400},
		{"a shorter put", sign(checkpoint.VerbPut, "v1/new"), func(*checkpoint.Access) {}, "four", 400},
		{"a header of Google's that is not signed", sign(checkpoint.VerbPut, "v1/new"), set("x-goog-acl", "public-read"), "other", 400},
		{"another name", sign(checkpoint.VerbGet, "v1/none"), where("v1/none", "v1/taken"), "", 403},
		{"another method", sign(checkpoint.VerbGet, "v1/taken"), func(a *checkpoint.Access) { a.Method = http.MethodDelete }, "", 403},
		{"a later end", sign(checkpoint.VerbGet, "v1/taken"), where("X-Goog-Expires=6", "X-Goog-Expires=9"), "", 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.change(&tc.access)
			if got := send(t, tc.access, tc.body, nil); got.status != tc.want {
				t.Errorf("got %v, want %d", got, tc.want)
			}
		})
	}
	t.Run("after its end", func(t *testing.T) {
		s.late.Store(int64(63 * time.Second))
		defer s.late.Store(0)
		if got := send(t, sign(checkpoint.VerbGet, "v1/taken"), "", nil); got.status != http.StatusBadRequest {
			// signed now, read by a clock that is 63 s ahead
			t.Errorf("got %v, want 400", got)
		}
	})
	var got bytes.Buffer
	r, err := store.Get(t.Context(), "v1/taken")
	must(t, err)
	_, err = got.ReadFrom(r)
	if must(t, errors.Join(err, r.Close())); got.String() != "first" {
		t.Errorf("the object is %q now", got.String())
	}
	if _, err := store.Stat(t.Context(), "v1/new"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("Stat = %v", err)
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	nobody := open(t, gcs.Config{Bucket: "b", Endpoint: "http://127.0.0.1:1"})
	if _, err := nobody.Sign(t.Context(), checkpoint.VerbGet, "v1/a", 0, time.Minute); err == nil {
		t.Error("signed without an account")
	}
	for name, cfg := range map[string]gcs.Config{
		"no bucket":            {},
		"a bucket as a URL":    {Bucket: "gs://b"},
		"a prefix with a root": {Bucket: "b", Prefix: "/x"},
		"an endpoint like ftp": {Bucket: "b", Endpoint: "ftp://host"},
		"no such credentials":  {Bucket: "b", Credentials: t.TempDir() + "/none"},
	} {
		if _, err := gcs.Open(t.Context(), cfg); err == nil {
			t.Errorf("Open accepted %s", name)
		}
	}
}

// answer is what came back.
type answer struct {
	status int
	length int64
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %.300q", a.status, a.body) }

func send(t *testing.T, a checkpoint.Access, body string, more map[string]string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var r io.Reader
	if a.Method == http.MethodPut {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, a.Method, a.URL, r)
	must(t, err)
	for _, h := range []map[string]string{a.Header, more} {
		for k, v := range h {
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	data, err := io.ReadAll(resp.Body)
	must(t, errors.Join(err, resp.Body.Close()))
	return answer{resp.StatusCode, resp.ContentLength, string(data)}
}

func drop(key string) func(*checkpoint.Access) {
	return func(a *checkpoint.Access) { delete(a.Header, key) }
}

func set(key, value string) func(*checkpoint.Access) {
	return func(a *checkpoint.Access) { a.Header[key] = value }
}

func where(old, new string) func(*checkpoint.Access) {
	return func(a *checkpoint.Access) { a.URL = strings.Replace(a.URL, old, new, 1) }
}
