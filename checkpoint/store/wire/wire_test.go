package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

var errBroken = errors.New("the reader broke")

// TestBody reads bodies to their ends: a body that fails must not have given its
// last byte.
func TestBody(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789"), 100)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		r    io.Reader
		size int64
		want error
	}{
		{"exactly", t.Context(), bytes.NewReader(data), 1000, nil},
		{"exactly, byte by byte", t.Context(), iotest.OneByteReader(bytes.NewReader(data)), 1000, nil},
		{"exactly, with the end told at once", t.Context(), iotest.DataErrReader(bytes.NewReader(data)), 1000, nil},
		{"one short", t.Context(), bytes.NewReader(data), 1001, checkpoint.ErrSize},
		{"one long", t.Context(), bytes.NewReader(data), 999, checkpoint.ErrSize},
		{"empty", t.Context(), strings.NewReader(""), 1, checkpoint.ErrSize},
		{"broken", t.Context(), iotest.ErrReader(errBroken), 1, errBroken},
		{"broken behind the last", t.Context(), io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errBroken)), 1000, errBroken},
		{"broken with the last", t.Context(), iotest.DataErrReader(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errBroken))), 1000, errBroken},
		{"with an ended context", ended, bytes.NewReader(data), 1000, context.Canceled},
	} {
		moves := 0
		b := wire.NewBody(tc.ctx, tc.r, tc.size, func() { moves++ }).Take()
		got, err := io.ReadAll(b)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if tc.want == nil && (!bytes.Equal(got, data) || moves == 0) || tc.want != nil && int64(len(got)) >= tc.size {
			t.Errorf("%s: %d of %d bytes were given, in %d moves", tc.name, len(got), tc.size, moves)
		}
		if err := errors.Join(b.Close(), b.Close()); err != nil {
			t.Errorf("%s: Close = %v", tc.name, err)
		}
		if err := b.Wait(); !errors.Is(err, tc.want) {
			t.Errorf("%s: Wait = %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestEmptyBody(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		r    io.Reader
		want error
	}{
		"empty":  {strings.NewReader(""), nil},
		"not":    {strings.NewReader("x"), checkpoint.ErrSize},
		"broken": {iotest.ErrReader(errBroken), errBroken},
	} {
		if err := wire.NewBody(t.Context(), tc.r, 0, func() {}).Empty(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// server accepts one connection after the other and gives each to serve.
func server(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c.(*net.TCPConn))
		}
	}()
	return "http://" + l.Addr().String()
}

// TestACutIsAReset: a service must see a put that is given up end with a reset,
// never as if its body had come to an end.
func TestACutIsAReset(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]io.Reader{
		"in memory": bytes.NewReader(make([]byte, 64<<20)),
		"a stream":  io.LimitReader(endless{}, 64<<20),
	} {
		saw := make(chan error, 1)
		url := server(t, func(c *net.TCPConn) {
			defer c.Close()
			_, err := io.Copy(io.Discard, struct{ io.Reader }{c})
			saw <- err
		})
		ctx, cancel := context.WithCancel(t.Context())
		moves := 0
		b := wire.NewBody(ctx, r, 64<<20, func() {
			if moves++; moves == 8 {
				cancel()
			}
		})
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Body, req.ContentLength = b.Take(), b.Size()
		if resp, err := wire.Transport().RoundTrip(req); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s: it was answered", name)
		}
		if err := b.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the body ended with %v", name, err)
		}
		if err := <-saw; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: the service saw %v, want a reset", name, err)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// fickle says that it has all in memory, and then has not.
type fickle struct {
	*bytes.Reader
	upto int64
	err  error
}

func (f fickle) WriteTo(w io.Writer) (int64, error) {
	n, err := io.CopyN(w, f.Reader, f.upto)
	return n, errors.Join(err, f.err)
}

// TestFickleMemory: a reader that promises to write itself and breaks that is
// found as any other is.
func TestFickleMemory(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ err, want error }{
		"it breaks":   {errBroken, errBroken},
		"it is short": {nil, checkpoint.ErrSize},
	} {
		url := server(t, func(c *net.TCPConn) {
			_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
			_ = c.Close()
		})
		r := fickle{bytes.NewReader(make([]byte, 1<<20)), 600_000, tc.err}
		b := wire.NewBody(t.Context(), r, 1<<20, func() {})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Body, req.ContentLength = b.Take(), b.Size()
		if resp, err := wire.Transport().RoundTrip(req); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s: it was answered", name)
		}
		if err := b.Wait(); !errors.Is(err, tc.want) {
			t.Errorf("%s: the body ended with %v, want %v", name, err, tc.want)
		}
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		r    io.Reader
		size int64
		want error
		got  int
	}{
		{"whole", strings.NewReader("content"), 7, nil, 7},
		{"the first of more", strings.NewReader("content"), 3, nil, 3},
		{"empty", strings.NewReader(""), 0, nil, 0},
		{"short", strings.NewReader("cont"), 7, io.ErrUnexpectedEOF, 4},
		{"cut", io.MultiReader(strings.NewReader("cont"), iotest.ErrReader(syscall.ECONNRESET)), 7, syscall.ECONNRESET, 4},
	} {
		watched, w := wire.NewWatch(t.Context(), time.Minute)
		o := wire.NewObject(watched, w, io.NopCloser(tc.r), tc.size, "getting v1/a")
		got, err := io.ReadAll(o)
		if !errors.Is(err, tc.want) || len(got) != tc.got {
			t.Errorf("%s: %d bytes, %v; want %d, %v", tc.name, len(got), err, tc.got, tc.want)
		}
		if err := o.Close(); err != nil {
			t.Errorf("%s: Close = %v", tc.name, err)
		}
	}
}

// TestWatch: what stands still is given up, what only its caller holds up is not,
// and the end of the caller's context is told before all.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched, w := wire.NewWatch(t.Context(), time.Minute)
		for range 5 {
			time.Sleep(50 * time.Second)
			w.Moved()
		}
		w.Rest()
		time.Sleep(time.Hour)
		if err := w.Meaning(watched, watched.Err()); err != nil {
			t.Errorf("a request that its caller holds up = %v", err)
		}
		w.Moved()
		<-watched.Done()
		if err := w.Meaning(watched, watched.Err()); !errors.Is(err, wire.ErrStalled) || errors.Is(err, context.Canceled) {
			t.Errorf("a request that stands still = %v", err)
		}
		w.End()

		ctx, cancel := context.WithCancel(t.Context())
		watched, w = wire.NewWatch(ctx, time.Minute)
		defer w.End()
		cancel()
		if err := w.Meaning(watched, io.ErrUnexpectedEOF); !errors.Is(err, context.Canceled) {
			t.Errorf("a request whose caller left = %v", err)
		}
	})
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	const date = "Mon, 30 Nov 2026 20:00:00 GMT"
	for _, tc := range []struct {
		status int
		header http.Header
		body   string
		kind   error
		after  time.Duration
	}{
		{404, nil, "", checkpoint.ErrNotFound, 0},
		{404, nil, "<Error><Code>NoSuchKey</Code></Error>", checkpoint.ErrNotFound, 0},
		{404, nil, "<Error><Code>NoSuchBucket</Code></Error>", checkpoint.ErrRefused, 0},
		{404, http.Header{"X-Ms-Error-Code": {"ContainerNotFound"}}, "", checkpoint.ErrRefused, 0},
		{412, nil, "", checkpoint.ErrExists, 0},
		{416, nil, "", checkpoint.ErrCorrupt, 0},
		{507, nil, "", checkpoint.ErrNoSpace, 0},
		{409, nil, "", nil, 0},
		{400, nil, "<Error><Code>RequestTimeout</Code></Error>", nil, 0},
		{400, nil, "<Error><Code>BadDigest</Code></Error>", nil, 0},
		{400, nil, "<Error><Code>EntityTooLarge</Code></Error>", checkpoint.ErrRefused, 0},
		{307, nil, "", checkpoint.ErrRefused, 0},
		{501, nil, "", checkpoint.ErrRefused, 0},
		{503, http.Header{"Retry-After": {"12"}}, "<html>", nil, 12 * time.Second},
		{429, http.Header{"Retry-After": {"Mon, 30 Nov 2026 20:00:30 GMT"}, "Date": {date}}, "", nil, 30 * time.Second},
		{429, http.Header{"Retry-After": {"Mon, 30 Nov 2026 19:00:00 GMT"}, "Date": {date}}, "", nil, 0},
		{429, http.Header{"Retry-After": {"soon"}}, "", nil, 0},
		{503, http.Header{"Retry-After": {"-1"}}, "", nil, 0},
	} {
		if tc.header == nil {
			tc.header = http.Header{}
		}
		e := wire.Answer(&http.Response{StatusCode: tc.status, Header: tc.header, Body: io.NopCloser(strings.NewReader(tc.body))})
		if e.Kind != tc.kind || e.RetryAfter() != tc.after {
			t.Errorf("%d %v %s: %v, after %v; want %v, %v", tc.status, tc.header, tc.body, e, e.After, tc.kind, tc.after)
		}
		if e.Kind == checkpoint.ErrRefused && e.Remedy == "" {
			t.Errorf("%v: no remedy", e)
		}
	}
}

func TestAnswersAreTamed(t *testing.T) {
	t.Parallel()
	body := "<Error><Code>A\nB</Code><Message>" + strings.Repeat("long\r\n ", 500) + "</Message></Error>"
	e := wire.Answer(&http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))})
	if text := e.Error(); len(text) > 600 || strings.ContainsAny(text, "\r\n") {
		t.Errorf("an answer becomes %d bytes of %q", len(text), text)
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for span, want := range map[string]error{
		"bytes 10-19/100": nil, "bytes 10-19/*": nil,
		"bytes 10-14/15": checkpoint.ErrCorrupt,
	} {
		if err := wire.Span(span, 10, 10); !errors.Is(err, want) {
			t.Errorf("Span(%q) = %v, want %v", span, err, want)
		}
	}
	for _, span := range []string{"", "bytes 0-9/100", "bytes 10-20/100", "bytes */100", "lines 10-19/100"} {
		if err := wire.Span(span, 10, 10); err == nil || errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("Span(%q) = %v, want an error that condemns nothing", span, err)
		}
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	err := wire.Broken(fmt.Errorf("asking: %w", &url.Error{Op: "Get", URL: "https://store.example/v1/a?sig=secret", Err: io.EOF}))
	if strings.Contains(err.Error(), "secret") || !wire.Cut(err) || errors.Is(err, io.EOF) {
		t.Errorf("Broken = %v", err)
	}
	if err := wire.Broken(context.Canceled); !errors.Is(err, context.Canceled) || wire.Cut(err) {
		t.Errorf("Broken = %v", err)
	}
}
