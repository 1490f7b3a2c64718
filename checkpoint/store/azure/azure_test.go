package azure_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/azure"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
)

// without is what shared access signatures leave to the gateway, and what
// Azurite does in its own way.
func without() map[storetest.Feature]string {
	return map[storetest.Feature]string{
		storetest.SignedHeaders: "no header is signed; that nothing is overwritten is in the permission, see cannotOverwrite",
		storetest.SignedSizes:   "no size is signed; the gateway looks at sizes before it commits",
		storetest.SaysTaken:     "a right to create that meets a blob is 403, with a code of its own on Azure and a general one on Azurite",
		storetest.RangeEnds:     "Azurite gives an empty 206",
		storetest.ChecksPuts:    "Azurite does check, and calls it InvalidOperation; see damagedPut",
	}
}

// TestAzurite runs what needs no more than a plain one on a single server: it
// takes seconds to start.
func TestAzurite(t *testing.T) {
	e := serve(t)
	for name, test := range map[string]func(*testing.T, *emulator){
		"the store": conformance, "the store of machines": signedStore, "damaged puts": damagedPut,
		"puts cannot overwrite": cannotOverwrite,
	} {
		t.Run(name, func(t *testing.T) { test(t, e) })
	}
}

func conformance(t *testing.T, e *emulator) {
	storetest.Check(t, storetest.Config{
		Column: "azure", Without: without(),
		Open: func(t *testing.T) checkpoint.Store { return e.open(t, "below/here") },
		Faulty: func(t *testing.T) (checkpoint.Store, *faultproxy.Proxy) {
			proxy := faultproxy.Start(t, faultproxy.Config{Target: e.url[:len(e.url)-len("/"+account)]})
			return open(t, azure.Config{Account: account, Key: key, Endpoint: proxy.URL + "/" + account, Container: e.container(t), Prefix: "below/here"}), proxy
		},
	})
}

// damagedPut flips bits on the way in.
func damagedPut(t *testing.T, e *emulator) {
	proxy := faultproxy.Start(t, faultproxy.Config{Target: e.url[:len(e.url)-len("/"+account)]})
	store := open(t, azure.Config{Account: account, Key: key, Endpoint: proxy.URL + "/" + account, Container: e.container(t)})
	for _, bit := range []int64{1, 400_000, 800_000} {
		proxy.Set(faultproxy.On(faultproxy.Put, faultproxy.Fault{FlipIn: bit}))
		if err := store.Put(t.Context(), "v1/a", bytes.NewReader(storetest.Content(100_000)), 100_000); err == nil {
			t.Errorf("bit %d: the put succeeded", bit)
		}
		if _, err := store.Stat(t.Context(), "v1/a"); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("bit %d: Stat = %v", bit, err)
		}
	}
}

// cannotOverwrite: what a machine may not do with the access to a put, whatever
// it leaves out, adds or does instead.
func cannotOverwrite(t *testing.T, e *emulator) {
	store := e.open(t, "")
	must(t, store.Put(t.Context(), "v1/taken", strings.NewReader("first"), 5))
	access, err := store.Sign(t.Context(), checkpoint.VerbPut, "v1/taken", 5, time.Minute)
	must(t, err)
	blob := map[string]string{"x-ms-blob-type": "BlockBlob"}
	for _, tc := range []struct {
		name, method, more string
		header             map[string]string
	}{
		{"the request as it is", "PUT", "", access.Header},
		{"without If-None-Match", "PUT", "", blob},
		{"with an If-Match", "PUT", "", map[string]string{"x-ms-blob-type": "BlockBlob", "If-Match": "*"}},
		{"as an append blob", "PUT", "", map[string]string{"x-ms-blob-type": "AppendBlob"}},
		{"as a page blob", "PUT", "", map[string]string{"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"}},
		{"a list of blocks", "PUT", "&comp=blocklist", nil},
		{"its metadata", "PUT", "&comp=metadata", map[string]string{"x-ms-meta-a": "b"}},
		{"a copy over it", "PUT", "", map[string]string{"x-ms-copy-source": access.URL}},
		{"a deletion", "DELETE", "", nil},
		{"a read", "GET", "", nil},
	} {
		var body io.Reader
		if tc.method == "PUT" {
			body = strings.NewReader("other")
		}
		req, err := http.NewRequestWithContext(t.Context(), tc.method, access.URL+tc.more, body)
		must(t, err)
		for k, v := range tc.header {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		must(t, resp.Body.Close())
		if resp.StatusCode < 400 || resp.StatusCode >= 500 {
			t.Errorf("%s: %s", tc.name, resp.Status)
		}
	}
	r, err := store.Get(t.Context(), "v1/taken")
	must(t, err)
	data, err := io.ReadAll(r)
	if must(t, errors.Join(err, r.Close())); string(data) != "first" {
		t.Errorf("it is %q now", data)
	}
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	good := azure.Config{Account: "a", Container: "c", Key: key}
	for name, change := range map[string]func(*azure.Config){
		"no account":              func(c *azure.Config) { c.Account = "" },
		"a container as a path":   func(c *azure.Config) { c.Container = "a/b" },
		"nobody":                  func(c *azure.Config) { c.Key = "" },
		"two identities":          func(c *azure.Config) { c.Token = token{} },
		"a key that is not one":   func(c *azure.Config) { c.Key = "?" },
		"a prefix with a root":    func(c *azure.Config) { c.Prefix = "/x" },
		"an endpoint like ftp":    func(c *azure.Config) { c.Endpoint = "ftp://host" },
		"an identity in the open": func(c *azure.Config) { c.Key, c.Token, c.Endpoint = "", token{}, "http://host" },
	} {
		cfg := good
		change(&cfg)
		if _, err := azure.Open(cfg); err == nil {
			t.Errorf("Open accepted %s", name)
		}
	}
	if _, err := azure.Open(good); err != nil {
		t.Errorf("Open = %v", err)
	}
}
