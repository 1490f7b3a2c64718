package plane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder/market"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Watcher asks sellers for their offers and publishes what a buyer would notice.
type Watcher struct {
	*ground
	watcher *market.Watcher
}

// NewWatcher builds a watcher that runs alone. It needs Sellers and Poll.
func NewWatcher(cfg Config) (*Watcher, error) { return newWatcher(newGround(cfg, true)) }

func newWatcher(g *ground) (*Watcher, error) {
	var feeds []market.Feed
	for i, name := range slices.Sorted(maps.Keys(g.Sellers)) {
		feeds = append(feeds, market.Feed{Seller: name, Source: g.Sellers[name], Every: g.Poll, Offset: time.Duration(i) * g.Poll / 10})
	}
	w, err := market.NewWatcher(g.Log, market.WatcherConfig{Feeds: feeds, Now: g.moment, Log: g.Logger.Named("watcher"), Registerer: g.Registerer})
	return &Watcher{g, w}, err
}

// Run serves until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	return together(ctx, append(w.prices.runs(), w.runs()...)...)
}

func (w *Watcher) runs() []func(context.Context) error {
	return []func(context.Context) error{w.watcher.Run}
}

// Checks are what has to hold for the watcher to do its work.
func (w *Watcher) Checks() []process.Check {
	return append(w.basics(), process.Check{Name: "sellers", Test: func(context.Context) error {
		if len(w.Sellers) == 0 {
			return errors.New("no seller is configured")
		}
		for name, age := range w.watcher.Ages() {
			if age > staleFeed*w.Poll {
				return fmt.Errorf("%s has not answered for %s", name, age.Round(time.Millisecond))
			}
		}
		return nil
	}})
}
