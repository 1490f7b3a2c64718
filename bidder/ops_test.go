package bidder

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/bidder/ops"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// decideOps appends what operations decide and returns when it stands: acknowledged.
func (r *rig) decideOps(f events.Fact) ops.State {
	r.t.Helper()
	st, err := ops.NewBook(r.log, "/spotferry/test", time.Now).Append(r.ctx, "acme", func(ops.State) (events.Fact, error) { return f, nil })
	if err != nil {
		r.t.Error(err)
	}
	return st
}

func TestOperationsOverruleTheDecision(t *testing.T) {
	cheap, dear, od := quote("b1", events.Spot, 0.8), quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 3)
	hold := func(h ...events.OpsHeld) func(*Situation) { return func(s *Situation) { s.Inputs.Holds = h } }
	freeze := func(s *Situation) { s.Inputs.Frozen = &events.OpsFrozen{Reason: "incident 7", By: "ann"} }
	slow := events.OpsHeld{Seller: "s", Pool: &cheap.Offer.Pool, Reason: "slow disks", By: "bob"}
	broke := func(s *Situation) { s.Inputs.Spent = s.Inputs.Budget }
	for _, tc := range []struct {
		name   string
		s      Situation
		action string
		reason string
		pick   string // zone
		says   string // detail
	}{
		{"a held pool is not bought although it is the cheapest", situation(cheap, dear, od).with(hold(slow)), Buy, "", "a1", ""},
		{"a hold of another pool changes nothing", situation(cheap, dear, od).with(hold(events.OpsHeld{Seller: "s", Pool: &dear.Offer.Pool})), Buy, "", "b1", ""},
		{"a hold of another seller changes nothing", situation(cheap).with(hold(events.OpsHeld{Seller: "x"})), Buy, "", "b1", ""},
		{"a held seller leaves nothing to buy", situation(cheap, dear, od).with(hold(events.OpsHeld{Seller: "s", Reason: "reclaims", By: "ann"})), Wait, NoCapacity, "", "holds in force: 1"},
		{"not even to meet a deadline", situation(cheap, od).with(hold(events.OpsHeld{Seller: "s"})).with(func(s *Situation) { s.Inputs.TimeLeftS = 10 * 3600 }), Wait, NoCapacity, "", ""},
		{"frozen, nothing is bought", situation(cheap, dear, od).with(freeze), Wait, Frozen, "", "frozen: incident 7 (by ann)"},
		{"not even to meet a deadline, frozen", situation(cheap, od).with(freeze).with(func(s *Situation) { s.Inputs.TimeLeftS = 10 * 3600 }), Wait, Frozen, "", ""},
		{"frozen without anything to buy is frozen too", situation().with(freeze), Wait, Frozen, "", ""},
		{"frozen, a job that could move stays", situation(cheap, dear, od).with(on("a1", events.OnDemand, 3)).with(freeze), Keep, "", "", "frozen: incident 7 (by ann)"},
		{"and unfrozen it would not", situation(cheap, dear, od).with(on("a1", events.OnDemand, 3)), Move, "", "b1", ""},
		{"a held pool is not moved to", situation(cheap, od).with(on("a1", events.OnDemand, 3)).with(hold(slow)), Keep, "", "", "no other pool"},
		{"frozen, a job without money still ends", situation(cheap, od).with(broke).with(freeze), Stop, string(events.OutOfBudget), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide(tc.s)
			zone := ""
			if d.Chosen >= 0 {
				zone = d.Candidates[d.Chosen].Offer.Pool.Zone
			}
			if d.Action != tc.action || d.Reason != tc.reason || zone != tc.pick || !strings.Contains(d.Detail, tc.says) {
				t.Errorf("%s %s %s: %s", d.Action, d.Reason, zone, d.Detail)
			}
			if len(d.Candidates) != len(tc.s.Quotes) {
				t.Errorf("%d candidates on record of %d", len(d.Candidates), len(tc.s.Quotes))
			}
			if again := Decide(SituationOf(tc.s.Spec, d)); !reflect.DeepEqual(again, d) {
				t.Errorf("replays to %+v", again)
			}
		})
	}
	d := Decide(situation(cheap, dear, od).with(hold(slow)))
	if i := slices.IndexFunc(d.Candidates, func(c events.Candidate) bool { return c.Offer.Pool.Zone == "b1" }); i < 0 || d.Candidates[i].WhyNot != "held: slow disks (by bob)" || d.Candidates[i].Score == 0 {
		t.Errorf("the held pool on record: %+v", d.Candidates)
	}
}

func TestADecisionUnderHoldsAndFreezesReplaysFromItsRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		for _, q := range s.Quotes {
			switch rapid.IntRange(0, 3).Draw(t, "hold") {
			case 0:
				s.Inputs.Holds = append(s.Inputs.Holds, events.OpsHeld{Seller: q.Offer.Pool.Seller, Pool: &q.Offer.Pool, Reason: "r", By: "b"})
			case 1:
				if rapid.IntRange(0, 9).Draw(t, "whole") == 0 {
					s.Inputs.Holds = append(s.Inputs.Holds, events.OpsHeld{Seller: q.Offer.Pool.Seller, Reason: "r", By: "b"})
				}
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "frozen") == 0 {
			s.Inputs.Frozen = &events.OpsFrozen{Reason: "r", By: "b"}
		}
		d := Decide(s)
		if d.Action == Buy || d.Action == Move {
			if s.Inputs.Frozen != nil || heldBy(s.Inputs.Holds, d.Candidates[d.Chosen].Offer.Pool) != nil {
				t.Fatalf("%s of what is barred", d.Action)
			}
		}
		wire, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var read events.Decision
		if err := json.Unmarshal(wire, &read); err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(Decide(SituationOf(s.Spec, read))); string(again) != string(wire) {
			t.Fatalf("replayed:\n%s\nrecorded:\n%s", again, wire)
		}
	})
}

func TestAHeldPoolIsNotBoughtFromAndAReleasedOneIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.8))
		held := pool("b1", events.Spot)
		r.decideOps(events.OpsHeld{Seller: "s", Pool: &held, Reason: "slow disks", By: "bob"})
		stop := r.start()
		defer stop()
		first := r.submit("job", anyGPU())
		first.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return first.current() != "" })
			if in := facts[events.LeaseIntended](r); len(in) != 1 || in[0].Offer.Pool.Zone != "a1" || len(in[0].Decision.Inputs.Holds) != 1 {
				t.Errorf("bought %+v", in)
			}
			r.decideOps(events.OpsHeld{Seller: "s", Reason: "all of it", By: "bob"})
			second := r.submit("other", anyGPU())
			second.do(func() {
				time.Sleep(5 * time.Minute)
				if second.current() != "" {
					t.Error("bought from a held seller")
				}
				r.decideOps(events.OpsReleased{Seller: "s", By: "bob"})
				r.decideOps(events.OpsReleased{Seller: "s", Pool: &held, By: "bob"})
				r.eventually("a machine once released", 5*time.Second, func() bool { return second.current() != "" })
				second.finish()
				first.finish()
				r.eventually("closed", time.Minute, r.closed("job", "other"))
			})
		})
		r.audit()
	})
}

func TestFrozenNothingIsBoughtAndWhatRunsIsPaidOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 3))
		stop := r.start()
		defer stop()
		runs := r.submit("runs", anyGPU())
		runs.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return runs.current() != "" })
			r.decideOps(events.OpsFrozen{Reason: "incident 7", By: "ann"})
			late := r.submit("late", anyGPU())
			late.do(func() {
				time.Sleep(20 * time.Minute) // 200 market minutes
				if late.current() != "" || len(facts[events.LeaseLaunched](r)) != 1 {
					t.Error("bought although frozen")
				}
				d := facts[events.LeaseDeclined](r)
				if len(d) == 0 || len(d) > 3 || d[0].Reason != Frozen || d[0].Detail != "frozen: incident 7 (by ann)" || d[0].Decision.Inputs.Frozen == nil {
					t.Errorf("declined %d: %+v", len(d), d)
				}
				extended := 0
				for _, e := range r.log.Events(events.FilterMoney) {
					switch f := e.Fact.(type) {
					case events.MoneyExtended:
						extended++
					case events.MoneyReserved:
						if f.Job == "late" {
							t.Error("money was set aside for a new machine")
						}
					}
				}
				if extended < 2 || runs.current() == "" {
					t.Errorf("extended %d times, running %q: what runs is to go on", extended, runs.current())
				}
				r.decideOps(events.OpsUnfrozen{Reason: "over", By: "ann"})
				r.eventually("a machine again", 5*time.Second, func() bool { return late.current() != "" })
				late.finish()
				runs.finish()
				r.eventually("closed", time.Minute, r.closed("runs", "late"))
			})
		})
		r.audit()
	})
}

// TestAFreezeAtTheWorstMoment freezes between the steps of a purchase.
func TestAFreezeAtTheWorstMoment(t *testing.T) {
	for _, tc := range []struct {
		name    string
		point   string
		thaw    bool          // and unfreezes at once: the intent is void all the same
		then    []events.Fact // that the lease ends in
		freedBy time.Duration
	}{
		{"before anything is set aside", CrashBeforeIntent, false, []events.Fact{events.LeaseIntended{}, events.LeaseDeclined{}}, time.Minute},
		{"after money was set aside, before the intent", CrashReserved, false, []events.Fact{events.LeaseIntended{}, events.LeaseDeclined{}}, time.Minute},
		{"before the intent, and unfrozen before the call", CrashReserved, true, []events.Fact{events.LeaseIntended{}, events.LeaseDeclined{}}, time.Minute},
		{"after the intent, before the call", CrashAfterIntent, false, []events.Fact{events.LeaseIntended{}, events.LeaseUnknown{}, events.LeaseRefused{}}, 10 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 3))
				var freeze, thaw sync.Once
				stop := r.start(func(c *Config) {
					c.Crash = func(point string) {
						if point == tc.point {
							freeze.Do(func() { r.decideOps(events.OpsFrozen{Reason: "incident", By: "ann"}) })
						}
						if tc.thaw && point == CrashAfterIntent {
							thaw.Do(func() { r.decideOps(events.OpsUnfrozen{By: "ann"}) })
						}
					}
				})
				defer stop()
				o := r.submit("job", anyGPU())
				o.do(func() {
					r.eventually("nothing is reserved for it", tc.freedBy, func() bool {
						l, ok := r.books().Lease("job-1-1")
						return ok && l.Reserved == 0
					})
					if n := r.fake.Calls("launch"); n != 0 && !tc.thaw { // unfrozen, it buys again at once
						t.Errorf("%d calls to the seller", n)
					}
					evs, _ := r.log.Read(t.Context(), events.LeaseAggregate("acme", "job-1-1"), 0)
					var got []reflect.Type
					for _, e := range evs {
						got = append(got, reflect.TypeOf(e.Fact))
					}
					var want []reflect.Type
					for _, f := range tc.then {
						want = append(want, reflect.TypeOf(f))
					}
					if !slices.Equal(got, want) {
						t.Errorf("the lease went %v, want %v", got, want)
					}
					if !tc.thaw {
						r.decideOps(events.OpsUnfrozen{By: "ann"})
					}
					r.eventually("a machine", 20*time.Minute, func() bool { return o.current() != "" })
					if o.current() == "job-1-1" {
						t.Error("a void intent was taken up again")
					}
					o.finish()
					r.eventually("closed", time.Minute, r.closed("job"))
				})
				r.audit()
			})
		})
	}
}

// TestNoCommitmentFollowsAnAcknowledgedFreeze: two bidders at once, jobs that come all
// the time, freezes at random moments. Every machine's intent stands where
// nothing was frozen, and once a freeze is acknowledged no seller is called for an intent after it.
func TestNoCommitmentFollowsAnAcknowledgedFreeze(t *testing.T) {
	seeds(t, 15, func(t *testing.T, seed uint64, random *rand.Rand) {
		var gaps, starts [6]int // milliseconds between freezes and thaws, and before each job
		for i := range gaps {
			gaps[i], starts[i] = random.IntN(3000), random.IntN(9000)
		}
		bubble(t, func(t *testing.T) {
			r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.8), quote("a1", events.OnDemand, 3))
			one, other := r.startSlow(seed, 0), r.startSlow(seed, 1)
			ids := []events.JobID{"a", "b", "c", "d"}
			owners := make([]*owner, len(ids))
			var wg sync.WaitGroup
			for i, id := range ids {
				wg.Add(1)
				go func() {
					defer wg.Done()
					time.Sleep(time.Duration(starts[i]) * time.Millisecond)
					o := r.submit(id, anyGPU())
					owners[i] = o
					o.do(func() {
						r.eventually("a machine", time.Hour, func() bool { return o.current() != "" })
						o.finish()
						r.eventually("closed", time.Hour, r.closed(id))
					})
				}()
			}
			for i, ms := range gaps {
				time.Sleep(time.Duration(ms) * time.Millisecond)
				if i%2 == 0 {
					r.decideOps(events.OpsFrozen{Reason: "drawn", By: "ann"})
				} else {
					r.decideOps(events.OpsUnfrozen{Reason: "drawn", By: "ann"})
				}
			}
			wg.Wait()
			one()
			other()
			r.audit()
			book := ops.NewBook(r.log, "x", time.Now)
			intents := map[string]uint64{}
			for _, e := range r.log.Events(events.FilterLeases) {
				switch e.Fact.(type) {
				case events.LeaseIntended:
					intents[e.Aggregate.ID] = e.Position
				case events.LeaseLaunched:
					if then, _, err := book.At(t.Context(), "acme", intents[e.Aggregate.ID]); err != nil || then.Freeze != nil {
						t.Errorf("%s was bought on an intent made while frozen\n%s", e.Aggregate.ID, r.story())
					}
				}
			}
			for _, m := range r.fake.Invoice() {
				if _, ordered := intents[m.Token]; !ordered {
					t.Errorf("a machine for %s without an intent", m.Token)
				}
			}
		})
	})
}

func TestReapingOnRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 3))
		theirs := r.fake.Foreign(pool("a1", events.Spot), "someone-1-1", map[string]string{"env": "other"}, true)
		r.fake.Script("launch", providertest.Fault{Mode: providertest.Duplicate})
		stop := r.start(func(c *Config) { c.Timers.Settle = time.Hour }) // the reaper would wait for long
		defer stop()
		o := r.submit("job", anyGPU())
		o.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
			time.Sleep(10 * time.Second)
			var mine events.InstanceID
			for _, f := range facts[events.LeaseLaunched](r) {
				mine = f.Instance
			}
			var all []events.InstanceID
			for _, i := range r.fake.Live() {
				all = append(all, i.Instance)
			}
			if len(all) != 2 {
				t.Fatalf("%d machines of ours, want the wanted one and its twin", len(all))
			}
			r.decideOps(events.OpsReapRequested{Instances: append(all, theirs, "i-nobody"), Reason: "tidy", By: "ann"})
			r.eventually("the twin is gone", time.Minute, func() bool { return len(r.fake.Live()) == 1 })
			if live := r.fake.Live(); live[0].Instance != mine {
				t.Errorf("%s lives, want %s", live[0].Instance, mine)
			}
			if _, ok := r.fake.Instance(theirs); !ok || r.fake.ForeignKills() != 0 {
				t.Error("a machine of another installation was touched")
			}
			o.finish()
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		r.audit()
	})
}
