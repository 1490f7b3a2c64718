package simtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/bidder/ledger"
)

// anywhere is a death at no particular place.
const anywhere = "anywhere"

// appends are the events around whose appends the control plane may die.
var appends = []string{
	"job.submitted", "job.waiting", "job.leased", "job.joined", "job.placed", "job.started", "job.noticed", "job.notice-withdrawn",
	"job.committed", "job.lost", "job.exited", "job.ended", "job.released", "job.closed", "job.failed-over",
	"lease.intended", "lease.declined", "lease.refused", "lease.unknown", "lease.launched", "lease.terminating", "lease.ended",
	"money.budget-set", "money.reserved", "money.extended", "money.settled", "money.released",
}

// consumed are the events around whose handling it may die.
var consumed = []string{
	"failover on lease.launched", "failover on lease.declined", "failover on lease.ended",
	"bidder on job.submitted", "bidder on job.noticed", "bidder on job.lost", "bidder on job.leased", "bidder on job.placed",
	"bidder on job.ended", "bidder on job.committed",
	"ledger on lease.ended", "ledger on lease.refused",
}

// crashPoints names every place where the control plane may die.
func crashPoints() []string {
	out := slices.Concat([]string{anywhere}, pointed)
	for _, e := range appends {
		out = append(out, "before append of "+e, "after append of "+e)
	}
	for _, e := range consumed {
		out = append(out, "before "+e, "after "+e)
	}
	return out
}

// pointed are the places in the services that know of crashes by themselves.
var pointed = []string{
	bidder.CrashBeforeIntent, bidder.CrashReserved, bidder.CrashAfterIntent, bidder.CrashAfterCall, bidder.CrashBeforeRecord,
	bidder.CrashBeforeTerminate, bidder.CrashNoConfirm, bidder.CrashConfirmed, bidder.CrashBeforeAdopt,
	ledger.CrashReadFacts, ledger.CrashEntryNoAck,
}

// crashes draw where the control plane dies next: one place after the other, from
// where the seed begins, so that every place has its turn within a few seeds. A
// place that is not reached in time gives way.
func (w *world) crashes() {
	names := slices.DeleteFunc(crashPoints(), func(name string) bool { return !strings.Contains(name, w.opt.trouble.only) })
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.crash, "crash", n)); n++ {
		turn("crashes")
		if !w.chaotic() {
			return
		}
		w.arm(names[(int(w.chance)*perSeed+n)%len(names)])
	}
}

// perSeed is about how many places a seed gets to.
const perSeed = 17

func (w *world) arm(name string) {
	if name != anywhere {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.armed[name] = true
		return
	}
	w.mu.Lock()
	l := w.lives[w.chance.below(len(w.lives), "which dies", time.Now().UnixNano())]
	w.mu.Unlock()
	if l != nil && !l.isDead() {
		w.hits.add("crash: " + anywhere)
		w.trace("control plane %s dies", l)
		l.die()
	}
}

// due takes the crash that is drawn for a place, once.
func (w *world) due(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.armed[name] || !w.chaotic() {
		return false
	}
	delete(w.armed, name)
	return true
}

// Every place where the control plane may die is one where it does: the worlds of
// this test are made so that it gets everywhere, and all that is promised holds.
func TestTheControlPlaneDiesEverywhereOnce(t *testing.T) {
	h := newHits()
	o := options{hours: 5, jobs: 8, trouble: rough}
	o.trouble.crash, o.trouble.everywhere = never, true
	seeds := uint64(3)
	if *seedsFlag < 10 {
		seeds = 1 // enough for most places; 'make sim' wants them all
	}
	for seed := range seeds {
		o.replicas = 1 + int(seed)%2
		v := simulate(t, seed+1, h, o)
		v.report(t, seed+1, o)
		t.Logf("seed %d: %s", seed+1, v.load)
	}
	var missed []string
	for _, p := range crashPoints() {
		if p != anywhere && h.get("crash: "+p) == 0 {
			missed = append(missed, p)
		}
	}
	if seeds > 1 && len(missed) > 0 || len(missed) > 12 {
		t.Errorf("never died: %s", strings.Join(missed, "; "))
	}
	t.Logf("never died: %s", strings.Join(missed, "; "))
}
