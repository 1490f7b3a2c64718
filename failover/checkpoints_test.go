package failover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// savedJob is a job in epoch 1 with checkpoints of these steps, a minute apart.
func savedJob(steps ...int64) *world {
	w := newWorld()
	l := w.buy(1, 1, 1, "a", events.ForStart)
	w.join(2, l)
	w.start(3, 1)
	for i, s := range steps {
		w.commit(60*float64(i+1), s, false)
	}
	return w
}

// moved has the machine gone at a time and its successor placed.
func (w *world) moved(s float64) events.LeaseID {
	w.ended(s, w.job.Current.Lease, "seller", 0)
	l := w.buy(s+1, w.job.NextEpoch, 1, "b", events.ForReplace)
	w.join(s+2, l)
	return l
}

func namesOf(list []events.Checkpoint) string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name)
	}
	return strings.Join(out, " ")
}

func TestWhatThePolicyDrops(t *testing.T) {
	t.Parallel()
	week := Retention{Evidence: time.Hour}
	for _, tc := range []struct {
		name string
		do   func(w *world)
		keep int
		at   float64
		r    Retention
		want string
	}{
		{"three are kept unless the job says otherwise", nil, 0, 1000, week, "c1-10 c1-20"},
		{"as many are kept as the job says", nil, 4, 1000, week, "c1-10"},
		{"two at least, whatever it says", nil, 1, 1000, week, "c1-10 c1-20 c1-30"},
		{"a pinned one stays and does not count", func(w *world) { w.in(999, Pin{Name: "c1-10", By: "ann", Reason: "best"}) }, 0, 1000, week, "c1-20"},
		{"a pin that has ended keeps nothing", func(w *world) {
			w.in(900, Pin{Name: "c1-10", Holder: "restore-1", By: "ann", Until: at(999).Control})
		}, 0, 1000, week, "c1-10 c1-20"},
		{"one that was dropped is not dropped again", func(w *world) { w.in(999, Drop{Names: []string{"c1-10"}, By: "ann", Reason: "x"}) }, 0, 1000, week, "c1-20"},
		{"nothing goes while a machine is on its way", func(w *world) {
			w.ended(900, w.job.Current.Lease, "seller", 0)
			w.buy(901, 2, 1, "b", events.ForReplace)
		}, 0, 920, week, ""},
		{"nor before the first commit of an epoch", func(w *world) { w.moved(900); w.start(950, 51) }, 0, 1000, week, ""},
		{"after it things take their course", func(w *world) { w.moved(900); w.start(950, 51); w.commit(960, 60, false) }, 0, 1000, week, "c1-10 c1-20 c1-30"},
		{"and without any machine", func(w *world) { w.ended(900, w.job.Current.Lease, "seller", 0) }, 0, 1000, week, "c1-10 c1-20"},
		{"one that did not restore stays as evidence and is not counted", func(w *world) {
			l := w.moved(900)
			w.in(950, Rejected{events.JobCheckpointRejected{Epoch: 2, Lease: l, Checkpoint: events.Checkpoint{Name: "c1-50"}}})
			w.commit(960, 60, false)
		}, 0, 1000, week, "c1-10 c1-20"},
		{"for a while", func(w *world) {
			l := w.moved(900)
			w.in(950, Rejected{events.JobCheckpointRejected{Epoch: 2, Lease: l, Checkpoint: events.Checkpoint{Name: "c1-50"}}})
			w.commit(960, 60, false)
		}, 0, 950 + 3600, week, "c1-10 c1-20 c1-50"},
		{"an ended job keeps its result", func(w *world) { w.in(900, Cancel{By: "ann"}) }, 4, 1e6, week, "c1-10 c1-20 c1-30 c1-40"},
		{"until that is old, if there is such a rule", func(w *world) { w.in(900, Cancel{By: "ann"}) }, 4, 1e6, Retention{Evidence: 1, Result: time.Hour}, "c1-10 c1-20 c1-30 c1-40 c1-50"},
		{"and not before", func(w *world) { w.in(900, Cancel{By: "ann"}) }, 4, 1000, Retention{Evidence: 1, Result: time.Hour}, "c1-10 c1-20 c1-30 c1-40"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := savedJob(10, 20, 30, 40, 50)
			w.job.Spec.Policy.Checkpoint.Keep = tc.keep
			if tc.do != nil {
				tc.do(w)
			}
			got, _ := w.job.Collectable(at(tc.at).Control, tc.r)
			if s := strings.Join(got, " "); s != tc.want {
				t.Fatalf("collectable: %q, want %q", s, tc.want)
			}
			w.in(tc.at, Collect{Retention: tc.r})
			if again := w.in(tc.at, Collect{Retention: tc.r}); len(again) != 0 {
				t.Errorf("collecting once more: %v", again)
			}
			for _, n := range got {
				if strings.Contains(namesOf(w.job.Resume())+namesOf(w.job.Kept()), n) {
					t.Errorf("%s is dropped and still listed: %s", n, namesOf(w.job.Kept()))
				}
			}
		})
	}
}

func TestWhatPeopleMayDoWithCheckpoints(t *testing.T) {
	t.Parallel()
	pin := func(n string) Input { return Pin{Name: n, By: "ann", Reason: "best"} }
	unpin := func(n string) Input { return Unpin{Name: n, By: "ann", Reason: "done"} }
	drop := func(n ...string) Input { return Drop{Names: n, By: "ann", Reason: "room"} }
	for _, tc := range []struct {
		name   string
		before []Input
		in     Input
		want   string // "": it may
		remedy string
		events int
	}{
		{"pinning keeps", nil, pin("c1-10"), "", "", 1},
		{"doing it twice does it once", []Input{pin("c1-10")}, pin("c1-10"), "", "", 0},
		{"another reason is another pin", []Input{Pin{Name: "c1-10", By: "bob", Reason: "mine"}}, pin("c1-10"), "", "", 1},
		{"what never was cannot be pinned", nil, pin("c9"), "no such checkpoint was committed", "checkpoint ls", 0},
		{"nor what is dropped", []Input{drop("c1-10")}, pin("c1-10"), "it was dropped at", "pin one that is kept", 0},
		{"nor for a time that is over", nil, Pin{Name: "c1-10", By: "ann", Until: t0}, "end before it begins", "still to come", 0},
		{"unpinning leaves it to the policy", []Input{pin("c1-10")}, unpin("c1-10"), "", "", 1},
		{"also when the answer was lost", []Input{pin("c1-10"), unpin("c1-10")}, unpin("c1-10"), "", "", 0},
		{"what is not pinned cannot be unpinned", nil, unpin("c1-10"), "it is not pinned", "checkpoint ls", 0},
		{"nor what only a restore holds", []Input{Pin{Name: "c1-10", Holder: "r", By: "bob", Reason: "copy", Until: at(5000).Control}}, unpin("c1-10"), "it is being restored by bob (copy)", "the pin ends", 0},
		{"the end of a restore may come twice", nil, Unpin{Name: "c1-10", Holder: "r", By: "bob"}, "", "", 0},
		{"an older one can be dropped", nil, drop("c1-10", "c1-20"), "", "", 1},
		{"twice the same is once", []Input{drop("c1-10")}, drop("c1-10"), "", "", 0},
		{"what somebody else has dropped is told", []Input{Drop{Names: []string{"c1-10"}, By: "bob", Reason: "bad"}}, drop("c1-10"), "it was dropped already: bad", "", 0},
		{"the newest cannot be", nil, drop("c1-40"), "it is the newest", "wait for the next", 0},
		{"nor the one before", nil, drop("c1-10", "c1-30"), "one of the newest two", "wait for the next", 0},
		{"nor a pinned one", []Input{pin("c1-10")}, drop("c1-10"), "it is pinned by ann: best", "checkpoint unpin j1 c1-10", 0},
		{"nor one that is being restored", []Input{Pin{Name: "c1-10", Holder: "r", By: "bob", Reason: "copy", Until: at(5000).Control}}, drop("c1-10"), "being restored by bob", "wait until", 0},
		{"nor one that never was", nil, drop("c1-10", "c9"), `checkpoint "c9" cannot be dropped: no such`, "checkpoint ls", 0},
		{"the result of an ended job can be", []Input{Cancel{By: "ann"}}, drop("c1-40"), "", "", 1},
		{"unless it is pinned", []Input{pin("c1-40"), Cancel{By: "ann"}}, drop("c1-40"), "it is pinned", "unpin", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := savedJob(10, 20, 30, 40)
			for i, in := range tc.before {
				w.in(1000+float64(i), in)
			}
			err := Refuse(w.job, at(2000), tc.in)
			got := w.in(2000, tc.in)
			switch r, refused := IsRefused(err); {
			case refused != (tc.want != ""):
				t.Errorf("refused: %v, want %q", err, tc.want)
			case refused && (!strings.Contains(r.What, tc.want) || !strings.Contains(r.Remedy, tc.remedy)):
				t.Errorf("%q (%q), want %q (%q)", r.What, r.Remedy, tc.want, tc.remedy)
			case len(got) != tc.events:
				t.Errorf("%d events, want %d", len(got), tc.events)
			}
		})
	}
	t.Run("nothing is dropped by hand while a machine may be restoring it", func(t *testing.T) {
		w := savedJob(10, 20, 30, 40)
		w.moved(900)
		if r, ok := IsRefused(Refuse(w.job, at(1000), drop("c1-10"))); !ok || !strings.Contains(r.What, "may be restoring") || r.Remedy == "" {
			t.Errorf("%v", r)
		}
	})
}

func TestAPinOfOneHolderIsNotAnothers(t *testing.T) {
	t.Parallel()
	w := savedJob(10, 20, 30, 40)
	w.in(500, Pin{Name: "c1-10", By: "ann", Reason: "best"})
	for i := range 3 {
		w.in(510, Pin{Name: "c1-10", Holder: fmt.Sprint("r", i), By: "bob", Until: at(600 + 100*float64(i)).Control})
	}
	w.in(520, Unpin{Name: "c1-10", Holder: "r2", By: "bob"})
	if n := len(w.job.Pins); n != 3 {
		t.Errorf("%d pins, want 3", n)
	}
	w.in(650, Unpin{Name: "c1-10", By: "ann", Reason: "done"}) // r0 has ended meanwhile
	if p := w.job.Pinned("c1-10", at(650).Control); len(w.job.Pins) != 1 || p == nil || p.Holder != "r1" {
		t.Errorf("pins %+v", w.job.Pins)
	}
	if p := w.job.Pinned("c1-10", at(700).Control); p != nil {
		t.Errorf("%+v is in force after its end", p)
	}
}

// TestACommitThatWasLookedAtBeforeADropIsVoid: what it relies on may be going.
func TestACommitThatWasLookedAtBeforeADropIsVoid(t *testing.T) {
	t.Parallel()
	w := savedJob(10, 20, 30, 40)
	commit := func(drops int) []events.Event {
		return w.in(1000, Verified{Drops: drops, Committed: Committed{events.JobCommitted{Epoch: 1, Lease: w.job.Current.Lease,
			Checkpoint: events.Checkpoint{Name: "c1-50", Epoch: 1, Step: 50}}}})
	}
	w.in(900, Drop{Names: []string{"c1-10"}, By: "ann", Reason: "room"})
	if got := commit(0); len(got) != 0 {
		t.Errorf("an old look was believed: %v", got)
	}
	if got := commit(1); len(got) != 1 {
		t.Errorf("%d events, want the commit", len(got))
	}
}

func TestADroppedCheckpointIsNeitherAdoptedNorRejected(t *testing.T) {
	t.Parallel()
	w := savedJob(10, 20, 30, 40)
	w.in(900, Drop{Names: []string{"c1-10", "c1-20"}, By: "ann", Reason: "room"})
	l := w.moved(1000)
	if got := namesOf(w.job.Resume()); got != "c1-40 c1-30" {
		t.Errorf("the order lists %q", got)
	}
	if p := w.log[slices.IndexFunc(w.log, func(e events.Event) bool { f, ok := e.Fact.(events.JobPlaced); return ok && f.Epoch == 2 })]; p.Fact.(events.JobPlaced).Resume.Name != "c1-40" {
		t.Errorf("adopted %+v", p.Fact)
	}
	if got := w.in(1010, Rejected{events.JobCheckpointRejected{Epoch: 2, Lease: l, Checkpoint: events.Checkpoint{Name: "c1-20"}}}); len(got) != 0 {
		t.Errorf("a dropped checkpoint is rejected: %v", got)
	}
	if j := Replay(w.log); !slices.Equal(j.Drops, w.job.Drops) || namesOf(j.Resume()) != namesOf(w.job.Resume()) {
		t.Errorf("replayed: %+v", j.Drops)
	}
}
