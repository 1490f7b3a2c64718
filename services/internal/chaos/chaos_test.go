package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	kills    = flag.Int("kills", 0, "kills of a long run; 0: only the short one")
	replicas = flag.Int("replicas", 1, "of every service")
	seed     = flag.Uint64("seed", 1, "of the plan and the market")
	keep     = flag.String("evidence", "", "directory to leave the evidence in")
	asJSON   = flag.Bool("json", false, "print the summary as JSON, everything else on standard error")
)

// TestChaos is the long run, which has to be asked for: it takes the better part of
// eight minutes.
func TestChaos(t *testing.T) {
	if *kills == 0 {
		t.Skip("a long run is asked for with -kills=60; `make chaos`")
	}
	const limit = 8 * time.Minute
	w := newWorld(t, options{seed: *seed, kills: *kills, replicas: *replicas, hunted: 3, steps: 300, calm: 900, limit: limit, faults: true, separate: true})
	v := w.run()
	w.report(v)
	if *kills >= 60 {
		for _, target := range targets() {
			if v.Each[target] < leastEach {
				t.Errorf("%s was killed %d times, want %d at least", target, v.Each[target], leastEach)
			}
		}
		if v.Kills < *kills || v.Inside < leastInside || len(v.Points) < leastPoints || v.Stopped == 0 || len(v.Full)+len(v.Skipped) < 3 {
			t.Errorf("%d kills, %d inside a failover, %d points, %d agents held still, disks %v: too few of one sort", v.Kills, v.Inside, len(v.Points), v.Stopped, v.Full)
		}
	}
	if took := time.Since(w.began); took > limit {
		t.Errorf("it took %s, want at most %s", took.Round(time.Second), limit)
	}
}

// TestAFewKills is the short run, for every change.
func TestAFewKills(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the separate programs for most of a minute")
	}
	if *kills > 0 {
		t.Skip("the long run was asked for")
	}
	t.Parallel()
	w := newWorld(t, options{seed: *seed, kills: 10, replicas: 1, hunted: 1, steps: 120, calm: 250, limit: time.Minute})
	w.report(w.run())
}

// run carries the plan out, lets the troubles come in between, and judges.
func (w *world) run() verdict {
	w.parts.Go(w.work)
	if !w.until(time.Minute, func() bool { return w.commits() > 0 }) {
		w.fail("nothing has been committed a minute after the start")
		return w.judge()
	}
	strokes := plan(w.opt.seed, w.opt.kills, w.opt.replicas)
	var troubles []fault
	if w.opt.faults {
		troubles = w.troubles()
		w.parts.Go(w.arm)
	}
	each := len(strokes) + 1
	if len(troubles) > 0 {
		each = max(len(strokes)/(len(troubles)+1), 1)
	}
	var missed []stroke
	for i, s := range strokes {
		if !w.carryOut(s) {
			missed = append(missed, s)
		}
		if blows := w.log.all(); len(blows) > 0 {
			b := blows[len(blows)-1]
			w.note("%2d of %d: %s %d (%d), pid %d started at %d: %s", i+1, len(strokes), b.How, b.Replica, b.N, b.PID, b.Start, b.Target+"; "+b.State)
		}
		if n := (i + 1) / each; (i+1)%each == 0 && n <= len(troubles) {
			w.note("%s", troubles[n-1].name)
			troubles[n-1].do()
		}
	}
	for _, s := range missed {
		s.inside = false
		if !w.carryOut(s) {
			w.fail("there was no %s to kill", s.target)
		}
	}
	return w.judge()
}

// report prints what happened, and fails the test for what went wrong.
func (w *world) report(v verdict) {
	t := w.t
	t.Helper()
	w.log.write("summary.json", v)
	if *keep != "" {
		dir := filepath.Join(*keep, fmt.Sprintf("seed-%d-replicas-%d-%s", v.Seed, v.Replicas, w.began.Format("150405")))
		if err := os.CopyFS(dir, os.DirFS(w.fleet.Evidence())); err != nil {
			t.Error(err)
		}
	}
	if *asJSON {
		_ = json.NewEncoder(os.Stdout).Encode(v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nseed %d, %d of every service, %.0f s\n\n", v.Seed, v.Replicas, v.Took)
	for _, target := range targets() {
		fmt.Fprintf(&b, "  %-16s %3d kills\n", target, v.Each[target])
	}
	fmt.Fprintf(&b, "  %-16s %3d kills, %d of them inside a failover\n\n", "all", v.Kills, v.Inside)
	fmt.Fprintf(&b, "  %d points hit: %s\n  %d agents held still, disks filled: %v, %d messages that are no events\n", len(v.Points), strings.Join(v.Points, " "), v.Stopped, v.Full, v.Nonsense)
	fmt.Fprintf(&b, "  %d jobs, %d trainers, %d failovers; %d commits of old epochs in the log\n", v.Jobs, v.Trainers, v.Moves, v.Void)
	fmt.Fprintf(&b, "  ledger $%s, meter $%s; %d acknowledged events looked at again\n", dollars(v.Ledger), dollars(v.Meter), v.Checked)
	for _, s := range v.Skipped {
		fmt.Fprintf(&b, "  skipped: %s\n", s)
	}
	fmt.Fprintln(w.out(), b.String())
	for _, s := range v.Wrong {
		t.Errorf("seed %d: %s", v.Seed, s)
	}
	if t.Failed() || len(v.Wrong) > 0 {
		t.Logf("again: go test ./services/internal/chaos -run '%s' -count=1 -v -timeout 15m -args -seed=%d -kills=%d -replicas=%d", t.Name(), w.opt.seed, *kills, w.opt.replicas)
		t.Logf("the last events:\n  %s", list(w.rec.newestLines(60)))
		for _, p := range w.fleet.Programs() {
			t.Logf("the end of %s:\n%s", filepath.Base(p.Log()), tail(p.Log(), 1500))
		}
	}
}
