package market

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// publish sends what failed before and what is new. A newer fact on a subject
// replaces an older one that could not be sent.
func (w *Watcher) publish(ctx context.Context, f *watched, now events.Moment, facts []events.Fact) {
	replaced := map[subject]int{} // by how many of facts
	for _, fact := range facts {
		replaced[subjectOf(fact)]++
	}
	queue := slices.DeleteFunc(f.backlog, func(old events.Event) bool { return replaced[subjectOf(old.Fact)] > 0 })
	for _, fact := range facts {
		w.metrics.count(f.Seller, fact)
		if q, ok := fact.(events.OfferQuarantined); ok {
			w.log.Warn("quote quarantined", zap.String("seller", f.Seller), zap.Stringer("pool", q.Pool),
				zap.String("field", q.Field), zap.String("value", q.Value), zap.String("reason", q.Reason))
		}
		s := subjectOf(fact)
		if replaced[s]--; replaced[s] > 0 {
			continue // a newer one follows
		}
		queue = append(queue, eventOf(fact, now))
	}
	f.backlog = nil
	for n, e := range queue {
		if err := w.bus.Publish(ctx, e); err != nil {
			f.backlog = queue[n:]
			if ctx.Err() == nil {
				w.log.Warn("offers not published; they are tried again at the next look",
					zap.String("seller", f.Seller), zap.Int("waiting", len(f.backlog)), zap.Error(err))
			}
			return
		}
	}
}

// subject is what a fact is published on.
type subject struct {
	quarantine bool
	pool       events.Pool
}

func subjectOf(f events.Fact) subject {
	_, q := f.(events.OfferQuarantined)
	return subject{q, poolOf(f)}
}

// eventOf gives a fact its place in time. The id is derived, so that sending it again is the same event.
func eventOf(f events.Fact, now events.Moment) events.Event {
	word := "offer"
	if _, ok := f.(events.OfferQuarantined); ok {
		word = "quarantine"
	}
	p := poolOf(f)
	id := fmt.Sprintf("%s-%s-%s-%s-%d", word, events.Token(p.Seller), events.Token(p.Region), p.Subject(), now.Control.UnixNano())
	return events.Event{
		ID: events.EventID(id), Source: "/spotferry/watcher", Time: now.Control, Finality: events.Final, Fact: f,
	}
}
