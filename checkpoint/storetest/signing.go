package storetest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
)

// life is of signatures that are used at once.
const life = time.Hour

func (c *check) sign(verb checkpoint.Verb, name string, size int64, life time.Duration) checkpoint.Access {
	c.Helper()
	before := time.Now()
	a, err := c.store.(checkpoint.Signer).Sign(c.ctx, verb, name, size, life)
	c.need(err, "Sign(%s %s)", verb, name)
	ends := before.Add(life)
	c.want(a.Until.After(before) && !a.Until.After(ends.Add(time.Minute)), "the signature lasts until %v, asked for %v", a.Until, ends)
	return a
}

// use sends the request that an access is, as any HTTP client would, and tells
// the status and what came with it. A service may refuse a body before it has
// read it, and close: the refusal can get lost in that, and is asked for again.
func (c *check) use(a checkpoint.Access, body []byte, header map[string]string) (*http.Response, []byte) {
	c.Helper()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	for try := 0; ; try++ {
		resp, err := client.Do(c.request(a, body, header))
		if err != nil {
			if try < 20 && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
				continue
			}
			c.Fatalf("using the access: %v", err)
		}
		got, err := io.ReadAll(resp.Body)
		c.need(errors.Join(err, resp.Body.Close()), "reading the answer")
		return resp, got
	}
}

func (c *check) request(a checkpoint.Access, body []byte, header map[string]string) *http.Request {
	c.Helper()
	var r io.Reader
	if a.Method == http.MethodPut {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(c.ctx, a.Method, a.URL, r)
	c.need(err, "making the request")
	for _, h := range []map[string]string{a.Header, header} {
		for k, v := range h {
			req.Header.Set(k, v)
		}
	}
	return req
}

func (c *check) status(got *http.Response, what string, want ...int) {
	c.Helper()
	c.want(slices.Contains(want, got.StatusCode), "%s: %s, want %v", what, got.Status, want)
}

// refused wants a request to have had no effect that it could have had.
func (c *check) refused(got *http.Response, what string) {
	c.Helper()
	c.status(got, what, 400, 401, 403, 405, 409, 411, 412)
}

// taken are the statuses that say that a name is taken.
func (c *check) taken() []int {
	if !c.can(SaysTaken) {
		return []int{403, 409, 412}
	}
	return []int{409, 412}
}

func signedPut(c *check) {
	for _, n := range []int{0, 7, 3<<20 + 7} {
		name, data := "v1/signed/"+strconv.Itoa(n), Content(n)
		a := c.sign(checkpoint.VerbPut, name, int64(n), life)
		resp, _ := c.use(a, data, nil)
		c.status(resp, "the first put", 200, 201)
		c.holds(name, data)
		other := bytes.Repeat([]byte{'x'}, n)
		resp, _ = c.use(a, other, nil)
		c.status(resp, "the second put", c.taken()...)
		resp, _ = c.use(c.sign(checkpoint.VerbPut, name, int64(n), life), other, nil)
		c.status(resp, "a put by another signature", c.taken()...)
		c.holds(name, data)
	}
	for _, name := range odd[:12] {
		data := []byte(name)
		resp, _ := c.use(c.sign(checkpoint.VerbPut, name, int64(len(data)), life), data, nil)
		c.status(resp, "a put of "+name, 200, 201)
		c.holds(name, data)
	}
}

func signedSize(c *check) {
	for _, n := range []int{0, 99, 101, 1 << 20} {
		a := c.sign(checkpoint.VerbPut, "v1/sized", 100, life)
		delete(a.Header, "Content-Length") // the client's own says what it sends
		resp, _ := c.use(a, Content(n), nil)
		c.refused(resp, "a put of "+strconv.Itoa(n)+" bytes where 100 were signed")
		c.absent("v1/sized")
	}
}

func signedHeaders(c *check) {
	a := c.sign(checkpoint.VerbPut, "v1/bare", 4, life)
	for k := range a.Header {
		if k == "Content-Length" {
			continue // HTTP sends it in any case
		}
		bare := a
		bare.Header = maps.Clone(a.Header)
		delete(bare.Header, k)
		resp, _ := c.use(bare, []byte("bare"), nil)
		c.refused(resp, "a put without "+k)
		c.absent("v1/bare")
	}
}

func signedGet(c *check) {
	data := Content(200_000)
	c.put("v1/a", data)
	a := c.sign(checkpoint.VerbGet, "v1/a", 0, life)
	resp, got := c.use(a, nil, nil)
	c.status(resp, "a get", 200)
	c.want(bytes.Equal(got, data), "a get gave %d bytes, not the object", len(got))
	resp, got = c.use(a, nil, map[string]string{"Range": "bytes=1000-65535"})
	c.status(resp, "a range", 206)
	c.want(bytes.Equal(got, data[1000:65536]), "a range gave %d bytes, not those", len(got))
	c.want(strings.HasSuffix(resp.Header.Get("Content-Range"), "/200000"), "Content-Range is %q", resp.Header.Get("Content-Range"))
	if c.can(RangeEnds) {
		resp, _ = c.use(a, nil, map[string]string{"Range": "bytes=200000-"})
		c.status(resp, "a range behind the end", 416)
	}
	resp, _ = c.use(c.sign(checkpoint.VerbGet, "v1/none", 0, life), nil, nil)
	c.status(resp, "a get of nothing", 404)
}

func signedHead(c *check) {
	c.put("v1/a", Content(12_345))
	resp, _ := c.use(c.sign(checkpoint.VerbHead, "v1/a", 0, life), nil, nil)
	c.status(resp, "a head", 200)
	c.want(resp.ContentLength == 12_345, "a head says %d bytes", resp.ContentLength)
	resp, _ = c.use(c.sign(checkpoint.VerbHead, "v1/none", 0, life), nil, nil)
	c.status(resp, "a head of nothing", 404)
}

func signedElse(c *check) {
	c.put("v1/aa", []byte("aa"))
	c.put("v1/bb", []byte("bb"))
	for _, verb := range []checkpoint.Verb{checkpoint.VerbPut, checkpoint.VerbGet, checkpoint.VerbHead} {
		a := c.sign(verb, "v1/aa", 2, life)
		for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodDelete} {
			if method == a.Method || verb == checkpoint.VerbHead && method == http.MethodGet {
				continue // Azure's and Google's right to read is one for both
			}
			other := a
			other.Method = method
			resp, _ := c.use(other, []byte("xx"), nil)
			c.refused(resp, method+" with an access to "+string(verb))
		}
		other := a
		other.URL = strings.Replace(a.URL, "v1/aa", "v1/bb", 1)
		c.want(other.URL != a.URL, "the URL %q does not have the name", a.URL)
		resp, _ := c.use(other, []byte("xx"), nil)
		c.refused(resp, string(verb)+" of another name")
		other.URL = strings.Replace(a.URL, "v1/aa", "v1/cc", 1)
		resp, _ = c.use(other, []byte("xx"), nil)
		c.refused(resp, string(verb)+" of a name that is free")
	}
	c.holds("v1/aa", []byte("aa"))
	c.holds("v1/bb", []byte("bb"))
	c.absent("v1/cc")
}

// signedEnd looks until the signature has ended: it is the service's clock.
func signedEnd(c *check) {
	c.put("v1/a", []byte("a"))
	get := c.sign(checkpoint.VerbGet, "v1/a", 0, time.Second)
	put := c.sign(checkpoint.VerbPut, "v1/late", 1, time.Second)
	deadline := time.Now().Add(20 * time.Second)
	for {
		resp, _ := c.use(get, nil, nil)
		if resp.StatusCode != http.StatusOK || time.Now().After(deadline) {
			c.refused(resp, "a get after the end")
			break
		}
		select {
		case <-c.ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	for !time.Now().After(put.Until.Add(time.Second)) {
		select {
		case <-c.ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	resp, _ := c.use(put, []byte("x"), nil)
	c.refused(resp, "a put after the end")
	c.absent("v1/late")
}

func signedOdd(c *check) {
	signer := c.store.(checkpoint.Signer)
	for _, tc := range []struct {
		what string
		verb checkpoint.Verb
		name string
		size int64
		life time.Duration
	}{
		{"a name that is none", checkpoint.VerbGet, "../a", 0, life},
		{"a verb that is none", "delete", "v1/a", 0, life},
		{"a put of less than nothing", checkpoint.VerbPut, "v1/a", -1, life},
		{"no life", checkpoint.VerbGet, "v1/a", 0, 0},
		{"a life of a month", checkpoint.VerbGet, "v1/a", 0, 31 * 24 * time.Hour},
	} {
		_, err := signer.Sign(c.ctx, tc.verb, tc.name, tc.size, tc.life)
		c.want(err != nil, "Sign of %s succeeded", tc.what)
	}
}
