package input

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fakeHub answers as the hub does: a list in pages, and addresses of files that
// lead to another host.
type fakeHub struct {
	*httptest.Server
	cdn      *httptest.Server
	resolved atomic.Int32
	leaked   atomic.Bool
}

const commit = "0123456789abcdef0123456789abcdef01234567"

func newHub(t *testing.T, token string, weights, config []byte) *fakeHub {
	t.Helper()
	h := &fakeHub{}
	h.cdn = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			h.leaked.Store(true)
		}
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(weights))
	}))
	t.Cleanup(h.cdn.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/models/org/tiny/revision/{rev}", func(w http.ResponseWriter, r *http.Request) {
		if rev := r.PathValue("rev"); rev != "main" && rev != "refs/pr/1" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"sha": commit})
	})
	mux.HandleFunc("GET /api/models/org/tiny/tree/"+commit, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=2>; rel="next"`, h.URL, r.URL.Path))
			_ = json.NewEncoder(w).Encode([]any{
				map[string]any{"type": "directory", "path": "onnx", "size": 0, "oid": commit},
				map[string]any{"type": "file", "path": "config.json", "size": len(config), "oid": fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(config)), config...)))},
			})
			return
		}
		_ = json.NewEncoder(w).Encode([]any{
			map[string]any{"type": "file", "path": "onnx/model.safetensors", "size": len(weights), "oid": commit,
				"lfs": map[string]any{"oid": fmt.Sprintf("%x", sha256.Sum256(weights)), "size": len(weights), "pointerSize": 134}},
		})
	})
	mux.HandleFunc("GET /org/tiny/resolve/"+commit+"/{path...}", func(w http.ResponseWriter, r *http.Request) {
		h.resolved.Add(1)
		if r.PathValue("path") == "config.json" {
			http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(config))
			return
		}
		http.Redirect(w, r, h.cdn.URL+"/signed?X=1", http.StatusFound)
	})
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

func TestModelsOfTheHub(t *testing.T) {
	t.Parallel()
	weights, config := content(1, 3*partSize), []byte(`{"a": 1}`)
	h := newHub(t, "secret-token", weights, config)
	cfg := OpenConfig{Getenv: env("HF_ENDPOINT", h.URL+"/", "HF_TOKEN", "secret-token\n")}
	dir := t.TempDir()
	for i, source := range []string{"hf://org/tiny", "hf://org/tiny@main"} {
		bend := withCache(t, dir, nil)
		m := newMachine(t, func(c *Config) { bend(c); c.Workers = 1 })
		got, err := m.Mount(t.Context(), opened(t, source, cfg), m.root, "model")
		if err != nil || got.Files != 2 || (got.Cached == got.Bytes) != (i == 1) {
			t.Fatalf("Mount = %+v, %v", got, err)
		}
		m.has(t, "model/config.json", config)
		m.has(t, "model/onnx/model.safetensors", weights)
	}
	if n := h.resolved.Load(); n != 2 {
		t.Errorf("the hub was asked %d times for two files", n)
	}
	if h.leaked.Load() {
		t.Error("the token went to another host")
	}
	m := newMachine(t, nil)
	if _, err := m.Mount(t.Context(), opened(t, "hf://org/tiny/config.json", cfg), m.root, "c"); err != nil {
		t.Fatal(err)
	}
	m.has(t, "c", config)
	if _, err := m.Mount(t.Context(), opened(t, "hf://org/tiny@main/onnx", cfg), m.root, "o"); err != nil {
		t.Fatal(err)
	}
	m.has(t, "o/model.safetensors", weights)

	refusedBy(t, "hf://org/tiny", OpenConfig{Getenv: env("HF_ENDPOINT", h.URL)}, "401", "HF_TOKEN as a secret")
	refusedBy(t, "hf://org/tiny@v9", cfg, "404", "correct the name")
	refusedBy(t, "hf://org/tiny/nothing", cfg, "there is nothing", "")
}

func TestWeightsThatAreNotTheOnesListedAreRefused(t *testing.T) {
	t.Parallel()
	weights := content(1, 1000)
	h := newHub(t, "", weights, []byte("{}"))
	h.cdn.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(content(2, 1000)))
	})
	m := newMachine(t, nil)
	r := opened(t, "hf://org/tiny", OpenConfig{Getenv: env("HF_ENDPOINT", h.URL)})
	for range 2 {
		if _, err := m.Mount(t.Context(), r, m.root, "x"); err == nil || !strings.Contains(err.Error(), "came with sha256:") {
			t.Errorf("Mount = %v", err)
		}
	}
}
