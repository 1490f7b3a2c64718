package bidder

import (
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
)

// setBudget gives a job another limit, as a person does.
func (r *rig) setBudget(job events.JobID, limit events.MicroUSD) {
	r.t.Helper()
	_, err := ledger.NewBook(r.log, "/spotferry/test", time.Now).Append(r.ctx, "acme", func(*ledger.State) (*ledger.Draft, error) {
		return &ledger.Draft{
			Fact:        events.BudgetSet{Job: job, Limit: limit, By: "ann", Reason: "changed my mind"},
			Attribution: events.Attribution{Org: "acme", Team: "vision"}, Correlation: job,
		}, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// committed counts what was set aside after a position of the money's stream.
func (r *rig) committed(after uint64) (n int) {
	for _, e := range r.log.Events(events.FilterMoney) {
		if e.Position > after && commits(e, "job") {
			n++
		}
	}
	return n
}

func (r *rig) moneyAt() uint64 {
	all := r.log.Events(events.FilterMoney)
	return all[len(all)-1].Position
}

// limited runs a job of 50 dollars on a machine of a dollar an hour, 10 market seconds in one of ours.
func limited(t *testing.T, f func(t *testing.T, r *rig, o *owner)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 1.5))
		spec := anyGPU()
		spec.Policy.Budget, spec.Policy.Work = 50*events.Dollar, events.Work{}
		stop := r.start()
		defer stop()
		o := r.submit("job", spec)
		o.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
			f(t, r, o)
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		r.audit()
	})
}

func isOver(o *owner) func() bool {
	return func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.over }
}

func TestALimitBelowWhatIsSpentEndsTheJobAtOnceAndInOrder(t *testing.T) {
	limited(t, func(t *testing.T, r *rig, o *owner) {
		time.Sleep(30 * time.Minute) // 5 market hours: about 5 dollars
		at := r.moneyAt()
		r.setBudget("job", 2*events.Dollar)
		r.eventually("the job is told", 5*time.Second, isOver(o))
		d := facts[events.LeaseDeclined](r)
		if len(d) != 1 || d[0].Reason != string(events.OutOfBudget) || !strings.Contains(d[0].Detail, "$2.00 is below what is spent") {
			t.Errorf("declined %+v", d)
		}
		if n := r.committed(at); n != 0 {
			t.Errorf("%d commitments after the limit was lowered", n)
		}
	})
}

func TestALimitBelowWhatIsCommittedIsKeptAndTheJobToldInTime(t *testing.T) {
	limited(t, func(t *testing.T, r *rig, o *owner) {
		time.Sleep(30 * time.Minute)
		at := r.moneyAt()
		r.setBudget("job", 6*events.Dollar) // spent about 5, reserved up to 50
		time.Sleep(2 * time.Second)
		if isOver(o)() {
			t.Error("told although an hour is covered")
		}
		r.eventually("the job is told", 15*time.Minute, isOver(o))
		if n := r.committed(at); n > 1 {
			t.Errorf("%d commitments", n)
		}
		r.eventually("closed", time.Minute, r.closed("job"))
		if a := r.books().Account("job"); a.Spent > a.Limit || a.Spent < 5*events.Dollar || a.Overrun != 0 {
			t.Errorf("account %+v", a)
		}
	})
}

func TestARaisedLimitCarriesTheJobOn(t *testing.T) {
	limited(t, func(t *testing.T, r *rig, o *owner) {
		r.setBudget("job", 6*events.Dollar)
		time.Sleep(10 * time.Minute)
		r.setBudget("job", 40*events.Dollar)
		time.Sleep(time.Hour) // 10 market hours
		if isOver(o)() {
			t.Error("the job was told although there is money again")
		}
		o.finish()
		r.eventually("closed", time.Minute, r.closed("job"))
		if a := r.books().Account("job"); a.Spent < 8*events.Dollar {
			t.Errorf("account %+v", a)
		}
	})
}

func TestALimitSetBeforeTheFirstPurchaseIsTheOneThatCounts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit events.MicroUSD
		buys  bool
	}{{"enough", 30 * events.Dollar, true}, {"less than any machine needs", events.Dollar / 1000, false}} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 3))
				o := r.submit("job", anyGPU())
				r.setBudget("job", tc.limit)
				stop := r.start()
				defer stop()
				o.do(func() {
					r.eventually("it is settled", time.Minute, func() bool { return o.current() != "" || isOver(o)() })
					if (o.current() != "") != tc.buys {
						t.Errorf("bought %q", o.current())
					}
					o.finish()
					r.eventually("closed", time.Minute, r.closed("job"))
				})
				if l := r.audit().Limits("job"); len(l) != 1 || l[0].By != "ann" || l[0].Amount != tc.limit || l[0].Reason != "changed my mind" {
					t.Errorf("limits %+v", l)
				}
			})
		})
	}
}

func TestAMachineThatBootsIsGivenBackWhenItsMoneyIsTakenAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("a1", events.OnDemand, 3))
		stop := r.start()
		defer stop()
		o := r.submit("job", anyGPU())
		o.deaf = true // its machine is never placed
		o.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return len(facts[events.LeaseLaunched](r)) == 1 })
			r.setBudget("job", events.Dollar/1000)
			r.eventually("it is gone", time.Minute, func() bool { return len(facts[events.LeaseEnded](r)) == 1 })
			if back := facts[events.LeaseTerminating](r); len(back) != 1 || back[0].Reason != string(events.OutOfBudget) {
				t.Errorf("given back %+v", back)
			}
			o.finish()
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		r.audit()
	})
}
