package bidder

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

func bubble(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, run)
}

func TestAJobIsBoughtTheCheapestMachineAndEveryCentIsAccounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.8), quote("a1", events.OnDemand, 3))
		stop := r.start()
		defer stop()
		o := r.submit("job", anyGPU())
		o.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
			time.Sleep(20 * time.Minute) // 200 market minutes: the reservation has to grow
			o.finish()
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		s := r.audit()
		in := facts[events.LeaseIntended](r)
		if len(in) != 1 || in[0].Offer.Pool.Zone != "b1" || in[0].Reserved <= 0 {
			t.Errorf("intents: %+v", in)
		}
		bill := s.Statement("job")
		if bill.Total == 0 || bill.OnDemand <= bill.Total || bill.Account.Overrun != 0 || bill.Lines[0].Finality != events.Final {
			t.Errorf("statement: %+v", bill)
		}
		extended := 0
		for _, e := range r.log.Events(events.FilterMoney) {
			if _, ok := e.Fact.(events.MoneyExtended); ok {
				extended++
			}
			if e.Attribution.Team != "vision" || e.Correlation != "job" {
				t.Errorf("%s is attributed to %+v, correlation %q", e.ID, e.Attribution, e.Correlation)
			}
		}
		if extended < 3 || extended > 12 {
			t.Errorf("extended %d times in 200 market minutes", extended)
		}
	})
}

func TestARefusalGoesToTheNextCandidateAndCoolsThePool(t *testing.T) {
	for _, kind := range []provider.Kind{provider.NoCapacity, provider.PriceTooLow, provider.OfferGone, provider.Quota, provider.Invalid, provider.NotFound, provider.Transient} {
		t.Run(kind.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				other := quote("b1", events.Spot, 0.8)
				other.Offer.Pool.InstanceType = "p4" // a quota is of a type
				r := newRig(t, quote("a1", events.Spot, 1), other, quote("a1", events.OnDemand, 3))
				r.fake.Script("launch", providertest.Fault{Mode: providertest.Fail, Kind: kind})
				stop := r.start()
				defer stop()
				o := r.submit("job", anyGPU())
				o.do(func() {
					r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
					if o.current() != "job-1-2" {
						t.Errorf("bought as %s, want job-1-2", o.current())
					}
					in := facts[events.LeaseIntended](r)
					if len(in) != 2 || in[1].Offer.Pool.Zone != "a1" || len(in[1].Decision.Inputs.CoolDowns) == 0 || in[1].Decision.Inputs.CoolDowns[0].Why != kindWhy(kind) {
						t.Errorf("second intent: %+v", in[1].Decision.Inputs)
					}
					o.finish()
					r.eventually("closed", time.Minute, r.closed("job"))
				})
				r.audit()
			})
		})
	}
}

func kindWhy(k provider.Kind) string {
	if k == provider.NotFound {
		return "not_found"
	}
	return k.String()
}

func TestAnAnswerThatWasLostIsReconciledToOneMachine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults []providertest.Fault
	}{
		{"the answer is lost", []providertest.Fault{{Mode: providertest.Lost}}},
		{"the answer is lost three times", providertest.Times(3, providertest.Fault{Mode: providertest.Lost})},
		{"no, but there is a machine", []providertest.Fault{{Mode: providertest.FailAfter, Kind: provider.Transient}}},
		{"the answer never comes", []providertest.Fault{{Mode: providertest.Hang}}},
		{"the answer is slow", []providertest.Fault{{Mode: providertest.Slow, For: time.Minute}}},
		{"the answer is a proxy's page", []providertest.Fault{{Mode: providertest.Garbage}}},
		{"lost before anything happened, many times", providertest.Times(6, providertest.Fault{Mode: providertest.Fail, Kind: provider.UnknownOutcome})},
		{"two machines for one token", []providertest.Fault{{Mode: providertest.Duplicate}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 3))
				r.fake.Foreign(pool("a1", events.Spot), "job-1-1", map[string]string{"env": "other"}, true)
				r.fake.Script("launch", tc.faults...)
				stop := r.start()
				defer stop()
				o := r.submit("job", anyGPU())
				o.do(func() {
					r.eventually("a machine", 15*time.Minute, func() bool { return o.current() != "" })
					r.eventually("no other", 10*time.Minute, func() bool { return len(r.fake.Live()) == 1 })
					o.finish()
					r.eventually("closed", 20*time.Minute, r.closed("job"))
				})
				r.audit()
			})
		})
	}
}

// shy answers from the second launch on without looking for the token.
type shy struct {
	provider.Provider
	answer   provider.Error
	launches atomic.Int64
}

func (s *shy) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	if s.launches.Add(1) > 1 {
		answer := s.answer
		return provider.Instance{}, &answer
	}
	return s.Provider.Launch(ctx, spec, token)
}

func TestAnAnswerThatIsNotOfTheTokenSaysNothingOfTheCallBefore(t *testing.T) {
	for name, answer := range map[string]provider.Error{
		"it never left":       {Kind: provider.Transient, Op: "launch", Code: "breaker_open", Err: provider.ErrHeldBack},
		"too many requests":   {Kind: provider.Throttled, Op: "launch", Code: "RequestLimitExceeded"},
		"keys that ran out":   {Kind: provider.Auth, Op: "launch", Code: "AuthFailure"},
		"trouble of its own":  {Kind: provider.Transient, Op: "launch", Code: "503"},
		"nothing it can name": {Kind: provider.UnknownOutcome, Op: "launch", Code: "500"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, quote("a1", events.Spot, 1))
				r.fake.Script("launch", providertest.Fault{Mode: providertest.Lost})
				seller := &shy{Provider: r.seller, answer: answer}
				stop := r.start(func(c *Config) { c.Sellers = map[string]provider.Provider{"s": seller} })
				defer stop()
				o := r.submit("job", anyGPU())
				o.do(func() {
					r.eventually("the machine whose answer was lost", 15*time.Minute, func() bool { return o.current() != "" })
					if l := o.current(); l != "job-1-1" {
						t.Errorf("the job is on %s: the first lease was given up", l)
					}
					o.finish()
					r.eventually("closed", 20*time.Minute, r.closed("job"))
				})
				if seller.launches.Load() < 2 {
					t.Fatal("no second call was made")
				}
				r.audit()
			})
		})
	}
}

func TestWithoutCapacityTheJobIsToldOnceAndBoughtWhenItReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1))
		spec := anyGPU()
		spec.Policy.Spot.Mode = events.SpotOnly
		r.fake.SetStock(pool("a1", events.Spot), 0)
		never := false
		r.lie = func(o events.Offer) events.Offer { o.InStock = &never; return o }
		stop := r.start()
		defer stop()
		o := r.submit("job", spec)
		o.do(func() {
			time.Sleep(9 * time.Minute)
			if d := facts[events.LeaseDeclined](r); len(d) != 1 || d[0].Reason != NoCapacity || len(d[0].Decision.Candidates) != 1 {
				t.Errorf("declined: %+v", d)
			}
			r.bump(func() { r.fake.SetStock(pool("a1", events.Spot), 1); r.mu.Lock(); r.lie = nil; r.mu.Unlock() })
			r.eventually("a machine", 10*time.Second, func() bool { return o.current() != "" })
			o.finish()
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		r.audit()
	})
}

// dear buys at a price above the one agreed, as a seller does that ignores limits.
type dear struct {
	*providertest.Fake
	at events.PerInstanceHour
}

func (d dear) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	spec.MaxPrice = d.at
	return d.Fake.Launch(ctx, spec, token)
}

func TestAMachineAboveTheAgreedPriceIsGivenBackBeforeAnythingRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 4), quote("b1", events.Spot, 1), quote("b1", events.OnDemand, 3))
		r.lie = func(o events.Offer) events.Offer {
			if o.Pool.Zone == "a1" {
				o.Price = 28e7 // quoted 0.28, sold at 4
			}
			return o
		}
		r.seller = dear{r.fake, 5 * events.DollarPerHour}
		stop := r.start()
		defer stop()
		o := r.submit("job", anyGPU())
		o.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
			back := facts[events.LeaseTerminating](r)
			if len(back) != 1 || !strings.Contains(back[0].Reason, "quoted 0.28") || o.current() != "job-1-2" {
				t.Errorf("given back %+v, running %s", back, o.current())
			}
			o.finish()
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		r.audit()
	})
}

func TestTheJobIsToldBeforeItsMoneyEndsAndNothingIsOverspent(t *testing.T) {
	for _, tc := range []struct {
		name string
		heed bool
	}{{"a job that stops in time", true}, {"a job that does not listen", false}} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 3))
				spec := anyGPU()
				spec.Policy.Budget, spec.Policy.Work = 5*events.Dollar, events.Work{}
				stop := r.start()
				defer stop()
				o := r.submit("job", spec)
				ended := func() bool { return len(facts[events.LeaseEnded](r)) > 0 }
				o.do(func() {
					r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
					o.mu.Lock()
					o.deaf = !tc.heed
					o.mu.Unlock()
					r.eventually("the end", 10*time.Hour, ended)
					o.finish()
					if tc.heed {
						r.eventually("closed", time.Minute, r.closed("job"))
					}
				})
				time.Sleep(time.Minute)
				a := r.audit().Account("job")
				if a.Spent > a.Limit || a.Overrun > 0 || a.Spent < 3*events.Dollar {
					t.Errorf("account %+v", a)
				}
				d := facts[events.LeaseDeclined](r)
				if len(d) != 1 || d[0].Reason != "out-of-budget" {
					t.Errorf("declined %+v", d)
				}
			})
		})
	}
}

func TestADeleteThatFailsForAnHourIsRepeatedAndPaidFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 3))
		stop := r.start()
		defer stop()
		o := r.submit("job", anyGPU())
		o.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
			r.fake.Script("terminate", providertest.Times(60, providertest.Fault{Mode: providertest.Fail, Kind: provider.Transient})...)
			o.finish()
			time.Sleep(50 * time.Minute)
			if l := facts[events.LeaseEnded](r); len(l) != 0 || len(r.fake.Live()) != 1 {
				t.Errorf("ended %v, %d live", l, len(r.fake.Live()))
			}
			r.eventually("closed", time.Hour, r.closed("job"))
		})
		if calls := r.fake.Calls("terminate"); calls > 70 {
			t.Errorf("%d terminate calls", calls)
		}
		s := r.books()
		if s.Account("job").Spent != r.fake.MeterTotal() {
			t.Errorf("ledger %s, meter %s", s.Account("job").Spent, r.fake.MeterTotal())
		}
	})
}

func TestAReclaimIsSeenAndReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.8), quote("a1", events.OnDemand, 3))
		stop := r.start()
		defer stop()
		o := r.submit("job", anyGPU())
		o.do(func() {
			for n := range 3 {
				r.eventually("a machine", 5*time.Minute, func() bool { return o.current() == events.JobID("job").Lease(n+1, 1) })
				time.Sleep(time.Minute)
				for _, i := range r.fake.Live() {
					r.fake.Kill(i.Instance, "seller")
				}
			}
			r.eventually("a machine", 5*time.Minute, func() bool { return o.current() == "job-4-1" })
			o.finish()
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		r.audit()
		in := facts[events.LeaseIntended](r)
		last := in[len(in)-1]
		if last.Offer.Pool.Zone != "a1" || len(last.Decision.Inputs.CoolDowns) != 1 || !strings.Contains(last.Decision.Inputs.CoolDowns[0].Why, "flapping") {
			t.Errorf("after three reclaims in one pool within the hour: %s, cool-downs %+v", last.Offer.Pool, last.Decision.Inputs.CoolDowns)
		}
	})
}

// TestWhatAMachineLeavesIsClearedAway: sellers that stop a machine in place of
// deleting it go on billing its disk, however the lease has ended.
func TestWhatAMachineLeavesIsClearedAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.8))
		r.fake.Leave(true)
		stop := r.start()
		defer stop()
		o := r.submit("job", anyGPU())
		o.do(func() {
			r.eventually("a machine", 5*time.Minute, func() bool { return o.current() == "job-1-1" })
			r.fake.Script(provider.OpTerminate, providertest.Times(3, providertest.Fault{Mode: providertest.Fail, Kind: provider.Transient})...)
			for _, i := range r.fake.Live() {
				r.fake.Kill(i.Instance, "seller")
			}
			if r.fake.Remaining() != 1 {
				t.Fatalf("%d disks remain of a machine that its seller has stopped, want 1", r.fake.Remaining())
			}
			r.eventually("another machine", 5*time.Minute, func() bool { return o.current() == "job-2-1" })
			r.eventually("nothing left of the first", 5*time.Minute, func() bool { return r.fake.Remaining() == 0 })
			o.finish()
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		r.audit()
	})
}

func TestSpotThatIsBackForGoodIsReturnedToOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.OnDemand, 3))
		spot := quote("b1", events.Spot, 1).Offer
		spec := anyGPU()
		spec.Policy.Work.Steps = 1000
		stop := r.start()
		defer stop()
		o := r.submit("job", spec)
		o.do(func() {
			r.eventually("on demand after the patience", time.Hour, func() bool { return o.current() != "" })
			for i := range 60 { // an hour, 10 market hours
				switch {
				case i == 5:
					r.bump(func() { r.fake.Put(spot) })
				case i == 20:
					r.bump(func() { r.fake.Put(spot) })
				}
				if i == 5 {
					time.Sleep(3 * time.Second) // half a market minute
					r.bump(func() { r.fake.Remove(spot.Pool) })
				}
				o.commit(int64(i + 1))
				time.Sleep(time.Minute)
				o.mu.Lock()
				moves := o.moves
				o.mu.Unlock()
				if i < 20 && moves > 0 {
					t.Fatalf("moved for spot that was there for half a minute\n%s", r.story())
				}
			}
			if o.moves != 1 {
				t.Errorf("%d moves, want 1\n%s", o.moves, r.story())
			}
			o.finish()
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		r.audit()
		for _, in := range facts[events.LeaseIntended](r) {
			again := Decide(SituationOf(spec, in.Decision))
			if again.Action != in.Decision.Action || again.Rule != in.Decision.Rule || again.Chosen != in.Decision.Chosen {
				t.Errorf("recorded %s %s %d, replayed %s %s %d", in.Decision.Action, in.Decision.Rule, in.Decision.Chosen, again.Action, again.Rule, again.Chosen)
			}
		}
	})
}

func TestManyJobsManyServicesOneBudgetEach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.8), quote("a1", events.OnDemand, 3))
		stops := []func(){r.start(), r.start()}
		var ids []events.JobID
		var owners []*owner
		for i := range 8 {
			id := events.JobID(fmt.Sprintf("job%d", i))
			ids, owners = append(ids, id), append(owners, r.submit(id, anyGPU()))
		}
		var nest func(i int)
		nest = func(i int) {
			if i < len(owners) {
				owners[i].do(func() { nest(i + 1) })
				return
			}
			for _, o := range owners {
				r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
			}
			time.Sleep(5 * time.Minute)
			if n := len(r.fake.Live()); n != len(owners) {
				t.Errorf("%d machines for %d jobs", n, len(owners))
			}
			for _, o := range owners {
				o.finish()
			}
			r.eventually("closed", time.Minute, r.closed(ids...))
		}
		nest(0)
		for _, stop := range stops {
			stop()
		}
		r.audit()
	})
}

func TestAMachineWithOurMarkThatNoLeaseNamesIsGivenBackAndOthersAreNot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1))
		r.fake.Foreign(pool("a1", events.Spot), "nobody knows me", map[string]string{"env": "test", "org": "acme"}, true)
		r.fake.Foreign(pool("a1", events.Spot), "job-1-1", map[string]string{"env": "other", "org": "acme"}, true)
		r.fake.Foreign(pool("a1", events.Spot), "job-1-2", nil, true)
		r.fake.Script("list", providertest.Times(3, providertest.Fault{Mode: providertest.Partial})...)
		stop := r.start()
		defer stop()
		time.Sleep(r.cfg.Timers.Settle)
		if n := r.fake.ForeignKills(); n != 0 {
			t.Errorf("%d machines ended before they had time to be explained", n)
		}
		time.Sleep(r.cfg.Timers.GC - r.cfg.Timers.Settle)
		if n := r.fake.ForeignKills(); n != 1 {
			t.Errorf("%d machines ended, want the one with our mark", n)
		}
	})
}
