package gcp_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gcp"
	"github.com/spotferry/spotferry/events"
)

func TestNothingIsKeptInMemoryAndNothingIsLost(t *testing.T) {
	t.Parallel()
	p := open(t, world{page: 2})
	spec := p.spec()
	spec.Labels = map[string]string{"env": "test", "org": "Ä-cme & Söhne", "note": strings.Repeat("x", 300) + "\n\"{}"}
	for range 5 {
		if _, err := p.client.Launch(t.Context(), spec, p.token()); err != nil {
			t.Fatal(err)
		}
	}
	before := until(t, p.client, "01jconformance-1-5", provider.Running)
	after := until(t, p.again(), "01jconformance-1-5", provider.Running)
	if !reflect.DeepEqual(before, after) {
		t.Errorf("after a restart\n%+v\nwant\n%+v", after, before)
	}
	if after.Pool != spec.Pool || !maps.Equal(after.Labels, spec.Labels) || after.Price() != 1_100_000_000 || after.Terms.FreeIfReclaimedS != 60 {
		t.Errorf("rebuilt as %+v", after)
	}
	again, err := p.again().Launch(t.Context(), spec, "01jconformance-1-5")
	if err != nil || again.ID != before.ID {
		t.Errorf("a repetition after a restart gave %+v, %v", again, err)
	}

	p.behind.Kill(p.fake.Behind(before.ID), "seller")
	gone := until(t, p.again(), "01jconformance-1-5", provider.Gone)
	if gone.EndedBy != "seller" || !gone.Started.Equal(before.Started) || gone.Ended.Before(gone.Started) || gone.ID != before.ID || gone.Pool.Zone != spec.Pool.Zone {
		t.Errorf("an end told after a restart: %+v", gone)
	}
	seen := until(t, p.client, "01jconformance-1-5", provider.Gone)
	if seen.Price() != before.Price() || seen.Pool != before.Pool || !seen.Ended.Equal(gone.Ended) {
		t.Errorf("an end told by who saw the machine alive: %+v", seen)
	}
}

// The status is the same for all of them; the operations tell.
func TestWhoEndedAMachineIsTold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, by, want string
		stays          bool
		remains        bool
	}{
		{"preempted and deleted", "seller", "seller", false, false},
		{"preempted and stopped", "seller", "seller", true, true},
		{"shut down by itself", "machine", "machine", false, true},
		{"lost with its host", "fault", "fault", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := open(t, world{stays: tc.stays})
			token := p.token()
			i := p.buy(token)
			until(t, p.client, token, provider.Running)
			p.behind.Kill(p.fake.Behind(i.ID), tc.by)
			until(t, p.again(), token, provider.Gone)
			gone := until(t, p.again(), token, provider.Gone) // by who never saw it alive
			if gone.EndedBy != tc.want || gone.Ended.IsZero() || !gone.Started.Equal(i.Started) {
				t.Errorf("gone as %+v", gone)
			}
			if again, err := p.client.Launch(t.Context(), p.spec(), token); err != nil || again.State != provider.Gone || again.EndedBy != tc.want {
				t.Errorf("the token gave %+v, %v", again, err)
			}
			if (gone.Price() > 0) != tc.remains {
				t.Errorf("the price is %v; it is known after a restart only of what remains (%v)", gone.Prices, tc.remains)
			}
			if err := p.client.Terminate(t.Context(), i.ID); err != nil {
				t.Errorf("deleting what is left: %v", err)
			}
			if after := until(t, p.again(), token, provider.Gone); after.EndedBy != tc.want || !after.Ended.Equal(gone.Ended) {
				t.Errorf("after its deletion it ended as %+v, before as %+v", after, gone)
			}
			if bought := len(p.behind.Intervals()); bought != 1 {
				t.Errorf("%d machines were bought", bought)
			}
		})
	}
}

func TestOthersMachinesAreNeitherListedNorTouched(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		unheeded bool
	}{{"the filter is heeded", false}, {"the filter is not heeded", true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := open(t, world{unheeded: tc.unheeded, page: 1})
			pool := p.spec().Pool
			alien := p.behind.Foreign(pool, "01jother-1-1", map[string]string{"spotferry-mark": "prod"}, true)
			theirs := p.configs
			theirs.Mark = "other"
			other, err := gcp.New(theirs)
			if err != nil {
				t.Fatal(err)
			}
			token := p.token()
			mine := p.buy(token)
			his, err := other.Launch(t.Context(), p.spec(), token) // the same token, another environment
			if err != nil || his.ID == mine.ID {
				t.Fatalf("the other environment got %+v, %v", his, err)
			}
			until(t, p.client, token, provider.Running)
			l, err := p.client.List(t.Context())
			if err != nil || len(l.Instances) != 1 || l.Instances[0].ID != mine.ID {
				t.Errorf("List = %+v, %v; want only %s", l, err, mine.ID)
			}
			for _, id := range []events.InstanceID{his.ID, events.InstanceID("us-central1-a/" + string(alien))} {
				if err := p.client.Terminate(t.Context(), id); provider.KindOf(err) != provider.Invalid {
					t.Errorf("Terminate(%s) = %v; want a refusal", id, err)
				}
			}
			if kills := p.behind.ForeignKills(); kills != 0 || len(p.behind.Live()) != 2 {
				t.Errorf("%d foreign machines were ended, %d of two environments live", kills, len(p.behind.Live()))
			}
		})
	}
}

func TestZonesThatDoNotAnswerMakeAListIncomplete(t *testing.T) {
	t.Parallel()
	p := open(t, world{})
	token := p.token()
	p.buy(token)
	until(t, p.client, token, provider.Running)
	p.fake.Unreachable("us-central1-a")
	l, err := p.client.List(t.Context())
	if err != nil || l.Complete || len(l.Instances) != 0 {
		t.Errorf("List = %+v, %v; want nothing, incomplete", l, err)
	}
	p.fake.Unreachable()
	until(t, p.client, token, provider.Running)
}
