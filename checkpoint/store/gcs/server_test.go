package gcs_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/store/gcs"
)

const (
	program = "fake-gcs-server"
	install = "go install github.com/fsouza/fake-gcs-server@v1.56.1"
	email   = "gateway@project.iam.gserviceaccount.com"
)

// service is a fake-gcs-server behind a gate, which does to signed requests what
// Google does and that program does not.
type service struct {
	url     string
	key     *rsa.PrivateKey
	file    string       // credentials with that key
	late    atomic.Int64 // nanoseconds by which the gate's clock is ahead
	buckets atomic.Int32
}

func serve(t *testing.T) *service {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not there: %s", program, install)
		}
		t.Skipf("%s is not there: %s", program, install)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	s := &service{key: key, file: credentials(t, key)}
	now := func() time.Time { return time.Now().Add(time.Duration(s.late.Load())) }
	gate := httptest.NewServer(&gate{next: run(t, path), key: &key.PublicKey, now: now})
	t.Cleanup(gate.Close)
	s.url = gate.URL
	return s
}

// run starts the program for one test, and ends it by its process.
func run(t *testing.T, path string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	must(t, l.Close())
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, path, "-scheme", "http", "-host", "127.0.0.1", "-port", strconv.Itoa(port),
		"-backend", "memory", "-public-host", addr, "-log-level", "error")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", program, out.Bytes())
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		resp, err := http.Get("http://" + addr + "/_internal/healthcheck")
		if err == nil {
			must(t, resp.Body.Close())
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: %v", program, err)
		}
		time.Sleep(20 * time.Millisecond) // a child process: there is nothing to wait on
	}
}

// credentials writes a service account's key file.
func credentials(t *testing.T, key *rsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	data, err := json.Marshal(map[string]string{"type": "service_account", "client_email": email, "project_id": "project",
		"private_key_id": "1", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri": "http://127.0.0.1:1/token"})
	must(t, err)
	file := filepath.Join(t.TempDir(), "key.json")
	must(t, os.WriteFile(file, data, 0o600))
	return file
}

// bucket makes one.
func (s *service) bucket(t *testing.T) string {
	t.Helper()
	bucket := fmt.Sprintf("bucket-%d", s.buckets.Add(1))
	resp, err := http.Post(s.url+"/storage/v1/b?project=project", "application/json", strings.NewReader(`{"name":"`+bucket+`"}`))
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("making a bucket: %s", resp.Status)
	}
	return bucket
}

// open opens a store in a bucket of its own.
func (s *service) open(t *testing.T, prefix string) *gcs.Store {
	t.Helper()
	return open(t, gcs.Config{Bucket: s.bucket(t), Prefix: prefix, Credentials: s.file, Endpoint: s.url})
}

func open(t *testing.T, cfg gcs.Config) *gcs.Store {
	t.Helper()
	store, err := gcs.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
