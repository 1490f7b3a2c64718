package remote

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

func TestPagesInAnyOrderAreTheSameAnswer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,300}`), 0, 60).Draw(t, "items")
		limit := pageOverhead + rapid.IntRange(310, 2000).Draw(t, "limit")
		pages, err := paginate("offers", in, nil, limit)
		if err != nil {
			t.Fatal(err)
		}
		for n, p := range pages {
			if len(p) > limit {
				t.Fatalf("page %d has %d bytes, the bus carries %d", n, len(p), limit)
			}
		}
		var b book
		for n, p := range rapid.Permutation(append(pages, pages...)).Draw(t, "order") {
			done, err := b.add(p)
			if err != nil {
				t.Fatalf("message %d: %v", n, err)
			}
			if done {
				break
			}
		}
		out, err := items[string](&b)
		if err != nil || strings.Join(out, ",") != strings.Join(in, ",") || len(out) != len(in) {
			t.Fatalf("sent %d items, got %d: %v", len(in), len(out), err)
		}
	})
}

func TestAnItemBeyondAMessageIsRefused(t *testing.T) {
	t.Parallel()
	_, err := paginate("offers", []string{strings.Repeat("x", 5000)}, nil, 4096)
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Code != "item_too_large" {
		t.Errorf("got %v", err)
	}
}

func TestErrorsSurviveTheJourney(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent := &provider.Error{
			Kind: provider.Kind(rapid.IntRange(0, 10).Draw(t, "kind")), Op: provider.OpLaunch,
			Scope:      rapid.SampledFrom([]string{"", "pool", "zone", "region", "account", "seller"}).Draw(t, "scope"),
			RetryAfter: time.Duration(rapid.Int64Range(0, 86_400_000).Draw(t, "ms")) * time.Millisecond,
			Code:       rapid.StringN(0, 50, 50).Draw(t, "code"), Message: rapid.StringN(0, 50, 50).Draw(t, "message"),
			MaybeCreated: rapid.Bool().Draw(t, "maybe"),
		}
		if rapid.Bool().Draw(t, "pool") {
			sent.Pool = &events.Pool{Seller: "s", Zone: "z"}
		}
		var b book
		if done, err := b.add(errorPage(sent.Op, sent)); !done || err != nil {
			t.Fatal(done, err)
		}
		got, ok := errors.AsType[*provider.Error](b.pages[0].Error.err(provider.OpLaunch))
		if !ok || got.Kind != sent.Kind || got.Scope != sent.Scope || got.RetryAfter != sent.RetryAfter || got.Code != sent.Code || got.Message != sent.Message ||
			got.MaybeCreated != (sent.MaybeCreated || sent.Kind == provider.UnknownOutcome) || (got.Pool == nil) != (sent.Pool == nil) {
			t.Fatalf("sent %+v, got %+v", sent, got)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"", "null", "[]", "<html>", `{"pages":1}`, `{"pages":2,"page":1}`, `{"pages":-1}`, `{"pages":1,"items":[{"price":7}]}`,
		`{"pages":1000000000}`, `{"error":{"kind":"nonsense","retry_after_ms":9223372036854775807}}`, `{"pages":1,"items":[null]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var b book
		done, err := b.add(body)
		if err != nil || !done {
			return
		}
		if e := b.pages[0].Error; e != nil {
			if e.err(provider.OpLaunch) == nil {
				t.Fatal("a failure became a success")
			}
			return
		}
		_, _ = items[events.Offer](&b)
		_, _ = items[provider.Instance](&b)
	})
}
