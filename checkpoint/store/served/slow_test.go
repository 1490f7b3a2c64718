package served_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/store/served"
)

// TestBrokenGet: an object that breaks while it is given cannot be taken for whole.
func TestBrokenGet(t *testing.T) {
	t.Parallel()
	store := mem.New(mem.Config{Plan: func(op mem.Op) mem.Fault {
		if op.Verb == mem.Get {
			return mem.Fault{Bend: mem.Torn(3)}
		}
		return mem.Fault{}
	}})
	must(t, store.Put(t.Context(), "v1/a", strings.NewReader("content"), 7))
	g := serve(t, store, served.Config{}, nil)
	a, err := g.Sign(t.Context(), checkpoint.VerbGet, "v1/a", 0, time.Minute)
	must(t, err)
	resp, err := http.Get(a.URL)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("it was taken for whole")
	}
}

// TestSlowMachine: one that stands still in the middle of a body is left, and
// what it began is not there.
func TestSlowMachine(t *testing.T) {
	t.Parallel()
	store := onDisk(t)
	g := serve(t, store, served.Config{Stall: 50 * time.Millisecond}, nil)
	a, err := g.Sign(t.Context(), checkpoint.VerbPut, "v1/a", 1000, time.Minute)
	must(t, err)
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	must(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf", strings.TrimPrefix(a.URL, g.url))
	must(t, err)
	must(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
		t.Errorf("got %q, %v; want to be left", got, err)
	}
	if _, err := store.Stat(t.Context(), "v1/a"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("Stat = %v", err)
	}
}

// TestCrowd: more requests than it takes are told to come again.
func TestCrowd(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	inside := make(chan struct{}, 1)
	store := mem.New(mem.Config{
		Plan:  func(mem.Op) mem.Fault { return mem.Fault{Delay: 1} },
		Sleep: func(context.Context, time.Duration) error { inside <- struct{}{}; <-held; return nil },
	})
	g := serve(t, store, served.Config{MaxAtOnce: 1}, nil)
	a, err := g.Sign(t.Context(), checkpoint.VerbHead, "v1/a", 0, time.Minute)
	must(t, err)
	done := make(chan int)
	go func() {
		resp, err := http.Head(a.URL)
		if err != nil {
			done <- 0
			return
		}
		_ = resp.Body.Close()
		done <- resp.StatusCode
	}()
	<-inside
	resp, _ := do(t, a.Method, a.URL, nil, nil)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("the second got %s", resp.Status)
	}
	close(held)
	if status := <-done; status != http.StatusNotFound {
		t.Errorf("the first got %d", status)
	}
}

// TestSlowStore: a store that takes longer for an object than a machine may for
// a byte is waited for.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	const stall = 50 * time.Millisecond
	g := serve(t, lazily{onDisk(t), 4 * stall}, served.Config{Stall: stall}, nil)
	a, err := g.Sign(t.Context(), checkpoint.VerbPut, "v1/a", 5, time.Minute)
	must(t, err)
	if resp, told := do(t, a.Method, a.URL, strings.NewReader("hello"), nil); resp.StatusCode != http.StatusCreated {
		t.Errorf("put = %s %s", resp.Status, told)
	}
}

// lazily takes a time between the end of a body and the put.
type lazily struct {
	checkpoint.Store
	d time.Duration
}

func (l lazily) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("after its end it gives %w", err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(l.d):
	}
	return l.Store.Put(ctx, name, bytes.NewReader(data), size)
}
