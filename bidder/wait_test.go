package bidder

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func TestNothingIsBoughtBeforeTheTimeThatTheJobSays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 1))
		stop := r.start()
		defer stop()
		o := r.submit("job", anyGPU())
		o.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
			o.mu.Lock()
			till := time.Now().Add(5 * time.Minute)
			o.notTill = till
			o.mu.Unlock()
			for _, i := range r.fake.Live() {
				r.fake.Kill(i.Instance, "machine")
			}
			r.eventually("the loss", time.Minute, func() bool { return o.current() == "" })
			for time.Now().Before(till.Add(-time.Second)) {
				time.Sleep(30 * time.Second)
				r.bump(func() {}) // the market is no reason to hurry
			}
			if got := o.current(); got != "" && time.Now().Before(till) {
				t.Errorf("%s was bought before", got)
			}
			r.eventually("the next machine", time.Minute, func() bool { return o.current() != "" })
			for _, e := range r.log.Events(events.FilterLeases) {
				if f, ok := e.Fact.(events.LeaseIntended); ok && f.Epoch == 2 && e.Time.Before(till) {
					t.Errorf("intended at %s, not before %s", e.Time, till)
				}
			}
			o.finish()
			r.eventually("closed", time.Minute, r.closed("job"))
		})
		r.audit()
	})
}

func TestATrainersOwnGraceIsPaidFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const grace = 20 * time.Minute // 200 minutes of the market's
		r := newRig(t, quote("a1", events.Spot, 1))
		spec := anyGPU()
		spec.Policy.Budget, spec.Policy.Work = 30*events.Dollar, events.Work{}
		spec.Policy.Checkpoint.GraceS = int64(grace / time.Second)
		stop := r.start()
		defer stop()
		o := r.submit("job", spec)
		o.do(func() {
			r.eventually("a machine", time.Minute, func() bool { return o.current() != "" })
			lease := o.current()
			o.mu.Lock()
			o.deaf = true
			o.mu.Unlock()
			r.eventually("the job is told", 6*time.Hour, func() bool { return len(facts[events.LeaseDeclined](r)) > 0 })
			money, _ := r.books().Lease(lease)
			if left := money.PaidTill.Sub(r.clock().Market); left < (grace-10*time.Second)*scale {
				t.Errorf("told with %v of the market's time left, a save and stop may take %v", left, grace*scale)
			}
			if spent := r.clock().Market.Sub(noon); spent < 10*time.Hour {
				t.Errorf("told after %v although 30 hours are paid for", spent)
			}
			o.mu.Lock()
			o.deaf = false
			o.mu.Unlock()
			o.finish()
			r.eventually("closed", time.Hour, r.closed("job"))
		})
		r.audit()
	})
}
