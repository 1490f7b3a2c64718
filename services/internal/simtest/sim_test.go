package simtest

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

var (
	seedsFlag    = flag.Int("seeds", 4, "how many seeds TestSeeds runs")
	hoursFlag    = flag.Float64("hours", 0, "virtual hours of each; 0: 2 ('make sim' gives 6)")
	seedFlag     = flag.Int("seed", 0, "run this seed alone")
	replicasFlag = flag.Int("replicas", 0, "replicas of the control plane; 0: one and two in turn")
	traceFlag    = flag.Bool("trace", false, "print what happens to the world, as it happens")
	logFlag      = flag.Bool("log", false, "print what the services say")
)

func hours() float64 { return cmp.Or(*hoursFlag, 2) }

// simulate runs one world to its end.
func simulate(t *testing.T, seed uint64, h *hits, o options) *verdicts {
	t.Helper()
	if *logFlag {
		c := zap.NewDevelopmentConfig()
		c.DisableStacktrace, c.DisableCaller = true, true
		o.log, _ = c.Build()
	}
	o.trace = *traceFlag
	dir := natsbustest.Dir(t)
	var v *verdicts
	natsbustest.Bubble(t, func(t *testing.T) { v = newWorld(t, seed, dir, h, o).run() })
	return v
}

// report says everything that is needed to understand a failure.
func (v *verdicts) report(t *testing.T, seed uint64, o options) {
	if len(v.wrong) == 0 {
		return
	}
	t.Errorf("seed %d:\n  %s\n\nagain with: make sim SEED=%d SEEDS=1 HOURS=%v\n\n%s", seed, strings.Join(v.wrong, "\n  "), seed, o.hours, v.told())
}

// told is the story of a run.
func (v *verdicts) told() string {
	return fmt.Sprintf("what happened to the world:\n  %s\n\nthe last events:\n  %s", strings.Join(v.notes, "\n  "), strings.Join(v.tail(200), "\n  "))
}

// tail is the newest events of the truth streams, in the order of their times.
func (v *verdicts) tail(n int) []string {
	all := append(slices.Clone(v.history["JOBS"]), v.history["MONEY"]...)
	slices.SortStableFunc(all, func(a, b message) int { return a.event.Time.Compare(b.event.Time) })
	var out []string
	for _, m := range all[max(len(all)-n, 0):] {
		row, _ := events.TypeOf(m.event.Fact)
		out = append(out, fmt.Sprintf("%s %-22s %s %.300s", m.event.Time.Format("15:04:05.000"), row.Family+"."+row.Event, m.event.ID, brief(m.event.Fact)))
	}
	return out
}

// brief is a fact without the long record of how it was decided.
func brief(f events.Fact) string {
	var why string
	switch d := f.(type) {
	case events.LeaseIntended:
		return fmt.Sprintf("%s at most %s, %s, reserved %s until %s", d.Offer.Pool, d.MaxPrice, d.Purpose, d.Reserved, d.PaidTill.Format(time.DateTime))
	case events.LeaseDeclined:
		for _, c := range d.Decision.Candidates {
			why += fmt.Sprintf(" [%s %s]", c.Offer.Pool, c.WhyNot)
		}
		return d.Reason + ": " + d.Detail + why
	case events.JobFailedOver:
		return fmt.Sprintf("%s: %s to %s, %d steps lost", d.Record.Cause, d.Record.From.Lease, d.Record.To.Lease, d.Record.LostSteps)
	}
	return fmt.Sprintf("%+v", f)
}

func TestSeeds(t *testing.T) {
	o := options{hours: hours(), jobs: 4, trouble: rough}
	var seeds []int
	for s := range *seedsFlag {
		seeds = append(seeds, s+1)
	}
	if *seedFlag > 0 {
		seeds = []int{*seedFlag}
	}
	h := newHits()
	var all load
	began := time.Now()
	for _, s := range seeds {
		from := time.Now()
		o := o
		o.replicas = *replicasFlag
		if o.replicas == 0 {
			o.replicas = 1 + s/2%2
		}
		v := simulate(t, uint64(s), h, o)
		v.report(t, uint64(s), o)
		t.Logf("seed %d, %d replicas: %s; %s in %s", s, o.replicas, v.print, v.load, time.Since(from).Round(time.Millisecond))
		all.add(v.load)
	}
	t.Logf("%d seeds of %v hours in %s: %s", len(seeds), o.hours, time.Since(began).Round(time.Millisecond), all)
	for _, l := range h.lines() {
		t.Log(l)
	}
	whole := o.hours * float64(len(seeds))
	for _, k := range h.unmet(whole) {
		t.Errorf("never met in %v hours: %s", whole, k)
	}
	if err := all.floor(whole); err != nil && len(seeds) > 1 {
		t.Error(err)
	}
}

func TestTheSameSeedTwiceGivesTheSameHistory(t *testing.T) {
	s := max(*seedFlag, 1)
	prints := map[string]int{}
	for k := range 2 { // of one and the other, the seller is a program of its own
		o := options{hours: hours(), jobs: 4, trouble: rough}
		a, b := simulate(t, uint64(s+k), newHits(), o), simulate(t, uint64(s+k), newHits(), o)
		if a.print != b.print {
			t.Errorf("seed %d gave %s, then %s:\n%s", s+k, a.print, b.print, differ(a.history, b.history))
		}
		prints[a.print] = s + k
	}
	if len(prints) < 2 {
		t.Errorf("two seeds gave the same history: %v", prints)
	}
}
