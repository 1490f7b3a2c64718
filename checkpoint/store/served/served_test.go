package served_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/store/served"
	"github.com/spotferry/spotferry/checkpoint/store/signed"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gateway is a store that signs, and grants what it signs.
type gateway struct {
	checkpoint.Store
	*served.Service
	url string
}

func (g gateway) Grant(ctx context.Context, verb checkpoint.Verb, objects []checkpoint.Object) ([]checkpoint.Access, error) {
	var all []checkpoint.Access
	for _, o := range objects {
		a, err := g.Sign(ctx, verb, o.Name, o.Size, time.Hour)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

func secret() []byte { return bytes.Repeat([]byte("s"), 32) }

// serve serves a store; through, if not nil, returns the URL that machines are told.
func serve(t *testing.T, store checkpoint.Store, cfg served.Config, through func(string) string) gateway {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	url := "http://" + server.Listener.Addr().String()
	g := gateway{Store: store, url: url}
	if through != nil {
		url = through(url)
	}
	cfg.Store, cfg.URL, cfg.Secret = store, url+"/objects", secret()
	var err error
	g.Service, err = served.New(cfg)
	must(t, err)
	server.Config = g.Service.Server()
	server.Start()
	t.Cleanup(server.Close)
	return g
}

func onDisk(t *testing.T) checkpoint.Store {
	t.Helper()
	s, err := dir.Open(dir.Config{Path: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestSigning: what a signature is good for, by the contract of signers.
func TestSigning(t *testing.T) {
	storetest.Check(t, storetest.Config{
		Column: "served",
		Open:   func(t *testing.T) checkpoint.Store { return serve(t, onDisk(t), served.Config{}, nil) },
		Without: map[storetest.Feature]string{
			storetest.SignedHeaders: "no header is needed: all is in the URL",
		},
	})
}

// TestSignedStore holds what machines have against the contract.
func TestSignedStore(t *testing.T) {
	machine := func(t *testing.T, g gateway) checkpoint.Store {
		s, err := signed.Open(signed.Config{Granter: g})
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	storetest.Check(t, storetest.Config{
		Column: "signed (served)",
		Open:   func(t *testing.T) checkpoint.Store { return machine(t, serve(t, onDisk(t), served.Config{}, nil)) },
		Faulty: func(t *testing.T) (checkpoint.Store, *faultproxy.Proxy) {
			var proxy *faultproxy.Proxy
			g := serve(t, onDisk(t), served.Config{}, func(url string) string {
				proxy = faultproxy.Start(t, faultproxy.Config{Target: url})
				return proxy.URL
			})
			return machine(t, g), proxy
		},
		Without: map[storetest.Feature]string{
			storetest.Lists:      "a machine has no right to list",
			storetest.Deletes:    "a machine has no right to delete",
			storetest.ChecksPuts: "the engine's hash finds it",
		},
	})
}

// do sends a request as it is told.
func do(t *testing.T, method, url string, body io.Reader, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	must(t, err)
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	data, err := io.ReadAll(resp.Body)
	must(t, errors.Join(err, resp.Body.Close()))
	return resp, string(data)
}

// TestForged: what was not signed is refused before anything is looked at.
func TestForged(t *testing.T) {
	t.Parallel()
	touched := false
	store := mem.New(mem.Config{Plan: func(mem.Op) mem.Fault { touched = true; return mem.Fault{} }})
	g := serve(t, store, served.Config{}, nil)
	a, err := g.Sign(t.Context(), checkpoint.VerbPut, "v1/a", 5, time.Minute)
	must(t, err)
	for name, url := range map[string]string{
		"nothing signed":    g.url + "/objects/v1/a",
		"the root":          g.url + "/",
		"another size":      strings.Replace(a.URL, "size=5", "size=6", 1),
		"no size":           strings.Replace(a.URL, "&size=5", "", 1),
		"a later end":       strings.Replace(a.URL, "until=", "until=9", 1),
		"another verb":      strings.Replace(a.URL, "verb=put", "verb=get", 1),
		"another name":      strings.Replace(a.URL, "/v1/a", "/v1/b", 1),
		"a name above":      strings.Replace(a.URL, "/v1/a", "/v1/../v1/a", 1),
		"half a MAC":        a.URL[:strings.Index(a.URL, "mac=")+20],
		"a MAC that is odd": strings.Replace(a.URL, "mac=", "mac=zz", 1),
		"a list":            g.url + "/objects/?list-type=2",
		"outside":           strings.Replace(a.URL, "/objects/", "/", 1),
	} {
		if resp, _ := do(t, http.MethodPut, url, strings.NewReader("other"), nil); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s, want 403", name, resp.Status)
		}
	}
	for _, method := range []string{"GET", "HEAD", "DELETE", "POST", "PATCH", "OPTIONS", "PROPFIND"} {
		if resp, _ := do(t, method, a.URL, nil, nil); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s, want 403", method, resp.Status)
		}
	}
	if touched {
		t.Error("the store was asked")
	}
}

// TestErrorsByMeaning: what machines are told of a store's trouble, and what not.
func TestErrorsByMeaning(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  error
		put  int
		get  int
	}{
		{"full", checkpoint.ErrNoSpace, 507, 507},
		{"damaged", checkpoint.ErrCorrupt, 500, 500},
		{"of its own", errors.New("disk /dev/secret is on fire"), 500, 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store := mem.New(mem.Config{Plan: func(mem.Op) mem.Fault { return mem.Fault{Before: tc.err} }})
			g := serve(t, store, served.Config{}, nil)
			for verb, want := range map[checkpoint.Verb]int{checkpoint.VerbPut: tc.put, checkpoint.VerbGet: tc.get, checkpoint.VerbHead: tc.get} {
				a, err := g.Sign(t.Context(), verb, "v1/a", 5, time.Minute)
				must(t, err)
				var body io.Reader
				if verb == checkpoint.VerbPut {
					body = strings.NewReader("other")
				}
				resp, told := do(t, a.Method, a.URL, body, nil)
				if resp.StatusCode != want || strings.Contains(told, "secret") {
					t.Errorf("%s: %s %q, want %d", verb, resp.Status, told, want)
				}
			}
		})
	}
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	good := served.Config{Store: mem.New(mem.Config{}), URL: "https://gateway/objects", Secret: secret()}
	for name, change := range map[string]func(*served.Config){
		"no store":        func(c *served.Config) { c.Store = nil },
		"no URL":          func(c *served.Config) { c.URL = "" },
		"a query":         func(c *served.Config) { c.URL += "?a=b" },
		"a short secret":  func(c *served.Config) { c.Secret = c.Secret[:31] },
		"a negative size": func(c *served.Config) { c.MaxObject = -1 },
	} {
		cfg := good
		change(&cfg)
		if _, err := served.New(cfg); err == nil {
			t.Errorf("New accepted %s", name)
		}
	}
	s, err := served.New(good)
	must(t, err)
	if _, err := s.Sign(t.Context(), checkpoint.VerbPut, "v1/a", 65<<20, time.Minute); !errors.Is(err, checkpoint.ErrTooLarge) {
		t.Errorf("Sign of 65 MiB = %v, want ErrTooLarge", err)
	}
}
