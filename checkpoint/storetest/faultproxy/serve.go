package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"time"
)

// errCut ends a body where the plan cuts it.
var errCut = errors.New("cut by plan")

// cut ends the connection that is being served.
func cut() { panic(http.ErrAbortHandler) }

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// answer is one that was given.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	f := p.decide(r)
	if f.Delay > 0 && !wait(r.Context(), f.Delay) {
		cut()
	}
	if f.Status != 0 {
		_, _ = io.Copy(io.Discard, r.Body) // a service reads what it will not take
		give(w, &answer{f.Status, f.Header, []byte(f.Body)})
		return
	}
	if old := p.before(r); f.Stale && old != nil {
		give(w, old)
		return
	}
	resp, err := p.forward(r, f)
	if err != nil || f.Lose {
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		cut()
	}
	defer resp.Body.Close()
	p.pass(w, r, resp, f)
}

// forward asks the service.
func (p *Proxy) forward(r *http.Request, f Fault) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = p.target.Scheme, p.target.Host
	out.RequestURI = ""
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // or one is added
	}
	out.Body = nil
	if r.ContentLength != 0 {
		out.Body = &body{ctx: r.Context(), r: r.Body, cut: f.CutIn, flip: f.FlipIn, rate: f.Rate}
	} else if f.CutIn > 0 {
		return nil, errCut
	}
	return p.out.RoundTrip(out)
}

// pass gives the service's answer to the store.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, resp *http.Response, f Fault) {
	maps.Copy(w.Header(), resp.Header)
	if p.cfg.Verb(r) == List {
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			cut()
		}
		p.keep(r, &answer{resp.StatusCode, resp.Header.Clone(), data})
		resp.Body = io.NopCloser(bytes.NewReader(data))
	}
	w.WriteHeader(resp.StatusCode)
	if r.Method == http.MethodHead {
		return
	}
	in := &body{ctx: r.Context(), r: resp.Body, cut: f.CutOut, flip: f.FlipOut, rate: f.Rate}
	_, err := io.Copy(flushing{w, http.NewResponseController(w)}, in)
	if err != nil {
		cut()
	}
}

func (p *Proxy) before(r *http.Request) *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.old[key(r)]
}

func (p *Proxy) keep(r *http.Request, a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.old[key(r)] = a
}

func give(w http.ResponseWriter, a *answer) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // whoever asked may have left
}

// flushing sends what it is given at once.
type flushing struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	return n, errors.Join(err, f.c.Flush())
}

// body is a body on its way.
type body struct {
	ctx       context.Context
	r         io.Reader
	cut, flip int64
	rate      int
	at        int64 // bytes passed
}

func (b *body) Read(p []byte) (int, error) {
	if b.cut > 0 {
		if b.at == b.cut-1 {
			return 0, errCut
		}
		p = p[:min(int64(len(p)), b.cut-1-b.at)]
	}
	if b.rate > 0 {
		p = p[:min(len(p), max(b.rate/20, 1))]
		if !wait(b.ctx, time.Second*time.Duration(len(p))/time.Duration(b.rate)) {
			return 0, b.ctx.Err()
		}
	}
	n, err := b.r.Read(p)
	if bit := b.flip - 1 - 8*b.at; b.flip > 0 && bit >= 0 && bit < 8*int64(n) {
		p[bit/8] ^= 1 << (bit % 8)
	}
	b.at += int64(n)
	return n, err
}

func (b *body) Close() error { return nil }

// wait is false when the context ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
