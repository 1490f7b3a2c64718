package failover

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

// A scene is one thing that happens in a life played through a Book.
type scene struct {
	s  float64
	in func(j Job) Input
}

func bought(epoch, n int, zone string) func(Job) Input {
	return func(j Job) Input {
		l := j.ID.Lease(epoch, n)
		agg := events.LeaseAggregate("acme", l)
		return Bought{Lease: l,
			Intent: events.Event{ID: events.EventID(l + "-1"), Aggregate: agg, Time: t0,
				Fact: events.LeaseIntended{Job: j.ID, Epoch: epoch, N: n, Offer: events.Offer{Pool: pool(zone, events.Spot)}}},
			Launched: events.Event{ID: events.EventID(l + "-2"), Aggregate: agg, Time: t0,
				Fact: events.LeaseLaunched{Instance: "i-" + events.InstanceID(l), Price: events.DollarPerHour, BootBy: at(1e6).Control}}}
	}
}

func ended(l events.LeaseID) func(Job) Input {
	return func(Job) Input {
		return Gone{Event: events.Event{ID: events.EventID(l + "-3"), Aggregate: events.LeaseAggregate("acme", l), Time: t0, Fact: events.LeaseEnded{EndedBy: "seller"}}}
	}
}

func commits(l events.LeaseID, epoch int, step int64, final bool) func(Job) Input {
	return func(Job) Input {
		return Committed{events.JobCommitted{Epoch: epoch, Lease: l, Final: final,
			Checkpoint: events.Checkpoint{Name: fmt.Sprintf("c%d-%d", epoch, step), Epoch: epoch, Step: step}}}
	}
}

func says(in Input) func(Job) Input { return func(Job) Input { return in } }

// life has a move after a notice, a restart in place, a silence that ends, and a good end.
func life() []scene {
	a, b := events.LeaseID("j1-1-1"), events.LeaseID("j1-2-1")
	return []scene{
		{0, says(Submit{Attribution: attribution(), Spec: spec, By: "ann"})},
		{1, bought(1, 1, "a")},
		{2, says(Joined{events.JobJoined{Epoch: 1, Lease: a, Key: "UA"}})},
		{3, says(Stepped{events.JobStarted{Epoch: 1, Lease: a, Step: 1}})},
		{4, commits(a, 1, 10, false)},
		{5, says(Noticed{events.JobNoticed{Epoch: 1, Lease: a, Seen: at(5).Control, Deadline: at(125).Control}})},
		{6, bought(2, 1, "b")},
		{7, commits(a, 1, 20, true)},
		{8, says(Joined{events.JobJoined{Epoch: 2, Lease: b, Key: "UB"}})},
		{9, says(Stepped{events.JobStarted{Epoch: 2, Lease: b, From: 20, Step: 21}})},
		{10, ended(a)},
		{11, says(Silent{Epoch: 2, Heard: Heard{Step: 25, At: at(10).Control}})},
		{12, commits(b, 2, 30, false)},
		{13, says(Exited{Epoch: 2, DoneRequest: events.DoneRequest{Lease: b, Code: -1, Signal: "SIGKILL", LastStep: 33}})},
		{14, says(Stepped{events.JobStarted{Epoch: 3, Lease: b, From: 30, Step: 31}})},
		{15, says(Exited{Epoch: 3, DoneRequest: events.DoneRequest{Lease: b}})},
		{16, ended(b)},
	}
}

// hardLife has a migration, a drill, a broken machine, a silence that is refined
// later, a pause and a stall.
func hardLife() []scene {
	a, b, c, d, e := events.LeaseID("j1-1-1"), events.LeaseID("j1-2-1"), events.LeaseID("j1-3-1"), events.LeaseID("j1-5-1"), events.LeaseID("j1-6-1")
	joins := func(l events.LeaseID, epoch int) func(Job) Input {
		return says(Joined{events.JobJoined{Epoch: epoch, Lease: l, Key: "U" + string(l)}})
	}
	steps := func(l events.LeaseID, epoch int, from int64) func(Job) Input {
		return says(Stepped{events.JobStarted{Epoch: epoch, Lease: l, From: from, Step: from + 1}})
	}
	broke := func(l events.LeaseID, epoch int, k events.Trouble) func(Job) Input {
		return says(Troubled{events.JobTroubled{Epoch: epoch, Lease: l, Kind: k, Detail: "so"}})
	}
	return []scene{
		{0, says(Submit{Attribution: attribution(), Spec: spec, By: "ann"})},
		{1, bought(1, 1, "a")}, {2, joins(a, 1)}, {3, steps(a, 1, 0)},
		{4, says(Migrate{By: "ann", Reason: "try"})},
		{5, bought(2, 1, "b")}, {6, joins(b, 2)}, {7, commits(a, 1, 10, true)}, {8, steps(b, 2, 10)}, {9, ended(a)},
		{10, says(Drill{By: "bob", NoNotice: true})},
		{11, says(Silent{Epoch: 2, Heard: Heard{Step: 12, At: at(10.5).Control}})},
		{12, bought(3, 1, "c")}, {13, joins(c, 3)}, {14, steps(c, 3, 10)}, {15, ended(b)},
		{16, broke(c, 3, events.TroubleGPUFault)},
		{17, commits(c, 3, 20, false)},
		{18, bought(4, 1, "d")}, {19, joins("j1-4-1", 4)},
		{20, steps("j1-4-1", 4, 20)},
		{21, says(Silent{Epoch: 4, Heard: Heard{Step: 22, At: at(20.5).Control}})},
		{22, bought(5, 1, "e")}, {23, joins(d, 5)}, {24, steps(d, 5, 20)},
		{25, says(Returned{Epoch: 4})}, {26, ended(c)}, {27, ended("j1-4-1")},
		{28, says(LastWords{events.JobLastWords{Epoch: 4, Lease: "j1-4-1"}})},
		{29, says(Pause{By: "ann"})},
		{30, says(Exited{Epoch: 5, DoneRequest: events.DoneRequest{Lease: d, Code: 143, OrderID: "stop-j1-5"}})},
		{31, ended(d)},
		{32, says(Resume{By: "bob"})},
		{33, bought(6, 1, "f")}, {34, joins(e, 6)}, {35, steps(e, 6, 20)},
		{36, broke(e, 6, events.TroubleStalled)},
		{37, says(Cancel{By: "ann"})}, {38, ended(e)},
	}
}

// stage plays scenes through a Book.
type stage struct {
	log *eventstest.Log
	now float64
}

func (s *stage) moment() events.Moment { return at(s.now) }

func (s *stage) book() *Book { return NewBook(s.log, s.moment) }

func (s *stage) play(ctx context.Context, b *Book, sc scene) error {
	s.now = sc.s
	j, _ := b.Cached("j1")
	j.ID = "j1"
	in := sc.in(j)
	if sub, ok := in.(Submit); ok {
		_, err := b.Submit(ctx, "j1", sub)
		return err
	}
	_, _, err := b.Apply(ctx, "j1", in)
	return err
}

// facts is all that was recorded of the job, and a check that it is one gapless chain.
func (s *stage) facts(t interface{ Fatalf(string, ...any) }) []events.Fact {
	var out []events.Fact
	var prev *events.Event
	for _, e := range s.log.Events(events.FilterJobs) {
		want, err := events.Follow(e.Aggregate, prev, e.Fact)
		if err != nil || e.Sequence != want.Sequence || e.Prev != want.Prev || e.ID != want.ID {
			t.Fatalf("%s, sequence %d, does not follow: %v", e.ID, e.Sequence, err)
		}
		out = append(out, e.Fact)
		prev = &e
	}
	return out
}

func undisturbed(t *testing.T, life []scene) []events.Fact {
	s := &stage{log: eventstest.New(0)}
	b := s.book()
	for _, sc := range life {
		if err := s.play(t.Context(), b, sc); err != nil {
			t.Fatal(err)
		}
	}
	got := s.facts(t)
	if _, closed := got[len(got)-1].(events.JobClosed); !closed {
		t.Fatalf("the life ends with %T", got[len(got)-1])
	}
	return got
}

func TestWhateverAnswersGetLostTheSameIsRecordedOnce(t *testing.T) {
	lives := [][]scene{life(), hardLife()}
	wants := [][]events.Fact{undisturbed(t, lives[0]), undisturbed(t, lives[1])}
	rapid.Check(t, func(rt *rapid.T) {
		which := rapid.IntRange(0, 1).Draw(rt, "life")
		want := wants[which]
		s := &stage{log: eventstest.New(0)}
		fates := rapid.SliceOfN(rapid.SampledFrom([]eventstest.Fate{eventstest.Done, eventstest.LostAck, eventstest.LostAsk}), 1, 40).Draw(rt, "fates")
		n := 0
		s.log.SetFaults(eventstest.Faults{Append: func(events.Event) eventstest.Fate {
			if n++; n > len(fates) {
				return eventstest.Done
			}
			return fates[n-1]
		}})
		b := s.book()
		for _, sc := range lives[which] {
			if err := s.play(t.Context(), b, sc); err != nil {
				rt.Fatal(err)
			}
		}
		if got := s.facts(rt); !reflect.DeepEqual(got, want) {
			rt.Fatalf("recorded %s\nwant     %s", names(got), names(want))
		}
	})
}

func TestACrashBetweenAnyTwoAppendsIsRepaired(t *testing.T) {
	for _, life := range [][]scene{life(), hardLife()} {
		crashAnywhere(t, life)
	}
}

func crashAnywhere(t *testing.T, life []scene) {
	t.Helper()
	want := undisturbed(t, life)
	for _, fate := range []eventstest.Fate{eventstest.LostAck, eventstest.LostAsk} {
		for crash := 1; crash <= len(want); crash++ {
			s := &stage{log: eventstest.New(0)}
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			s.log.SetFaults(eventstest.Faults{Append: func(events.Event) eventstest.Fate {
				if n++; n == crash {
					cancel()
					return fate
				}
				return eventstest.Done
			}})
			b := s.book()
			for _, sc := range life {
				if err := s.play(ctx, b, sc); err != nil {
					if ctx.Err() == nil {
						t.Fatal(err)
					}
					ctx, b = t.Context(), s.book() // started again; what it did not acknowledge comes again
					if err := s.play(ctx, b, sc); err != nil {
						t.Fatal(err)
					}
				}
			}
			cancel()
			if got := s.facts(t); !reflect.DeepEqual(got, want) {
				t.Errorf("crash at append %d (%v): recorded %s\nwant %s", crash, fate, names(got), names(want))
			}
		}
	}
}

// hard marks a scene of hardLife.
const hard = 100

func TestATickAloneRepairsWhatTimeAndStateCallFor(t *testing.T) {
	for _, tc := range []struct {
		name    string
		last    int // the scene that is cut short after its first append
		missing events.Fact
	}{
		{"a restart in place", 13, events.JobPlaced{}},
		{"a placement after the last save", 8, events.JobPlaced{}},
		{"a failover's record", 9, events.JobFailedOver{}},
		{"the end of a job", 16, events.JobClosed{}},
		{"the pause of a job that stalls", 36 + hard, events.JobPaused{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			life := life
			if tc.last >= hard {
				life, tc.last = hardLife, tc.last-hard
			}
			s := &stage{log: eventstest.New(0)}
			b := s.book()
			for _, sc := range life()[:tc.last] {
				if err := s.play(t.Context(), b, sc); err != nil {
					t.Fatal(err)
				}
			}
			before := len(s.facts(t))
			ctx, cancel := context.WithCancel(t.Context())
			kind := reflect.TypeOf(tc.missing)
			s.log.SetFaults(eventstest.Faults{Append: func(e events.Event) eventstest.Fate {
				if reflect.TypeOf(e.Fact) == kind {
					cancel()
					return eventstest.LostAsk
				}
				return eventstest.Done
			}})
			if err := s.play(ctx, b, life()[tc.last]); !errors.Is(err, context.Canceled) {
				t.Fatalf("%v; want it cut short", err)
			}
			s.log.SetFaults(eventstest.Faults{})
			if got := s.facts(t); len(got) == before || reflect.TypeOf(got[len(got)-1]) == kind {
				t.Fatalf("the crash left %s", names(got))
			}
			s.now += 1
			if _, evs, err := s.book().Apply(t.Context(), "j1", Tick{}); err != nil || len(evs) == 0 || reflect.TypeOf(evs[0].Fact) != kind {
				t.Errorf("a tick recorded %v, %v; want %s", evs, err, kind.Name())
			}
		})
	}
}

func names(facts []events.Fact) string {
	var out []string
	for _, f := range facts {
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", f), "events.Job"))
	}
	return strings.Join(out, " ")
}

func TestBooksRacingOnOneJobLoseNothing(t *testing.T) {
	s := &stage{log: eventstest.New(0)}
	books := []*Book{s.book(), s.book(), s.book()}
	for _, sc := range life()[:5] {
		if err := s.play(t.Context(), books[0], sc); err != nil {
			t.Fatal(err)
		}
	}
	const each = 20
	var wg sync.WaitGroup
	appended := make([]int, len(books))
	for i, b := range books {
		wg.Go(func() {
			for n := range each {
				in := commits("j1-1-1", 1, int64(1000*(i+1)+n), false)(Job{})
				_, evs, err := b.Apply(t.Context(), "j1", in)
				if err != nil {
					t.Error(err)
				}
				appended[i] += len(evs)
			}
		})
	}
	wg.Wait()
	s.facts(t)
	for i, b := range books {
		j, err := b.Job(t.Context(), "j1")
		if err != nil || len(j.Commits) != 1+each*len(books) || appended[i] != each {
			t.Errorf("book %d: %d commits, %d of its own, %v; want %d and %d", i, len(j.Commits), appended[i], err, 1+each*len(books), each)
		}
	}
	for _, b := range books {
		wg.Go(func() {
			if _, _, err := b.Apply(t.Context(), "j1", Cancel{By: "ann"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ends := 0
	for _, f := range s.facts(t) {
		if _, ok := f.(events.JobEnded); ok {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("ended %d times", ends)
	}
}

func TestAZombiesCommitIsRefusedAndVoid(t *testing.T) {
	s := &stage{log: eventstest.New(0)}
	zombie, other := s.book(), s.book()
	for _, sc := range life()[:5] {
		if err := s.play(t.Context(), zombie, sc); err != nil {
			t.Fatal(err)
		}
	}
	for _, sc := range life()[5:9] { // the epoch rises while the zombie looks away
		if err := s.play(t.Context(), other, sc); err != nil {
			t.Fatal(err)
		}
	}
	late := commits("j1-1-1", 1, 99, false)(Job{})
	j, evs, err := zombie.Apply(t.Context(), "j1", late)
	if err != nil || len(evs) > 0 || j.Epoch != 2 {
		t.Errorf("epoch %d, appended %v, %v", j.Epoch, evs, err)
	}
	// Even one that some writer let through counts for nothing.
	all := s.log.Events(events.FilterJobs)
	forged, err := events.Follow(j.Aggregate, &all[len(all)-1], late.(Committed).JobCommitted)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.log.Append(t.Context(), j.Position, forged); err != nil {
		t.Fatal(err)
	}
	if j, err = s.book().Job(t.Context(), "j1"); err != nil || j.Step() != 20 || j.Sequence != forged.Sequence {
		t.Errorf("step %d at sequence %d, %v; want 20 at %d", j.Step(), j.Sequence, err, forged.Sequence)
	}
}

func TestObservedEventsInAnyOrderDoNoHarm(t *testing.T) {
	s := &stage{log: eventstest.New(0)}
	b := s.book()
	for _, sc := range life() {
		if err := s.play(t.Context(), b, sc); err != nil {
			t.Fatal(err)
		}
	}
	all := s.log.Events(events.FilterJobs)
	want := strip(Replay(all))
	rapid.Check(t, func(rt *rapid.T) {
		b := s.book()
		for _, e := range rapid.SliceOfN(rapid.SampledFrom(all), 0, 60).Draw(rt, "seen") {
			b.Observe(e)
			if j, ok := b.Cached("j1"); ok && !reflect.DeepEqual(strip(j), strip(Replay(all[:j.Sequence]))) {
				rt.Fatalf("after %s the cache is no state that the job was ever in", e.ID)
			}
		}
		if j, err := b.Job(t.Context(), "j1"); err != nil || !reflect.DeepEqual(strip(j), want) {
			rt.Fatalf("in the end %+v, %v", j, err)
		}
	})
}

func TestSubmittingTwiceIsSubmittingOnce(t *testing.T) {
	s := &stage{log: eventstest.New(0)}
	if _, _, err := s.book().Apply(t.Context(), "j1", Tick{}); !errors.Is(err, ErrNoJob) || !strings.Contains(err.Error(), "j1") {
		t.Errorf("before: %v, want ErrNoJob and the id", err)
	}
	if _, err := s.book().Job(t.Context(), "j1"); !errors.Is(err, ErrNoJob) {
		t.Errorf("before: %v, want ErrNoJob", err)
	}
	first, err := s.book().Submit(t.Context(), "j1", Submit{Attribution: attribution(), Spec: spec, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	changed := spec
	changed.Name = "other"
	again, err := s.book().Submit(t.Context(), "j1", Submit{Attribution: attribution(), Spec: changed, By: "bob"})
	if err != nil || again.By != "ann" || again.Spec.Name != first.Spec.Name || len(s.facts(t)) != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

func TestASlowLogHoldsUpNobodyWhoOnlyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{log: eventstest.New(0)}
		b := s.book()
		for _, sc := range life()[:3] {
			if err := s.play(t.Context(), b, sc); err != nil {
				t.Fatal(err)
			}
		}
		stuck := make(chan struct{})
		s.log.SetFaults(eventstest.Faults{Append: func(events.Event) eventstest.Fate { <-stuck; return eventstest.Done }})
		done := make(chan error)
		go func() { done <- s.play(t.Context(), b, life()[3]) }()
		synctest.Wait()
		if j, ok := b.Cached("j1"); !ok || j.Epoch != 1 {
			t.Errorf("the cache says %v, epoch %d", ok, j.Epoch)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := b.Apply(ctx, "j1", Tick{}); !errors.Is(err, context.Canceled) {
			t.Errorf("who gives up waiting gets %v", err)
		}
		close(stuck)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// contrary is a log on which somebody else is always faster, and never seen.
type contrary struct{ events.Log }

func (contrary) Append(context.Context, uint64, events.Event) (events.Event, error) {
	return events.Event{}, events.ErrConflict
}

func TestALogThatNeverAgreesIsAnErrorNotALoop(t *testing.T) {
	b := NewBook(contrary{eventstest.New(0)}, func() events.Moment { return at(0) })
	if _, err := b.Submit(t.Context(), "j1", Submit{Attribution: attribution(), Spec: spec}); err == nil || !strings.Contains(err.Error(), "races lost") {
		t.Errorf("%v", err)
	}
}

// TestTheSameInputsGiveTheSameEvents: a recorded failover can be replayed exactly.
func TestTheSameInputsGiveTheSameEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		type given struct {
			now float64
			in  Input
		}
		var inputs []given
		now := 1.0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Float64Range(0.01, 40).Draw(t, "dt")
			in := drawInput(t, w, now)
			inputs = append(inputs, given{now, in})
			w.in(now, in)
		}
		again := newWorld()
		for _, g := range inputs {
			again.in(g.now, g.in)
		}
		if !reflect.DeepEqual(again.log, w.log) {
			t.Fatalf("replayed %d events, recorded %d, and they differ", len(again.log), len(w.log))
		}
	})
}
