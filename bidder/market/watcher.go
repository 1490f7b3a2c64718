package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/events"
)

// seller is what the watcher needs of a provider.
type seller interface {
	// Offers returns everything that can be bought now. An offer not returned is gone.
	Offers(ctx context.Context) ([]events.Offer, error)
}

// bus is what the watcher needs of events.Log.
type bus interface {
	Publish(ctx context.Context, e events.Event) error
	Consume(ctx context.Context, s events.Subscription, handle func(context.Context, events.Event) error) error
}

// Feed is one seller to be polled.
type Feed struct {
	Seller  string        // the name its pools carry
	Source  seller        // asked for offers
	Every   time.Duration // control time between looks; 30 s
	Offset  time.Duration // before the first look, so that sellers are not asked all at once
	Timeout time.Duration // of one look; the longer of Every and 10 s
	TTL     time.Duration // of offers that bring none; 6 x Every
}

func (f Feed) withDefaults() Feed {
	set(&f.Every, 30*time.Second)
	set(&f.Timeout, max(f.Every, 10*time.Second))
	set(&f.TTL, max(6*f.Every, time.Second))
	return f
}

// WatcherConfig configures a Watcher. Zero fields mean their defaults.
type WatcherConfig struct {
	Feeds      []Feed
	Limits     Limits
	Now        func() events.Moment // required
	Log        *zap.Logger
	Registerer prometheus.Registerer
	// SeedWait is how long the start waits for what is already published; 30 s.
	SeedWait time.Duration
}

// Validate says which field cannot be used.
func (c WatcherConfig) Validate() error {
	if c.Now == nil {
		return errors.New("watcher: Now is missing; give it the clocks")
	}
	seen := map[string]bool{}
	for n, f := range c.Feeds {
		switch {
		case f.Seller == "" || f.Source == nil:
			return fmt.Errorf("watcher: feed %d needs a seller's name and a source", n)
		case seen[f.Seller]:
			return fmt.Errorf("watcher: seller %q is watched twice; one feed each", f.Seller)
		case f.Every < 0 || f.Offset < 0 || f.Timeout < 0 || f.TTL < 0:
			return fmt.Errorf("watcher: seller %q has a negative duration", f.Seller)
		}
		seen[f.Seller] = true
	}
	return nil
}

// Watcher polls sellers, each at its own pace, and publishes what a buyer would notice.
//
// A consumer that holds an offer sees it again before its TTL runs out:
// unchanged offers are published anew at the first look after half of it, so with the
// default TTL of six looks a consumer that misses one publication still has time
// for the next. An offer that is not published again is gone,
// stale, or no longer believed, and must not be bought.
type Watcher struct {
	cfg     WatcherConfig
	bus     bus
	log     *zap.Logger
	metrics watcherMetrics

	mu    sync.Mutex // guards the feeds' state
	feeds map[string]*watched
}

// watched is one feed with what still has to be published.
type watched struct {
	Feed
	*feed
	backlog  []events.Event // publishing failed; newest of each subject
	failing  bool
	answered time.Time // control time of the newest answer, or of the first look
}

// NewWatcher builds a watcher that publishes to log.
func NewWatcher(log bus, cfg WatcherConfig) (*Watcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	set(&cfg.Log, zap.NewNop())
	set(&cfg.SeedWait, 30*time.Second)
	w := &Watcher{cfg: cfg, bus: log, log: cfg.Log, metrics: newWatcherMetrics(cfg.Registerer), feeds: map[string]*watched{}}
	for _, f := range cfg.Feeds {
		f = f.withDefaults()
		w.feeds[f.Seller] = &watched{Feed: f, feed: newFeed(f.Seller, cfg.Limits, f.TTL)}
	}
	return w, nil
}

// Run polls until ctx ends, and returns nil then. It starts from the offers that
// stand published, so that pools which vanished meanwhile expire and prices are compared across a restart,
// and goes on hearing what others publish: replicas on the same seller tell a thing once.
func (w *Watcher) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	seeded := make(chan struct{})
	g.Go(func() error {
		if err := w.follow(gctx, sync.OnceFunc(func() { close(seeded) })); err != nil {
			return fmt.Errorf("reading the published offers: %w", err)
		}
		return nil
	})
	wait := time.NewTimer(w.cfg.SeedWait) // a bus that does not say when all have been read is not waited for longer
	defer wait.Stop()
	select {
	case <-seeded:
	case <-wait.C:
	case <-gctx.Done():
		return g.Wait()
	}
	for _, f := range w.ordered() {
		g.Go(func() error { w.watch(gctx, f); return nil })
	}
	w.log.Info("watching sellers", zap.Int("sellers", len(w.feeds)))
	return g.Wait()
}

func (w *Watcher) ordered() []*watched {
	out := make([]*watched, 0, len(w.feeds))
	for _, f := range w.feeds {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *watched) int { return cmp.Compare(a.Seller, b.Seller) })
	return out
}

// Trust makes a pool's next possible quote believed, whatever it cost before. It
// is an operator's answer to a quarantine, and false if nothing is known of the pool.
func (w *Watcher) Trust(p events.Pool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.feeds[p.Seller]
	if f == nil || f.pools[p] == nil {
		return false
	}
	f.trust(p)
	w.log.Info("pool trusted by an operator", zap.Stringer("pool", p))
	return true
}

// follow hears what stands published and what is published from then on, this watcher's own words among it.
func (w *Watcher) follow(ctx context.Context, caughtUp func()) error {
	return w.bus.Consume(ctx, events.Subscription{
		Filters: []string{events.FilterOffers, filterQuarantine}, Last: true, CaughtUp: caughtUp,
	}, func(_ context.Context, e events.Event) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if f := w.feeds[poolOf(e.Fact).Seller]; f != nil {
			f.hear(e, w.cfg.Now())
		}
		return nil
	})
}

// filterQuarantine covers what watchers do not believe; it lies in the stream of offers.
const filterQuarantine = "sf.v1.quarantine.>"

// Ages says how long ago each seller last answered with its offers; one that never did counts from the start of Run.
func (w *Watcher) Ages() map[string]time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.cfg.Now().Control
	out := map[string]time.Duration{}
	for name, f := range w.feeds {
		if !f.answered.IsZero() {
			out[name] = now.Sub(f.answered)
		}
	}
	return out
}

func (w *Watcher) watch(ctx context.Context, f *watched) {
	next := time.NewTimer(f.Offset)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		began := time.Now()
		w.look(ctx, f)
		next.Reset(max(f.Every-time.Since(began), 0))
	}
}

// look asks the seller once and publishes what came of it.
func (w *Watcher) look(ctx context.Context, f *watched) {
	w.mu.Lock()
	f.asked = w.cfg.Now().Control
	if f.answered.IsZero() {
		f.answered = f.asked
	}
	w.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, f.Timeout)
	offers, err := f.Source.Offers(asking)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if err == nil && len(offers) > MaxOffers {
		err = fmt.Errorf("%d offers in one look, at most %d are believed", len(offers), MaxOffers)
	}
	now := w.cfg.Now()
	w.mu.Lock()
	var facts []events.Fact
	if err != nil {
		facts = f.expire(now)
	} else {
		f.answered = now.Control
		facts = f.look(now, offers)
	}
	live := f.live()
	w.mu.Unlock()
	w.report(f, now, len(offers), live, err)
	w.publish(ctx, f, now, facts)
}

func (w *Watcher) report(f *watched, now events.Moment, offers, live int, err error) {
	if err == nil {
		w.metrics.looked.WithLabelValues(f.Seller).Set(float64(now.Control.Unix()))
	}
	w.metrics.live.WithLabelValues(f.Seller).Set(float64(live))
	if failing := err != nil; failing != f.failing {
		f.failing = failing
		if failing {
			w.log.Warn("price feed fails; its offers will expire", zap.String("seller", f.Seller), zap.Int("live", live), zap.Error(err))
		} else {
			w.log.Info("price feed works", zap.String("seller", f.Seller), zap.Int("offers", offers), zap.Int("live", live))
		}
	}
}
