package market

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/events"
)

// seven sellers and ten thousand offers, which is about what seven real ones have.
var seven = []string{"aws", "gcp", "azure", "vast", "runpod", "lambda", "owned"}

const tenThousand = 10_000

func marketOf(seller string, n int, at time.Time) []events.Offer {
	offers := make([]events.Offer, n)
	for i := range offers {
		offers[i] = quote(fmt.Sprintf("zone-%d", i), events.PerInstanceHour(1e9+int64(i)*1000), func(o *events.Offer) {
			o.Pool.Seller, o.Market = seller, at
			o.Trust, o.Isolation, o.Driver, o.CUDA, o.Machine = events.TrustCommunity, events.Container, "550.54.15", "12.4", fmt.Sprint("m", i)
			o.Storage, o.MaxLifetimeS, o.Reliability = 150_000, 86_400, 99
		})
	}
	return offers
}

// TestAMarketThatStandsStillIsToldOnce: the first look at ten thousand offers
// publishes each once, and the next, which finds nothing changed, publishes nothing.
func TestAMarketThatStandsStillIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{last: map[string]events.Event{}}
		var feeds []Feed
		for i, s := range seven {
			n := tenThousand / len(seven)
			if i < tenThousand%len(seven) {
				n++
			}
			feeds = append(feeds, Feed{Seller: s, Source: &shop{offers: marketOf(s, n, time.Now())}, Every: 30 * time.Second})
		}
		defer watch(t, b, feeds...)()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(b.take()); n != tenThousand {
			t.Errorf("the first look told %d times, want once for each of %d offers", n, tenThousand)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if again := b.take(); len(again) > 0 {
			t.Errorf("two looks that found nothing changed told %d times, first %q", len(again), again[0])
		}
	})
}

// BenchmarkTenThousandOffers is one look at seven sellers that have ten thousand
// offers, checked, compared, encoded and handed to a bus in memory: new ones, and
// the same ones again.
func BenchmarkTenThousandOffers(b *testing.B) {
	for _, again := range []bool{false, true} {
		b.Run(fmt.Sprintf("unchanged=%t", again), func(b *testing.B) {
			at := time.Now()
			shops := map[string][]events.Offer{}
			for _, s := range seven {
				shops[s] = marketOf(s, tenThousand/len(seven), at)
			}
			for b.Loop() {
				b.StopTimer()
				w := watcherOf(b, shops)
				if again {
					lookAll(b, w)
				}
				b.StartTimer()
				lookAll(b, w)
			}
		})
	}
}

func watcherOf(b *testing.B, shops map[string][]events.Offer) *Watcher {
	var feeds []Feed
	for _, s := range seven {
		feeds = append(feeds, Feed{Seller: s, Source: &shop{offers: shops[s]}})
	}
	w, err := NewWatcher(&board{last: map[string]events.Event{}}, WatcherConfig{Feeds: feeds, Now: func() events.Moment {
		return events.Moment{Control: time.Now(), Market: time.Now()}
	}})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func lookAll(b *testing.B, w *Watcher) {
	for _, f := range w.ordered() {
		w.look(context.Background(), f)
		if len(f.backlog) > 0 {
			b.Fatal("something was not published")
		}
	}
}
