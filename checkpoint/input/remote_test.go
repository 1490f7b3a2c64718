package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func opened(t *testing.T, source string, cfg OpenConfig) Remote {
	t.Helper()
	s, err := Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func refusedBy(t *testing.T, source string, cfg OpenConfig, say, remedy string) {
	t.Helper()
	m := newMachine(t, nil)
	_, err := m.Mount(t.Context(), opened(t, source, cfg), m.root, "x")
	if r, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(r.What, say) || !strings.Contains(r.Remedy, remedy) {
		t.Errorf("%s: %v, want a refusal with %q and %q", source, err, say, remedy)
	}
}

func TestBucketsOfARealService(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t)
	host := strings.TrimPrefix(server.URL, "http://")
	client, err := minio.New(host, &minio.Options{Creds: credentials.NewStaticV4(server.Access, server.Secret, ""), BucketLookup: minio.BucketLookupPath, Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.MakeBucket(t.Context(), "inputs", minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	put := func(name string, data []byte) {
		t.Helper()
		if _, err := client.PutObject(t.Context(), "inputs", name, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{DisableMultipart: true}); err != nil {
			t.Fatal(err)
		}
	}
	shard, text := content(1, partSize+1234), []byte("hello")
	put("set/shard-0", shard)
	put("set/deep/er/a b+c%20.txt", text)
	put("set/empty", nil)
	put("set/dir/", nil)
	put("settle", text)
	put("single.json", text)
	keys := env("AWS_ENDPOINT_URL", server.URL, "AWS_ACCESS_KEY_ID", server.Access, "AWS_SECRET_ACCESS_KEY", server.Secret)
	cfg := OpenConfig{Getenv: keys}

	dir := t.TempDir()
	for i := range 2 {
		m := newMachine(t, withCache(t, dir, nil))
		got, err := m.Mount(t.Context(), opened(t, "s3://inputs/set", cfg), m.root, "data")
		if err != nil || got.Files != 3 || (got.Cached > 0) != (i == 1) {
			t.Fatalf("Mount = %+v, %v", got, err)
		}
		m.has(t, "data/shard-0", shard)
		m.has(t, "data/deep/er/a b+c%20.txt", text)
		m.has(t, "data/empty", nil)
		if _, err := m.Mount(t.Context(), opened(t, "s3://inputs/single.json", cfg), m.root, "one.json"); err != nil {
			t.Fatal(err)
		}
		m.has(t, "one.json", text)
		if _, err := m.Mount(t.Context(), opened(t, "s3://inputs", cfg), m.root, "all"); err != nil {
			t.Fatal(err)
		}
		m.has(t, "all/set/shard-0", shard)
	}

	refusedBy(t, "s3://inputs/nothing", cfg, "there is nothing", "correct the name")
	refusedBy(t, "s3://other-bucket/x", cfg, "listing s3://other-bucket", "correct")
	refusedBy(t, "s3://inputs/set", OpenConfig{Getenv: env("AWS_ENDPOINT_URL", server.URL)}, "403", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	wrong := OpenConfig{Getenv: env("AWS_ENDPOINT_URL", server.URL, "AWS_ACCESS_KEY_ID", server.Access, "AWS_SECRET_ACCESS_KEY", "wrong")}
	refusedBy(t, "s3://inputs/set", wrong, "403", "credentials that may read it")

	// An object that is replaced between the list and the fetch is not mixed with its successor.
	r := opened(t, "s3://inputs/set/shard-0", cfg)
	files, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put("set/shard-0", content(2, partSize+1234))
	if _, err := r.Open(t.Context(), files[0], partSize, 1234); !errors.Is(err, errChanged) {
		t.Errorf("a part of a successor: %v", err)
	}
	// Google's storage speaks the same protocol, with keys of its own.
	gs := OpenConfig{Getenv: env("GS_ENDPOINT_URL", server.URL, "GS_ACCESS_KEY_ID", server.Access, "GS_SECRET_ACCESS_KEY", server.Secret)}
	m := newMachine(t, nil)
	if _, err := m.Mount(t.Context(), opened(t, "gs://inputs/settle", gs), m.root, "g"); err != nil {
		t.Fatal(err)
	}
	m.has(t, "g", text)
}

func TestAnEndpointThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for _, e := range []string{"example.org", "ftp://example.org", "https://u:p@example.org", "https://example.org/x"} {
		s, err := Parse("s3://bucket/x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(s, OpenConfig{Getenv: env("AWS_ENDPOINT_URL", e)}); err == nil {
			t.Errorf("%s is taken", e)
		}
	}
}

// website serves files over TLS.
func website(t *testing.T, h http.HandlerFunc) (string, OpenConfig) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return s.URL, OpenConfig{Transport: s.Client().Transport, Stall: 2 * time.Second}
}

func TestPagesOfTheWeb(t *testing.T) {
	t.Parallel()
	data := content(1, 2*partSize+99)
	modified := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name   string
		serve  http.HandlerFunc
		cached bool
	}{
		{"with an ETag and in parts", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(data))
		}, true},
		{"with a date", func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "x", modified, bytes.NewReader(data))
		}, true},
		{"that knows no parts", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			_, _ = w.Write(data)
		}, true},
		{"that says neither size nor version", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(struct{ io.Writer }{w}, bytes.NewReader(data))
		}, false},
		{"behind another address", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/file.bin" {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
				return
			}
			w.Header().Set("ETag", `"v1"`)
			http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(data))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url, cfg := website(t, tc.serve)
			dir := t.TempDir()
			for i := range 2 {
				m := newMachine(t, withCache(t, dir, nil))
				got, err := m.Mount(t.Context(), opened(t, url+"/file.bin", cfg), m.root, "in/file.bin")
				if err != nil || (got.Cached > 0) != (tc.cached && i == 1) {
					t.Fatalf("Mount = %+v, %v", got, err)
				}
				m.has(t, "in/file.bin", data)
			}
		})
	}
}

func TestAnswersOfTheWebThatEndIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, say, remedy string
		serve             http.HandlerFunc
	}{
		{"not there", "no such thing (404)", "correct the name", http.NotFound},
		{"not allowed", "403", "credentials", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }},
		{"leads to http", "leads to http", "stays with https", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/x", http.StatusFound)
		}},
	} {
		url, cfg := website(t, tc.serve)
		refusedBy(t, url+"/x", cfg, tc.say, tc.remedy)
	}
}

func TestAPageThatChangesIsFetchedAnewAndNeverMixed(t *testing.T) {
	t.Parallel()
	old, young := content(1, 3*partSize), content(2, 3*partSize)
	var asked atomic.Int32
	url, cfg := website(t, func(w http.ResponseWriter, r *http.Request) {
		data, tag := old, `"1"`
		if asked.Add(1) > 3 {
			data, tag = young, `"2"`
		}
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(data))
	})
	m := newMachine(t, func(c *Config) { c.Workers = 1 })
	r := opened(t, url+"/x", cfg)
	if _, err := m.Mount(t.Context(), r, m.root, "x"); !errors.Is(err, errChanged) {
		t.Fatalf("Mount = %v", err)
	}
	if _, err := m.Mount(t.Context(), r, m.root, "x"); err != nil {
		t.Fatal(err)
	}
	m.has(t, "x", young)
}

func TestAPageThatIsCutIsAskedForTheRest(t *testing.T) {
	t.Parallel()
	data := content(1, 3*partSize)
	var asked atomic.Int32
	url, cfg := website(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		switch asked.Add(1) {
		case 3:
			w.Header().Set("Content-Length", fmt.Sprint(partSize))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", partSize, 2*partSize-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(data[:1000])
			panic(http.ErrAbortHandler)
		case 4:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(data))
	})
	m := newMachine(t, func(c *Config) { c.Workers = 1 })
	if _, err := m.Mount(t.Context(), opened(t, url+"/x", cfg), m.root, "x"); err != nil {
		t.Fatal(err)
	}
	m.has(t, "x", data)
	if n := asked.Load(); n != 6 {
		t.Errorf("%d requests: want one to look, three for the parts, and two again", n)
	}
}
