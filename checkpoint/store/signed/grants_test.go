package signed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/signed"
)

// office grants whatever is asked, after a while, and answers the requests too.
type office struct {
	mu      sync.Mutex
	batches []int // sizes of what was asked
	takes   time.Duration
	life    time.Duration
	fail    error
	method  string
	used    map[string]int // requests by name
}

func (o *office) Grant(ctx context.Context, verb checkpoint.Verb, objects []checkpoint.Object) ([]checkpoint.Access, error) {
	o.mu.Lock()
	o.batches = append(o.batches, len(objects))
	o.mu.Unlock()
	select {
	case <-time.After(o.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if o.fail != nil {
		return nil, o.fail
	}
	method := map[checkpoint.Verb]string{checkpoint.VerbPut: "PUT", checkpoint.VerbGet: "GET", checkpoint.VerbHead: "HEAD"}[verb]
	if o.method != "" {
		method = o.method
	}
	var all []checkpoint.Access
	for _, obj := range objects {
		all = append(all, checkpoint.Access{Method: method, URL: "https://store.example/" + obj.Name + "?sig=secret", Until: time.Now().Add(o.life)})
	}
	return all, nil
}

func (o *office) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, err := io.Copy(io.Discard, r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used == nil {
		o.used = map[string]int{}
	}
	o.used[r.URL.Path]++
	return &http.Response{StatusCode: 200, ContentLength: 7, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("content"))}, nil
}

// bubble runs a test with a store that only the office answers.
func bubble(t *testing.T, o *office, test func(*testing.T, *signed.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := signed.Open(signed.Config{Granter: o, Transport: o})
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

func TestGrantsAreAskedForTogether(t *testing.T) {
	o := &office{takes: 10 * time.Millisecond, life: time.Hour}
	bubble(t, o, func(t *testing.T, s *signed.Store) {
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				if err := s.Put(t.Context(), fmt.Sprintf("v1/%d", i), strings.NewReader("content"), 7); err != nil {
					t.Errorf("Put %d = %v", i, err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 50*time.Millisecond || len(o.batches) > 5 {
			t.Errorf("200 puts took %v and the batches %v, want at most five requests of 10 ms", took, o.batches)
		}
	})
}

func TestOneObjectIsAskedForOnce(t *testing.T) {
	o := &office{takes: 10 * time.Millisecond, life: time.Hour}
	bubble(t, o, func(t *testing.T, s *signed.Store) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := s.Stat(t.Context(), "v1/a"); err != nil {
					t.Errorf("Stat = %v", err)
				}
			})
		}
		wg.Wait()
		if fmt.Sprint(o.batches) != "[1]" || o.used["/v1/a"] != 50 {
			t.Errorf("batches %v, used %v", o.batches, o.used)
		}
	})
}

func TestKeptUntilTheEnd(t *testing.T) {
	o := &office{life: time.Minute}
	bubble(t, o, func(t *testing.T, s *signed.Store) {
		for _, step := range []struct {
			after time.Duration
			asked int
		}{{0, 1}, {30 * time.Second, 1}, {24 * time.Second, 1}, {2 * time.Second, 2}, {time.Hour, 3}} {
			time.Sleep(step.after)
			if _, err := s.Stat(t.Context(), "v1/a"); err != nil {
				t.Fatal(err)
			}
			if len(o.batches) != step.asked {
				t.Errorf("%v later it was asked %d times, want %d", step.after, len(o.batches), step.asked)
			}
		}
	})
}

func TestAPutsAccessIsUsedUp(t *testing.T) {
	o := &office{life: time.Hour}
	bubble(t, o, func(t *testing.T, s *signed.Store) {
		for range 2 {
			if err := s.Put(t.Context(), "v1/a", strings.NewReader("content"), 7); err != nil {
				t.Fatal(err)
			}
		}
		if len(o.batches) != 2 {
			t.Errorf("asked %d times, want 2", len(o.batches))
		}
	})
}

func TestPrefetch(t *testing.T) {
	o := &office{takes: time.Second, life: time.Hour}
	bubble(t, o, func(t *testing.T, s *signed.Store) {
		var plan []checkpoint.Object
		for i := range 150 {
			plan = append(plan, checkpoint.Object{Name: fmt.Sprintf("v1/%d", i)})
		}
		for range 2 {
			if err := s.Prefetch(t.Context(), checkpoint.VerbGet, plan); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range plan {
			if _, err := s.Get(t.Context(), p.Name); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(o.batches) != "[64 64 22]" {
			t.Errorf("batches are %v, want 64, 64 and 22, once", o.batches)
		}
	})
}

// TestALeaverLeavesTheOthers: whoever asks for all may be stopped; the others
// get theirs all the same.
func TestALeaverLeavesTheOthers(t *testing.T) {
	o := &office{takes: 10 * time.Second, life: time.Hour}
	bubble(t, o, func(t *testing.T, s *signed.Store) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Stat(ctx, "v1/0"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Stat = %v, want its deadline", err)
			}
		})
		synctest.Wait()
		for i := range 10 {
			wg.Go(func() {
				if _, err := s.Stat(t.Context(), fmt.Sprintf("v1/%d", i)); err != nil {
					t.Errorf("Stat %d = %v", i, err)
				}
			})
		}
		wg.Wait()
		if fmt.Sprint(o.batches) != "[1 10]" {
			t.Errorf("batches are %v", o.batches)
		}
	})
}

func TestOddGrants(t *testing.T) {
	broken := errors.New("the bus is away")
	for name, tc := range map[string]struct {
		office *office
		want   error
	}{
		"no answer":      {&office{fail: broken}, broken},
		"another method": {&office{method: "DELETE", life: time.Hour}, checkpoint.ErrRefused},
	} {
		bubble(t, tc.office, func(t *testing.T, s *signed.Store) {
			err := s.Put(t.Context(), "v1/a", strings.NewReader("content"), 7)
			if !errors.Is(err, tc.want) || len(tc.office.used) > 0 {
				t.Errorf("%s: Put = %v, want %v; requests %v", name, err, tc.want, tc.office.used)
			}
		})
	}
}

// TestFewAreKept: the memory for accesses is bounded.
func TestFewAreKept(t *testing.T) {
	o := &office{life: time.Hour}
	synctest.Test(t, func(t *testing.T) {
		s, err := signed.Open(signed.Config{Granter: o, Transport: o, Keep: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"v1/a", "v1/b", "v1/c", "v1/d", "v1/d", "v1/b", "v1/a"} {
			if _, err := s.Stat(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if len(o.batches) != 5 {
			t.Errorf("asked %d times, want 5: a, b, c, d, and a again", len(o.batches))
		}
	})
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]signed.Config{
		"no granter":        {},
		"a negative margin": {Granter: &office{}, Margin: -1},
		"a negative keep":   {Granter: &office{}, Keep: -1},
		"a negative stall":  {Granter: &office{}, Stall: -1},
	} {
		if _, err := signed.Open(cfg); err == nil {
			t.Errorf("Open accepted %s", name)
		}
	}
}

// broken is a transport that fails as net/http does: with the URL in its words.
type broken struct{ *office }

func (broken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return http.DefaultTransport.RoundTrip(&http.Request{Method: r.Method, URL: r.URL, Header: http.Header{"\n": nil}})
}

// TestNoSignatureInErrors: a signed URL is a key.
func TestNoSignatureInErrors(t *testing.T) {
	t.Parallel()
	o := &office{life: time.Hour}
	s, err := signed.Open(signed.Config{Granter: o, Transport: broken{o}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "v1/a", bytes.NewReader([]byte("content")), 7); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Put = %v", err)
	}
	if _, err := s.Get(t.Context(), "v1/a"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Get = %v", err)
	}
}
