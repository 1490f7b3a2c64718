package natsbus

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

// Streams in memory are gone when their broker was restarted: whoever is
// connected makes them anew, and readers begin with what is new in them.
func TestStreamsInMemoryComeBackAfterARestart(t *testing.T) {
	dir := natsbustest.Dir(t)
	natsbustest.Bubble(t, func(t *testing.T) {
		w := &world{t: t, dir: dir, op: openOperator(t, dir, seeded(1))}
		w.boot()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		marks := must(OpenHighWater(HighWaterConfig{Conn: w.nc, JS: w.log.JetStream(), File: filepath.Join(dir, "marks.json")}))
		wg.Go(func() {
			if err := marks.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		var mu sync.Mutex
		var offers, steps []string
		wg.Go(func() {
			_ = w.log.Consume(ctx, events.Subscription{Filters: []string{events.FilterOffers}, Last: true}, func(_ context.Context, e events.Event) error {
				mu.Lock()
				defer mu.Unlock()
				offers = append(offers, string(e.ID))
				return nil
			})
		})
		wg.Go(func() {
			_ = w.log.WatchSignals(ctx, nil, func(_ context.Context, _ Place, h events.Heartbeat) {
				mu.Lock()
				defer mu.Unlock()
				steps = append(steps, fmt.Sprint(h.Step))
			})
		})
		tell := func(n int64) {
			pool := events.Pool{Seller: "s", Region: "r", Zone: "z", InstanceType: "t", Capacity: events.Spot, Gang: 1}
			e := events.Event{ID: events.EventID(fmt.Sprint("offer-", n)), Time: time.Now(), Fact: events.OfferChanged{Offer: events.Offer{Pool: pool, VCPU: int(n)}}}
			if err := w.log.Publish(t.Context(), e); err != nil {
				t.Error(err)
			}
			if err := w.log.PutSignal(t.Context(), Place{org, job, 1}, events.Heartbeat{Step: n}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		for n := range int64(4) {
			tell(n)
		}
		w.reboot()
		time.Sleep(5 * time.Second)
		tell(4)
		tell(5)
		cancel()
		wg.Wait()
		if want := []string{"offer-0", "offer-1", "offer-2", "offer-3", "offer-4", "offer-5"}; !slices.Equal(offers, want) {
			t.Errorf("offers %v, want %v", offers, want)
		}
		if want := []string{"0", "1", "2", "3", "4", "5"}; !slices.Equal(steps, want) {
			t.Errorf("heartbeats %v, want %v", steps, want)
		}
		w.halt()
	})
}
