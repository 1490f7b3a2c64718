package noticedrill

import (
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	runs     = flag.Int("runs", 0, "runs of the full drill; 0: a short look at it")
	seed     = flag.Uint64("seed", 1, "what the runs are drawn from")
	only     = flag.Int("only", -1, "the one run of the drill to be played")
	parallel = flag.Int("at-once", 40, "runs under way at once")
)

func TestNoticeDrill(t *testing.T) {
	if testing.Short() {
		t.Skip("real machines take real time")
	}
	what, n := full(), *runs
	if n == 0 {
		what, n = quick(), 6
	}
	w := newWorld(t, *seed, *runs == 0)
	plan := what.draw(*seed, n)
	if *only >= 0 {
		plan = slices.DeleteFunc(plan, func(r run) bool { return r.n != *only })
	}
	all := w.play(plan, *parallel)
	due, missed := 0, 0
	for _, o := range all {
		if o.broken != nil {
			t.Errorf("%v: %v", o.run, o.broken)
			continue
		}
		if !o.lossTold() {
			t.Errorf("%v: the loss told is %d steps, the trainer's log has %d", o.run, o.told-o.commit.Step, o.last-o.commit.Step)
		}
		if o.late > 250*time.Millisecond {
			t.Logf("%v: the drill itself was %v late", o.run, o.late)
		}
		if o.due() {
			due++
			if o.what != fresh {
				missed++
				t.Logf("missed: %v\n%s", o, strings.Join(o.says, "\n"))
			}
		}
	}
	t.Logf("seed %d, %d runs%s%d of the %d where an upload takes no more than 0.8 of the notice were in time",
		*seed, n, table(all), due-missed, due)
	if 100*missed > due {
		t.Errorf("%d of %d were not in time: more than one in a hundred", missed, due)
	}
}

// play has the runs played, so many at once, and returns what came of them.
func (w *world) play(plan []run, at int) []outcome {
	all := make([]outcome, len(plan))
	room := make(chan struct{}, at)
	var g sync.WaitGroup
	for i, r := range plan {
		room <- struct{}{}
		if len(plan) > at/4 {
			time.Sleep(time.Second) // as machines are bought, not all in one moment
		}
		g.Go(func() {
			defer func() { <-room }()
			o, err := w.drill(r)
			o.broken = err
			all[i] = o
			if testing.Verbose() {
				w.t.Log(o)
			}
		})
	}
	g.Wait()
	return all
}
