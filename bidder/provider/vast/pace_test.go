package vast_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/vast"
	"github.com/spotferry/spotferry/bidder/provider/vast/vastfake"
)

func TestEachEndpointHasItsInterval(t *testing.T) {
	t.Parallel()
	const apart, calls = 60 * time.Millisecond, 3
	for _, tc := range []struct {
		name string
		set  func(*vast.Intervals)
		call func(t *testing.T, r *rig, spec provider.LaunchSpec, n int) error
	}{
		{"search", func(i *vast.Intervals) { i.Search = apart }, func(t *testing.T, r *rig, _ provider.LaunchSpec, _ int) error {
			_, err := r.client.Offers(t.Context())
			return err
		}},
		{"list", func(i *vast.Intervals) { i.List = apart }, func(t *testing.T, r *rig, _ provider.LaunchSpec, _ int) error {
			_, err := r.client.List(t.Context())
			return err
		}},
		{"create", func(i *vast.Intervals) { i.Create = apart }, func(t *testing.T, r *rig, spec provider.LaunchSpec, n int) error {
			_, err := r.client.Launch(t.Context(), spec, fmt.Sprint("lease-", n))
			return err
		}},
		{"destroy", func(i *vast.Intervals) { i.Destroy = apart }, func(t *testing.T, r *rig, spec provider.LaunchSpec, n int) error {
			i, err := r.client.Launch(t.Context(), spec, fmt.Sprint("lease-", n))
			return errors.Join(err, r.client.Terminate(t.Context(), i.ID))
		}},
		{"bid", func(i *vast.Intervals) { i.Bid = apart }, func(t *testing.T, r *rig, spec provider.LaunchSpec, _ int) error {
			i, err := r.client.Launch(t.Context(), spec, "lease-1")
			return errors.Join(err, r.client.Rebid(t.Context(), i.ID, 3*price))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := open(t, providertest.Config{}, vastfake.Config{}, nil)
			spec := r.spec(t)
			cfg := r.config("env-1")
			tc.set(&cfg.Pace)
			r.client = openWith(t, cfg)
			start := time.Now()
			for n := range calls {
				if err := tc.call(t, r, spec, n); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(start); took < (calls-1)*apart {
				t.Errorf("%d calls in %s, want them %s apart", calls, took, apart)
			}
		})
	}
}

func TestALaunchThatWaitsForItsTurnIsNotSent(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, vastfake.Config{}, nil)
	spec := r.spec(t)
	cfg := r.config("env-1")
	cfg.Pace.Create = time.Hour
	r.client = openWith(t, cfg)
	if _, err := r.client.Launch(t.Context(), spec, "lease-1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := r.client.Launch(ctx, spec, "lease-2")
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Kind != provider.Transient || e.MaybeCreated || !errors.Is(err, provider.ErrHeldBack) || r.fake.Creates() != 1 {
		t.Errorf("%+v with %d creates, want it held back", e, r.fake.Creates())
	}
}

func TestACreateThatCameTooSoonWaitsLonger(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, vastfake.Config{}, nil)
	spec := r.spec(t)
	cfg := r.config("env-1")
	cfg.Pace.Penalty = 0
	r.client = openWith(t, cfg)
	r.backend.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Throttle})
	_, err := r.client.Launch(t.Context(), spec, "lease-1")
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Kind != provider.Throttled || e.RetryAfter != 12*time.Second {
		t.Errorf("%v, want throttled for 12 s", err)
	}
}

func TestAListWithoutEndIsGivenUp(t *testing.T) {
	t.Parallel()
	pages := 0
	r := open(t, providertest.Config{}, vastfake.Config{}, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			pages++
			fmt.Fprintf(w, `{"instances":[],"next_token":"t%d"}`, pages)
		})
	})
	if _, err := r.client.List(t.Context()); provider.KindOf(err) != provider.Transient || pages > 10_001 {
		t.Errorf("after %d pages: %v, want an error", pages, err)
	}
}
