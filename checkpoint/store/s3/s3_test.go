package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/s3"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
)

// open opens a store in a new bucket; change may alter its configuration.
func open(t *testing.T, server *s3server.Server, change ...func(*s3.Config)) *s3.Store {
	t.Helper()
	cfg := s3.Config{Bucket: server.Bucket(t), Endpoint: server.URL, Access: server.Access, Secret: server.Secret}
	for _, c := range change {
		c(&cfg)
	}
	s, err := s3.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t)
	cfg := storetest.Config{
		Column: "s3",
		Open:   func(t *testing.T) checkpoint.Store { return open(t, server) },
		Faulty: func(t *testing.T) (checkpoint.Store, *faultproxy.Proxy) {
			proxy := faultproxy.Start(t, faultproxy.Config{Target: server.URL})
			return open(t, server, func(c *s3.Config) { c.Endpoint = proxy.URL }), proxy
		},
		Without: map[storetest.Feature]string{},
	}
	full, why := s3server.StartFull(t)
	if cfg.Full = func(t *testing.T) checkpoint.Store { return open(t, full, func(c *s3.Config) { c.Bucket = "full" }) }; why != "" {
		cfg.Full, cfg.Without[storetest.Filling] = nil, why
	}
	storetest.Check(t, cfg)
}

func TestConformanceUnconditional(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t)
	const why = "this service is taken for one without conditional writes"
	storetest.Check(t, storetest.Config{
		Column: "s3 unconditional, under a prefix",
		Open: func(t *testing.T) checkpoint.Store {
			return open(t, server, func(c *s3.Config) { c.Unconditional, c.Prefix = true, "some/prefix" })
		},
		Without: map[storetest.Feature]string{storetest.OneWinner: why, storetest.SignedCreates: why, storetest.SignedHeaders: why,
			storetest.Faults: "the network is that of column s3", storetest.Filling: "the service is that of column s3"},
	})
}

// TestParts: an object in parts keeps the promises of one in a piece.
func TestParts(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t)
	bucket := server.Bucket(t)
	s := open(t, server, func(c *s3.Config) { c.Bucket, c.Part = bucket, 5<<20 })
	data := storetest.Content(12<<20 + 3)
	size := int64(len(data))
	if err := s.Put(t.Context(), "v1/a", bytes.NewReader(data), size); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), "v1/a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if err := s.Put(t.Context(), "v1/a", bytes.NewReader(data), size); !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("second Put = %v, want ErrExists", err)
	}
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		r    io.Reader
		want error
	}{
		"v1/short":    {bytes.NewReader(data[:size-1]), checkpoint.ErrSize},
		"v1/long":     {io.MultiReader(bytes.NewReader(data), strings.NewReader("x")), checkpoint.ErrSize},
		"v1/midway":   {io.MultiReader(bytes.NewReader(data[:7<<20]), iotest.ErrReader(broken)), broken},
		"v1/boundary": {io.MultiReader(bytes.NewReader(data[:5<<20]), iotest.ErrReader(broken)), broken},
	} {
		if err := s.Put(t.Context(), name, tc.r, size); !errors.Is(err, tc.want) {
			t.Errorf("Put of %s = %v, want %v", name, err, tc.want)
		}
		if _, err := s.Stat(t.Context(), name); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("Stat of %s = %v, want ErrNotFound", name, err)
		}
	}
	client, err := minio.New(strings.TrimPrefix(server.URL, "http://"), &minio.Options{Creds: credentials.NewStaticV4(server.Access, server.Secret, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	for left := range client.ListIncompleteUploads(t.Context(), bucket, "", true) {
		t.Errorf("parts are left: %+v", left)
	}
}

// fake is a service of one answer.
func fake(t *testing.T, answer http.HandlerFunc) *s3.Store {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	s, err := s3.Open(s3.Config{Bucket: "bucket", Endpoint: server.URL, Access: "the-access-key", Secret: "the-secret-key", Stall: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		status int
		code   string
		want   error
		word   string
	}{
		{"a wrong secret", 403, "SignatureDoesNotMatch", checkpoint.ErrRefused, "secret key"},
		{"an unknown key", 403, "InvalidAccessKeyId", checkpoint.ErrRefused, "access key"},
		{"a missing right", 403, "AccessDenied", checkpoint.ErrRefused, "rights"},
		{"a wrong clock", 403, "RequestTimeTooSkewed", checkpoint.ErrRefused, "clock"},
		{"a missing bucket is not a missing object", 404, "NoSuchBucket", checkpoint.ErrRefused, "bucket"},
		{"another region", 400, "AuthorizationHeaderMalformed", checkpoint.ErrRefused, "region"},
		{"another region, by redirection", 301, "PermanentRedirect", checkpoint.ErrRefused, "region"},
		{"a web page", 405, "", checkpoint.ErrRefused, "object store"},
		{"a quota", 403, "QuotaExceeded", checkpoint.ErrNoSpace, "quota"},
		{"a full disk", 507, "XMinioStorageFull", checkpoint.ErrNoSpace, "enlarge"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := fake(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>no</Message></Error>`, tc.code)
			})
			err := s.Put(t.Context(), "v1/a", strings.NewReader("x"), 1)
			if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.word) || strings.Contains(fmt.Sprint(err), "the-") {
				t.Errorf("Put = %v, want %v, the word %q and no key", err, tc.want, tc.word)
			}
			_, err = s.Get(t.Context(), "v1/a")
			if !errors.Is(err, tc.want) {
				t.Errorf("Get = %v, want %v", err, tc.want)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t)
	s := open(t, server)
	if err := s.Probe(t.Context(), "v1/probe"); err != nil {
		t.Errorf("Probe of a service that keeps its promises = %v", err)
	}
	if found, err := s.List(t.Context(), ""); err != nil || len(found) > 0 {
		t.Errorf("Probe leaves %v, %v", found, err)
	}
	missing := open(t, server, func(c *s3.Config) { c.Bucket = "no-such-bucket" })
	if err := missing.Probe(t.Context(), "v1/probe"); !errors.Is(err, checkpoint.ErrRefused) || !strings.Contains(fmt.Sprint(err), "make the bucket") {
		t.Errorf("Probe of a bucket that is not there = %v", err)
	}
	ignorant := fake(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	if err := ignorant.Probe(t.Context(), "v1/probe"); err == nil || !strings.Contains(err.Error(), "unconditional") {
		t.Errorf("Probe of a service that overwrites = %v", err)
	}
}

// TestStall: a service that takes a request and says nothing is left.
func TestStall(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	s := fake(t, func(http.ResponseWriter, *http.Request) { <-free })
	t.Cleanup(func() { close(free) })
	for call, err := range map[string]error{
		"Put":  s.Put(t.Context(), "v1/a", strings.NewReader("x"), 1),
		"Stat": func() error { _, err := s.Stat(t.Context(), "v1/a"); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "nothing moves") || errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("%s of a silent service = %v", call, err)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]s3.Config{
		"no bucket":                {},
		"a prefix with a slash":    {Bucket: "b", Prefix: "/p"},
		"a prefix that hides":      {Bucket: "b", Prefix: ".p"},
		"half a key":               {Bucket: "b", Access: "a"},
		"an endpoint without http": {Bucket: "b", Endpoint: "s3.example.com"},
		"an endpoint with a path":  {Bucket: "b", Endpoint: "https://s3.example.com/b"},
		"an endpoint with a key":   {Bucket: "b", Endpoint: "https://a:b@s3.example.com"},
		"parts too small":          {Bucket: "b", Part: 1},
		"a negative stall":         {Bucket: "b", Stall: -1},
	} {
		if _, err := s3.Open(cfg); err == nil {
			t.Errorf("Open accepted %s", name)
		}
	}
	for name, cfg := range map[string]s3.Config{
		"Amazon by region":        {Bucket: "b", Region: "eu-central-1"},
		"keys from the chain":     {Bucket: "b", Endpoint: "https://s3.example.com"},
		"an endpoint with a port": {Bucket: "b", Endpoint: "http://127.0.0.1:7070/"},
	} {
		if _, err := s3.Open(cfg); err != nil {
			t.Errorf("Open refused %s: %v", name, err)
		}
	}
}
