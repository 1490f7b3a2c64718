package market

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// replicas are feeds of one seller whose facts reach each other at once.
type replicas struct {
	feeds []*feed
	told  []string
}

func newReplicas(n int, ttl time.Duration) *replicas {
	r := &replicas{}
	for range n {
		r.feeds = append(r.feeds, newFeed("acme", Limits{}, ttl))
	}
	return r
}

// tell publishes facts of a moment to every feed, the one they come from included.
func (r *replicas) tell(now events.Moment, facts []events.Fact) {
	r.told = append(r.told, say(facts)...)
	for _, fact := range facts {
		for _, f := range r.feeds {
			f.hear(eventOf(fact, now), now)
		}
	}
}

func (r *replicas) look(n, s int, offers ...events.Offer) {
	f := r.feeds[n]
	f.asked = at(s).Control
	r.tell(at(s), f.look(at(s), offers))
}

func TestReplicasOfAWatcherTellAThingOnce(t *testing.T) {
	t.Parallel()
	a, b := quote("a", 10*dollar), quote("b", 12*dollar)
	for _, tc := range []struct {
		name string
		run  func(*replicas)
		want []string
	}{
		{"both look at the same offers", func(r *replicas) {
			r.look(0, 0, a, b)
			r.look(1, 10, a, b)
			r.look(0, 30, a, b)
			r.look(1, 40, a, b)
		}, []string{"a at 10.000000000", "b at 12.000000000"}},
		{"half a time to live is over for both", func(r *replicas) {
			r.look(0, 0, a)
			r.look(1, 10, a)
			r.look(0, 90, a)
			r.look(1, 100, a)
		}, []string{"a at 10.000000000", "a at 10.000000000"}},
		{"a pool is gone for both", func(r *replicas) {
			r.look(0, 0, a, b)
			r.look(1, 10, a, b)
			r.look(0, 30, a)
			r.look(1, 40, a)
		}, []string{"a at 10.000000000", "b at 12.000000000", "b gone"}},
		{"an absurd price is refused by both", func(r *replicas) {
			r.look(0, 0, a)
			r.look(1, 10, a)
			r.look(0, 30, quote("a", 1000*dollar))
			r.look(1, 40, quote("a", 1000*dollar))
		}, []string{"a at 10.000000000", "a quarantined: price " + reasonJump}},
		{"one cannot reach the seller, the other can", func(r *replicas) {
			r.look(0, 0, a)
			for s := 30; s <= 360; s += 30 {
				r.tell(at(s), r.feeds[0].expire(at(s)))
				r.look(1, s, a)
			}
		}, []string{"a at 10.000000000", "a at 10.000000000", "a at 10.000000000", "a at 10.000000000", "a at 10.000000000"}},
		{"one asked before a pool appeared and was answered after", func(r *replicas) {
			r.look(0, 0, a)
			r.feeds[1].asked = at(29).Control
			r.look(0, 30, a, b)
			r.tell(at(31), r.feeds[1].look(at(31), []events.Offer{a}))
		}, []string{"a at 10.000000000", "b at 12.000000000"}},
		{"an old answer comes after the other's new one", func(r *replicas) {
			r.look(0, 0, a)
			r.look(1, 40, quote("a", 11*dollar, func(o *events.Offer) { o.Market = at(35).Market }))
			r.tell(at(41), r.feeds[0].look(at(41), []events.Offer{quote("a", 10*dollar, func(o *events.Offer) { o.Seen = at(39).Control })}))
		}, []string{"a at 10.000000000", "a at 11.000000000"}},
		{"what one no longer sees and the other does is told again", func(r *replicas) {
			r.look(0, 0, a)
			r.look(1, 10, a)
			r.look(0, 30)
			r.look(1, 40, a)
		}, []string{"a at 10.000000000", "a gone", "a at 10.000000000"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newReplicas(2, 3*time.Minute)
			tc.run(r)
			if len(r.told) != len(tc.want) {
				t.Fatalf("told %q, want %q", r.told, tc.want)
			}
			for i := range tc.want {
				if r.told[i] != tc.want[i] {
					t.Errorf("told %q, want %q", r.told, tc.want)
				}
			}
		})
	}
}
