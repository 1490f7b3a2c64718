package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

func TestNumbersOfAnyShape(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		said  string
		nanos int64 // 0: not believable as money
		whole int
		id    string
	}{
		{`1.5`, 1_500_000_000, 1, ""},
		{`"1.5"`, 1_500_000_000, 1, ""},
		{`12`, 12_000_000_000, 12, "12"},
		{`"12"`, 12_000_000_000, 12, "12"},
		{`0.0000000005`, 0, 0, ""}, // half of a nano-dollar, to even
		{`0.0000000015`, 2, 0, ""},
		{`0.10533333333333333`, 105_333_333, 0, ""},
		{`1e-3`, 1_000_000, 0, ""},
		{`0`, 0, 0, "0"},
		{`-3`, 0, -3, ""},
		{`null`, 0, 0, ""},
		{`""`, 0, 0, ""},
		{`"n/a"`, 0, 0, ""},
		{`true`, 0, 0, ""},
		{`{"usd":1}`, 0, 0, ""},
		{`1e400`, 0, 0, ""},
		{`"1e999999999"`, 0, 0, ""},
		{`"NaN"`, 0, 0, ""},
		{`"Inf"`, 0, 0, ""},
		{`"1/3"`, 0, 0, ""},
		{`1000001`, 0, 1000001, "1000001"},
		{`"0x10"`, 0, 0, ""},
		{`"` + strings.Repeat("9", 100) + `"`, 0, 0, ""},
		{`99999999999999999999999`, 0, 0, ""},
		{`"../7"`, 0, 0, ""},
	} {
		var n wire.Number
		if err := json.Unmarshal([]byte(tc.said), &n); err != nil {
			t.Errorf("%s: %v", tc.said, err)
			continue
		}
		nanos, ok := n.Scaled(1_000_000_000)
		if ok != (tc.nanos > 0) || ok && nanos != tc.nanos || n.Int() != tc.whole || n.ID() != tc.id {
			t.Errorf("%s is %d (%v), %d, %q; want %d, %d, %q", tc.said, nanos, ok, n.Int(), n.ID(), tc.nanos, tc.whole, tc.id)
		}
	}
}

func FuzzNumber(f *testing.F) {
	f.Add([]byte(`1.5`))
	f.Add([]byte(`"1e-400"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n wire.Number
		if err := n.UnmarshalJSON(b); err != nil {
			t.Fatal(err)
		}
		if v, ok := n.Scaled(1_000_000_000); ok && (v <= 0 || v > 1_000_000_000_000_000) {
			t.Errorf("%q is %d", b, v)
		}
		if f, ok := n.Float(); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			t.Errorf("%q is %v", b, f)
		}
	})
}

func TestWhatWasSentIsTold(t *testing.T) {
	t.Parallel()
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(cut.Close)
	for _, tc := range []struct {
		name, base string
		launch     provider.Kind
		maybe      bool
	}{
		{"nobody listens", "http://127.0.0.1:1", provider.Transient, false},
		{"no such host", "http://nobody.invalid", provider.Transient, false},
		{"the connection breaks after it was sent", cut.URL, provider.UnknownOutcome, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			api, err := wire.NewAPI(tc.base, "k", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = api.Ask(t.Context(), wire.Question{Method: http.MethodPut, Path: "/x?secret=1", Body: 1})
			e := wire.Broken(t.Context(), provider.OpLaunch, err)
			if e.Kind != tc.launch || e.MaybeCreated != tc.maybe {
				t.Errorf("a launch is %s, maybe created %v; want %s, %v", e.Kind, e.MaybeCreated, tc.launch, tc.maybe)
			}
			if strings.Contains(e.Error(), "secret") {
				t.Errorf("%v shows what was asked", e)
			}
			if e := wire.Broken(t.Context(), provider.OpList, err); e.Kind != provider.Transient {
				t.Errorf("a list is %s, want transient", e.Kind)
			}
		})
	}
}

func TestAnswersEndWhereTheyMay(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("Content-Type") != "" {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, strings.Repeat("x", 1000))
	}))
	defer srv.Close()
	api, err := wire.NewAPI(srv.URL+"/", "k", srv.Client())
	if err != nil {
		t.Fatal(err)
	}
	if a, err := api.Ask(t.Context(), wire.Question{Method: http.MethodGet, Path: "/", Most: 1000}); err != nil || len(a.Body) != 1000 || !a.OK() {
		t.Errorf("status %d, %d bytes, %v", a.Status, len(a.Body), err)
	}
	if _, err := api.Ask(t.Context(), wire.Question{Method: http.MethodGet, Path: "/", Most: 999}); !errors.Is(err, wire.ErrTooLong) {
		t.Errorf("one byte more than may be: %v", err)
	}
}

func TestAPaceKeepsCallsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, start := wire.Every(0, 12*time.Second), time.Now()
		for range 3 {
			if err := p.Wait(t.Context(), provider.OpLaunch); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 24*time.Second {
			t.Errorf("three calls took %s, want 24 s", took)
		}
		if wire.Every(-1, time.Hour).Interval() != 0 || wire.Every(time.Second, time.Hour).Interval() != time.Second {
			t.Error("a negative interval is none, and a given one is taken")
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for said, want := range map[string]time.Duration{
		"": 0, "2": 2 * time.Second, "1.5": 1500 * time.Millisecond, "-1": 0, "soon": 0, "1e30": provider.MaxRetryAfter, "NaN": 0,
		"Mon, 30 Nov 2026 12:00:30 GMT": 30 * time.Second, "Mon, 30 Nov 2026 11:00:00 GMT": 0,
	} {
		if got := wire.RetryAfter(http.Header{"Retry-After": {said}}, now); got != want {
			t.Errorf("%q is %s, want %s", said, got, want)
		}
	}
}

func TestEndpointsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "ftp://x", "x", "https://", "https://user:secret@x", "::"} {
		if _, err := wire.NewAPI(base, "k", nil); err == nil {
			t.Errorf("%q was taken", base)
		}
	}
}

func TestARedirectIsAnAnswerAndTheKeyStaysHere(t *testing.T) {
	t.Parallel()
	followed := false
	mux := http.NewServeMux()
	mux.HandleFunc("/from", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/to", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/to", func(http.ResponseWriter, *http.Request) { followed = true })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	api, err := wire.NewAPI(srv.URL, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.Ask(t.Context(), wire.Question{Method: http.MethodPut, Path: "/from", Body: 1})
	if err != nil || a.OK() || a.Status != http.StatusTemporaryRedirect || followed {
		t.Errorf("status %d, followed %v, %v; want the redirect itself", a.Status, followed, err)
	}
}

func TestNothingOfAnAnswerIsShown(t *testing.T) {
	t.Parallel()
	for body, says := range map[string]string{
		`{"instances":[{"extra_env":[["TOKEN","canary"]]`: "an answer of",
		`<html>canary</html>`:                             "a page of HTML of",
	} {
		var into struct{}
		e := wire.Garbled(provider.OpList, wire.Answer{Status: 200, Body: []byte(body)}, json.Unmarshal([]byte(body), &into))
		if strings.Contains(e.Error(), "canary") || !strings.Contains(e.Error(), says) || e.Kind != provider.Transient {
			t.Errorf("%v, want %q and nothing of the answer", e, says)
		}
	}
}
