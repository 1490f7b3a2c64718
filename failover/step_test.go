package failover

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is a moment s seconds after t0; market time runs 60 times as fast.
func at(s float64) events.Moment {
	d := time.Duration(s * float64(time.Second))
	return events.Moment{Control: t0.Add(d), Market: t0.Add(60 * d)}
}

func pool(zone string, c events.CapacityType) events.Pool {
	return events.Pool{Seller: "local", Region: "r1", Zone: zone, InstanceType: "v100.1", Capacity: c, Gang: 1}
}

var spec = events.JobSpec{Name: "j", Run: "train", Policy: events.Policy{Budget: 10 * events.Dollar, Deadline: t0.Add(100 * time.Hour)}}

func attribution() events.Attribution { return events.Attribution{Org: "acme", Team: "ml"} }

// world drives one job and keeps every event it made.
type world struct {
	job Job
	log []events.Event
	n   int // lease events made, for their ids
}

func newWorld() *world {
	w := &world{job: Job{ID: "j1", Aggregate: events.JobAggregate("acme", "j1")}}
	w.in(0, Submit{Attribution: attribution(), Spec: spec, By: "ann"})
	return w
}

func (w *world) in(s float64, in Input) []events.Event {
	var out []events.Event
	w.job, out = Step(w.job, at(s), in)
	w.log = append(w.log, out...)
	return out
}

func (w *world) leaseEvent(l events.LeaseID, s float64, f events.Fact) events.Event {
	w.n++
	return events.Event{ID: events.EventID(fmt.Sprintf("%s-%d", l, w.n)), Aggregate: events.LeaseAggregate("acme", l), Time: at(s).Control, Fact: f}
}

// buy launches a lease for epoch in zone.
func (w *world) buy(s float64, epoch, n int, zone string, p events.Purpose) events.LeaseID {
	l := w.job.ID.Lease(epoch, n)
	w.in(s, Bought{
		Lease:    l,
		Intent:   w.leaseEvent(l, s-0.2, events.LeaseIntended{Job: w.job.ID, Epoch: epoch, N: n, Purpose: p, Offer: events.Offer{Pool: pool(zone, events.Spot)}}),
		Launched: w.leaseEvent(l, s, events.LeaseLaunched{Instance: "i-" + events.InstanceID(l), Price: events.DollarPerHour, BootBy: at(s + 30).Control}),
	})
	return l
}

func (w *world) join(s float64, l events.LeaseID) []events.Event {
	_, epoch, _, _ := l.Parts()
	return w.in(s, Joined{events.JobJoined{Epoch: epoch, Lease: l, Key: "U" + string(l)}})
}

func (w *world) start(s float64, step int64) []events.Event {
	c := w.job.Current
	return w.in(s, Stepped{events.JobStarted{Epoch: w.job.Epoch, Lease: c.Lease, From: c.From, Step: step}})
}

func (w *world) commit(s float64, step int64, final bool) []events.Event {
	c := w.job.Current
	return w.in(s, Committed{events.JobCommitted{Epoch: w.job.Epoch, Lease: c.Lease, Final: final,
		Checkpoint: events.Checkpoint{Name: fmt.Sprintf("c%d-%d", w.job.Epoch, step), Epoch: w.job.Epoch, Step: step}}})
}

func (w *world) ended(s float64, l events.LeaseID, by string, step int64) []events.Event {
	return w.in(s, Gone{Event: w.leaseEvent(l, s, events.LeaseEnded{EndedBy: by}), Heard: Heard{Step: step, At: at(s - 0.5).Control}})
}

// running is a job in its first epoch, at step 10 committed.
func running() *world {
	w := newWorld()
	l := w.buy(1, 1, 1, "a", events.ForStart)
	w.join(2, l)
	w.start(3, 1)
	w.commit(4, 10, false)
	return w
}

func owes(j Job, kind events.CommandKind) []string {
	var out []string
	for _, c := range Owed(j) {
		if c.Kind == kind {
			out = append(out, c.ID)
		}
	}
	return out
}

func order(j Job) events.Order {
	for _, c := range Owed(j) {
		if c.Kind == events.Tell {
			return c.Order
		}
	}
	return ""
}

func TestAJobsLife(t *testing.T) {
	for _, tc := range []struct {
		name    string
		do      func(w *world)
		status  string
		epoch   int
		acquire []string
		release []string
		order   events.Order
	}{
		{"a notice seeks a replacement while the old machine saves",
			func(w *world) { w.notice(10, 130) }, "draining", 1, []string{"acquire-j1-2-1"}, nil, events.OrderStart},
		{"a withdrawn notice gives the replacement back",
			func(w *world) {
				w.notice(10, 130)
				w.buy(11, 2, 1, "b", events.ForReplace)
				w.in(12, Withdrawn{events.JobNoticeWithdrawn{Epoch: 1, Lease: w.job.Current.Lease}})
			}, "running", 1, nil, []string{"release-j1-2-1"}, events.OrderStart},
		{"the epoch is not raised while the last save is still possible",
			func(w *world) { w.notice(10, 130); w.join(12, w.buy(11, 2, 1, "b", events.ForReplace)) },
			"draining", 1, nil, nil, events.OrderStart},
		{"the last save raises it",
			func(w *world) {
				w.notice(10, 130)
				w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
				w.commit(13, 20, true)
			}, "restoring", 2, nil, []string{"release-j1-1-1"}, events.OrderStart},
		{"so does the end of the notice",
			func(w *world) {
				w.notice(10, 40)
				w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
				w.in(41, Tick{})
			},
			"restoring", 2, nil, []string{"release-j1-1-1"}, events.OrderStart},
		{"a machine gone without a word is replaced at once",
			func(w *world) { w.ended(10, w.job.Current.Lease, "seller", 17) }, "acquiring", 1, []string{"acquire-j1-2-1"}, nil, ""},
		{"a silent machine is replaced but not released before the epoch is raised",
			func(w *world) { w.in(10, Silent{Epoch: 1, Heard: Heard{Step: 17, At: at(6).Control}}) },
			"draining", 1, []string{"acquire-j1-2-1"}, nil, events.OrderStart},
		{"a silent machine that comes back in time keeps its job",
			func(w *world) {
				w.in(10, Silent{Epoch: 1, Heard: Heard{Step: 17, At: at(6).Control}})
				w.buy(11, 2, 1, "b", events.ForReplace)
				w.in(12, Returned{Epoch: 1})
			}, "running", 1, nil, []string{"release-j1-2-1"}, events.OrderStart},
		{"a late commit of a silent machine counts while its epoch lasts",
			func(w *world) {
				w.in(10, Silent{Epoch: 1, Heard: Heard{Step: 17, At: at(6).Control}})
				w.commit(11, 20, false)
			}, "running", 1, nil, nil, events.OrderStart},
		{"a machine that does not boot is given up",
			func(w *world) {
				w.ended(10, w.job.Current.Lease, "seller", 17)
				w.buy(11, 2, 1, "b", events.ForReplace)
				w.in(50, Tick{})
			}, "waiting-after-loss", 1, []string{"acquire-j1-2-2"}, []string{"release-j1-2-1"}, ""},
		{"a machine nobody wants any more goes straight back",
			func(w *world) { w.in(10, Cancel{By: "ann"}); w.buy(11, 2, 1, "b", events.ForReplace) },
			"cancelled", 1, nil, []string{"release-j1-1-1", "release-j1-2-1"}, events.OrderEnd},
		{"a trainer that finished ends the job, whatever machines are left",
			func(w *world) { w.exit(10, 0, "") }, "succeeded", 1, nil, []string{"release-j1-1-1"}, events.OrderEnd},
		{"a trainer killed on a living machine restarts in place under a new epoch",
			func(w *world) { w.exit(10, -1, "SIGKILL") }, "restoring", 2, nil, nil, events.OrderStart},
		{"the first crash restarts in place",
			func(w *world) { w.exit(10, 1, "") }, "restoring", 2, nil, nil, events.OrderStart},
		{"the same crash twice without progress ends the job",
			func(w *world) { w.exit(10, 1, ""); w.start(11, 11); w.exit(12, 1, "") }, "failed", 2, nil, []string{"release-j1-1-1"}, events.OrderEnd},
		{"the same crash with progress between does not",
			func(w *world) { w.exit(10, 1, ""); w.start(11, 11); w.commit(12, 20, false); w.exit(13, 1, "") },
			"restoring", 3, nil, nil, events.OrderStart},
		{"death by signal is never the same crash twice",
			func(w *world) { w.exit(10, -1, "SIGKILL"); w.start(11, 11); w.exit(12, -1, "SIGKILL") },
			"restoring", 3, nil, nil, events.OrderStart},
		{"a machine on which the trainer keeps dying is left",
			func(w *world) {
				for i := range maxRestarts + 1 {
					w.exit(10+float64(i), -1, "SIGKILL")
				}
			}, "draining", 4, []string{"acquire-j1-5-1"}, nil, events.OrderStart},
		{"a checkpoint that was committed but cannot be restored stops the job",
			func(w *world) {
				w.in(10, Exited{Epoch: 1, DoneRequest: events.DoneRequest{Lease: w.job.Current.Lease, Unrestorable: true}})
			}, "failed", 1, nil, []string{"release-j1-1-1"}, events.OrderEnd},
		{"money that cannot be extended saves and stops",
			func(w *world) { w.decline(10, 1, 2, "out-of-budget") }, "finishing", 1, nil, nil, events.OrderStop},
		{"and ends out of budget when the trainer has stopped",
			func(w *world) { w.decline(10, 1, 2, "out-of-budget"); w.exit(11, 143, "") }, "out-of-budget", 1, nil, []string{"release-j1-1-1"}, events.OrderEnd},
		{"a trainer that does not stop is not waited for",
			func(w *world) { w.decline(10, 1, 2, "out-of-budget"); w.in(80, Tick{}) }, "out-of-budget", 1, nil, []string{"release-j1-1-1"}, events.OrderEnd},
		{"nothing to buy is a wait with a reason",
			func(w *world) {
				w.ended(10, w.job.Current.Lease, "seller", 17)
				w.decline(11, 2, 1, "waiting-for-capacity")
			},
			"waiting-for-capacity", 1, []string{"acquire-j1-2-2"}, nil, ""},
		{"the deadline saves and stops",
			func(w *world) { w.in(6001, Tick{}) }, "finishing", 1, nil, nil, events.OrderStop},
		{"a voluntary move saves first",
			func(w *world) { w.join(12, w.buy(11, 2, 1, "b", events.ForReturn)) }, "draining", 1, nil, nil, events.OrderSave},
		{"and places after the save",
			func(w *world) { w.join(12, w.buy(11, 2, 1, "b", events.ForReturn)); w.commit(13, 20, true) },
			"restoring", 2, nil, []string{"release-j1-1-1"}, events.OrderStart},
		{"a voluntary move is not welcome while another is under way",
			func(w *world) {
				w.notice(10, 130)
				w.buy(11, 2, 1, "b", events.ForReplace)
				w.buy(12, 2, 2, "c", events.ForReturn)
			},
			"draining", 1, nil, []string{"release-j1-2-2"}, events.OrderStart},
		{"a restart in place gives back what was bought under the epoch it takes",
			func(w *world) { w.buy(11, 2, 1, "b", events.ForReturn); w.exit(12, -1, "SIGSEGV") },
			"restoring", 2, nil, []string{"release-j1-2-1"}, events.OrderStart},
		{"a machine lost during its restore goes on with the same move",
			func(w *world) {
				w.ended(10, w.job.Current.Lease, "seller", 17)
				w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
				w.ended(13, "j1-2-1", "seller", 0)
			}, "acquiring", 2, []string{"acquire-j1-3-1"}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			tc.do(w)
			if got := w.job.Status(); got != tc.status {
				t.Errorf("status %q, want %q", got, tc.status)
			}
			if w.job.Epoch != tc.epoch {
				t.Errorf("epoch %d, want %d", w.job.Epoch, tc.epoch)
			}
			if got := owes(w.job, events.Acquire); !slices.Equal(got, tc.acquire) {
				t.Errorf("acquires %v, want %v", got, tc.acquire)
			}
			if got := owes(w.job, events.Release); !slices.Equal(got, tc.release) {
				t.Errorf("releases %v, want %v", got, tc.release)
			}
			if got := order(w.job); got != tc.order {
				t.Errorf("order %q, want %q", got, tc.order)
			}
		})
	}
}

func (w *world) notice(s, deadline float64) []events.Event {
	return w.in(s, Noticed{events.JobNoticed{Epoch: w.job.Epoch, Lease: w.job.Current.Lease, Seen: at(s).Control, Deadline: at(deadline).Control}})
}

func (w *world) exit(s float64, code int, signal string) []events.Event {
	return w.in(s, Exited{Epoch: w.job.Epoch, DoneRequest: events.DoneRequest{Lease: w.job.Current.Lease, Code: code, Signal: signal, LastStep: 15}})
}

func (w *world) decline(s float64, epoch, n int, reason string) []events.Event {
	l := w.job.ID.Lease(epoch, n)
	return w.in(s, Declined{Event: w.leaseEvent(l, s, events.LeaseDeclined{Job: w.job.ID, Epoch: epoch, N: n, Reason: reason, RetryAt: at(s + 5).Control})})
}

func TestAFailoverRecordSaysWhatWasSeenAndLost(t *testing.T) {
	w := running()
	w.ended(20, w.job.Current.Lease, "seller", 37)
	l := w.buy(22, 2, 1, "b", events.ForReplace)
	w.join(24, l)
	out := w.start(26, 11)
	i := slices.IndexFunc(out, func(e events.Event) bool { _, ok := e.Fact.(events.JobFailedOver); return ok })
	if i < 0 {
		t.Fatal("the first step on the new machine wrote no record")
	}
	r := out[i].Fact.(events.JobFailedOver).Record
	if r.N != 1 || r.Cause != events.CauseReclaim || r.Noticed || r.LostSteps != 27 || r.From.Lease != "j1-1-1" || r.To.Lease != l {
		t.Errorf("record %+v", r)
	}
	// 4 s (commit) to 19.5 s (last heard) at 60 market seconds a second and 1 $/h.
	if want := events.Cost(events.DollarPerHour, 15500*time.Millisecond*60); r.LostMS != 15500 || r.LostCost != want {
		t.Errorf("lost %d ms, %s; want 15500 ms, %s", r.LostMS, r.LostCost, want)
	}
	var names []string
	for _, p := range r.Phases {
		names = append(names, p.Name)
	}
	if want := []string{"detect", "decide", "acquire", "boot", "place", "first-step"}; !slices.Equal(names, want) {
		t.Errorf("phases %v, want %v", names, want)
	}
	if len(r.Evidence) < 2 || r.Evidence[0] == "" {
		t.Errorf("evidence %v", r.Evidence)
	}
}

// TestRandomLives throws inputs at a job in any order and checks the laws after each.
func TestRandomLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.job.Spec.Policy.OnBudget = rapid.SampledFrom([]string{"stop", "pause"}).Draw(t, "on_budget")
		w.job.Spec.Policy.RestartOnExit = []int{2}
		w.job.Spec.Policy.MaxRestarts = rapid.IntRange(-1, 3).Draw(t, "max_restarts")
		spec := w.log[0].Fact.(events.JobSubmitted)
		spec.Spec = w.job.Spec
		w.log[0].Fact = spec
		now := 1.0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Float64Range(0.01, 40).Draw(t, "dt")
			w.in(now, Tick{}) // what time alone calls for comes first
			before := w.job
			in := drawInput(t, w, now)
			out := w.in(now, in)
			checkLaws(t, before, w.job, out)
			if _, again := Step(w.job, at(now), in); len(again) > 0 && !repeatable(in) {
				t.Fatalf("%T repeated made %d events", in, len(again))
			}
		}
		converges(t, w, now)
		if got := Replay(w.log); !reflect.DeepEqual(strip(got), strip(w.job)) {
			t.Fatalf("replayed state differs:\n%+v\n%+v", strip(got), strip(w.job))
		}
	})
}

// converges has nothing more go wrong: a job that is not over ends up computing
// on one machine, or paused until it is resumed and then computing.
func converges(t *rapid.T, w *world, now float64) {
	for range 80 {
		now += 10
		w.in(now, Tick{})
		j := w.job
		switch {
		case j.Over():
			return
		case j.Phase == Running && !j.optional() && j.Move == nil && len(Owed(j)) == 1+unconfirmed(j):
			chained(t, w)
			return
		case j.Phase == Paused:
			w.in(now, Resume{By: "zoe"})
		case j.Next != nil && j.Next.Joined.IsZero():
			w.join(now, j.Next.Lease)
		case len(owes(j, events.Acquire)) > 0:
			w.buy(now, j.NextEpoch, j.NextN, "z", events.ForReplace)
		case order(j) == events.OrderSave:
			w.commit(now, max(j.Step(), j.Floor())+1, true)
		case j.Current != nil && j.Current.Drill.Taken:
			w.ended(now, j.Current.Lease, "us", 0)
		case j.Current != nil && j.Current.Silent:
			w.in(now, Returned{Epoch: j.Epoch})
		case j.Current != nil && j.Current.Started.IsZero() && order(j) == events.OrderStart:
			w.start(now, j.Current.From+1)
		}
	}
	t.Fatalf("it does not come to rest: %s, owes %d, move %+v, current %+v, next %+v", w.job.Status(), len(Owed(w.job)), w.job.Move, w.job.Current, w.job.Next)
}

// chained checks that the failover records lead from the first machine to the
// present one without a gap.
func chained(t *rapid.T, w *world) {
	var at events.LeaseID
	n := 0
	for _, e := range w.log {
		switch f := e.Fact.(type) {
		case events.JobPlaced:
			if at == "" {
				at = f.Lease
			}
		case events.JobFailedOver:
			if n++; f.Record.From.Lease != at || f.Record.N != n {
				t.Fatalf("record %d of %d leaves %s, the job was on %s", f.Record.N, n, f.Record.From.Lease, at)
			}
			at = f.Record.To.Lease
		}
	}
	if at != w.job.Current.Lease || n != w.job.Failovers {
		t.Fatalf("after %d records the job should be on %s, it is on %s after %d", n, at, w.job.Current.Lease, w.job.Failovers)
	}
}

// unconfirmed counts the leases that are given back and not confirmed gone.
func unconfirmed(j Job) (n int) {
	for _, l := range j.Open {
		if !j.inUse(l) {
			n++
		}
	}
	return n
}

// repeatable inputs are reports of something that can truly happen again.
func repeatable(in Input) bool {
	switch in.(type) {
	case Exited, Silent, Declined, Noticed, Troubled:
		return true
	}
	return false
}

func strip(j Job) Job { j.last, j.Position = nil, 0; return j }

func checkLaws(t *rapid.T, before, after Job, out []events.Event) {
	if after.Epoch < before.Epoch {
		t.Fatalf("epoch fell from %d to %d", before.Epoch, after.Epoch)
	}
	if before.Over() && (after.Outcome != before.Outcome || after.Epoch != before.Epoch || len(after.Commits) != len(before.Commits)) {
		t.Fatalf("an ended job changed: %+v", out)
	}
	if after.Next != nil && after.Next.Epoch <= after.Epoch {
		t.Fatalf("next machine has epoch %d, current is %d", after.Next.Epoch, after.Epoch)
	}
	if after.Next != nil && !after.Next.Joined.IsZero() && after.NextEpoch <= after.Next.Epoch {
		t.Fatalf("epoch %d could be given out twice", after.Next.Epoch)
	}
	for i, e := range out {
		if e.Sequence != before.Sequence+uint64(i)+1 {
			t.Fatalf("event %d has sequence %d", i, e.Sequence)
		}
		if c, ok := e.Fact.(events.JobPlaced); ok && c.Resume == nil && len(after.Resume()) > 0 && c.Epoch == after.Epoch {
			t.Fatal("a silent start from zero")
		}
	}
	acquires, released := 0, map[events.LeaseID]bool{}
	for _, c := range Owed(after) {
		switch c.Kind {
		case events.Acquire:
			acquires++
			if after.exhausted() {
				t.Fatalf("machine after machine failed, and another is sought: %+v", after.Streak)
			}
			if after.Over() || after.stopping() || c.Epoch <= after.Epoch {
				t.Fatalf("acquire owed by a job that is %s: %+v", after.Status(), c)
			}
		case events.Release:
			released[c.Lease] = true
			if !after.Over() && after.inUse(c.Lease) && !after.taken(c.Lease) {
				t.Fatalf("release of a lease in use: %+v", c)
			}
		}
	}
	for _, l := range after.Open {
		if after.Over() || !after.inUse(l) {
			if !released[l] {
				t.Fatalf("lease %s is used by nobody and not given back", l)
			}
		}
	}
	if c, n := after.Current, after.Next; c != nil && n != nil && c.Lease == n.Lease {
		t.Fatalf("lease %s is current and next", c.Lease)
	}
	if after.Phase == Paused && (after.Current != nil || after.Next != nil) {
		t.Fatalf("a paused job holds a machine: %+v, %+v", after.Current, after.Next)
	}
	if c := after.Current; c != nil && after.Newest() != nil && after.Newest().Epoch == after.Epoch && after.Newest().Step < c.From {
		t.Fatalf("step %d is the newest although step %d was restored", after.Newest().Step, c.From)
	}
	if !after.Over() && (after.Phase == Running) != (after.Status() == "running") {
		t.Fatalf("phase %s, status %s", after.Phase, after.Status())
	}
	if acquires > 1 {
		t.Fatalf("%d acquires owed at once", acquires)
	}
	if !after.Over() && !after.stopping() && after.Current == nil && after.Next == nil && acquires == 0 {
		t.Fatal("nothing runs and nothing is sought")
	}
	if !after.Over() && after.Phase == Acquiring && acquires == 0 && after.Next == nil {
		t.Fatal("acquiring, and nothing is")
	}
}

func drawInput(t *rapid.T, w *world, now float64) Input {
	j := w.job
	epoch := rapid.IntRange(max(j.Epoch-1, 1), j.NextEpoch).Draw(t, "epoch")
	lease := j.ID.Lease(epoch, rapid.IntRange(1, max(j.NextN, 2)).Draw(t, "n"))
	if j.Current != nil && rapid.Bool().Draw(t, "current") {
		epoch, lease = j.Epoch, j.Current.Lease
	}
	switch rapid.IntRange(0, 17).Draw(t, "kind") {
	case 0, 1, 2:
		lease = j.ID.Lease(j.NextEpoch, j.NextN)
		return Bought{Lease: lease,
			Intent:   w.leaseEvent(lease, now, events.LeaseIntended{Job: j.ID, Epoch: j.NextEpoch, N: j.NextN, Purpose: rapid.SampledFrom([]events.Purpose{events.ForReplace, events.ForReturn}).Draw(t, "purpose")}),
			Launched: w.leaseEvent(lease, now, events.LeaseLaunched{BootBy: at(now + 30).Control})}
	case 3, 4:
		if j.Next != nil {
			return Joined{events.JobJoined{Epoch: j.Next.Epoch, Lease: j.Next.Lease, Key: "U"}}
		}
		return Joined{events.JobJoined{Epoch: epoch, Lease: lease, Key: "U"}}
	case 5:
		return Stepped{events.JobStarted{Epoch: epoch, Lease: lease, Step: j.Step() + 1}}
	case 6:
		return Noticed{events.JobNoticed{Epoch: epoch, Lease: lease, Seen: at(now).Control, Deadline: at(now + 30).Control}}
	case 7:
		return Withdrawn{events.JobNoticeWithdrawn{Epoch: epoch, Lease: lease}}
	case 8:
		step := j.Step() + 1
		return Committed{events.JobCommitted{Epoch: epoch, Lease: lease, Final: rapid.Bool().Draw(t, "final"), Checkpoint: events.Checkpoint{Name: fmt.Sprint(epoch, step), Epoch: epoch, Step: step}}}
	case 9:
		return Exited{Epoch: epoch, DoneRequest: events.DoneRequest{Lease: lease, Code: rapid.IntRange(0, 2).Draw(t, "code"), Signal: rapid.SampledFrom([]string{"", "SIGKILL"}).Draw(t, "signal")}}
	case 10:
		return Gone{Event: w.leaseEvent(lease, now, events.LeaseEnded{EndedBy: rapid.SampledFrom([]string{"seller", "us", "fault", "machine"}).Draw(t, "by")})}
	case 11:
		if rapid.Bool().Draw(t, "back") {
			return Returned{Epoch: epoch}
		}
		return Silent{Epoch: epoch}
	}
	switch person := rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "who"); rapid.IntRange(0, 9).Draw(t, "act") {
	case 0:
		return Pause{By: person}
	case 1, 2, 3:
		return Resume{By: person}
	case 4:
		return Migrate{By: person}
	case 5:
		return Drill{By: person, NoNotice: rapid.Bool().Draw(t, "word")}
	case 6, 7:
		return Troubled{events.JobTroubled{Epoch: epoch, Lease: lease, Kind: rapid.SampledFrom([]events.Trouble{
			events.TroubleGPUFault, events.TroubleHostFault, events.TroubleStalled, events.TroubleRestoreIgnored}).Draw(t, "trouble")}}
	case 8:
		return Declined{Event: w.leaseEvent(j.ID.Lease(epoch, j.NextN), now, events.LeaseDeclined{Job: j.ID, Epoch: epoch, N: j.NextN,
			Reason: rapid.SampledFrom([]string{"waiting-for-capacity", "out-of-budget"}).Draw(t, "reason")})}
	}
	if rapid.IntRange(0, 3).Draw(t, "words") == 0 {
		return LastWords{events.JobLastWords{Epoch: epoch, Lease: lease}}
	}
	if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
		return Cancel{By: "ann"}
	}
	return Tick{}
}

func TestAMoveGoesOnUntilItsFirstStepWhateverHappensToTheNewMachine(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(w *world)
	}{
		{"nothing", func(*world) {}},
		{"its trainer dies at once", func(w *world) { w.exit(25, -1, "SIGKILL") }},
		{"it is lost", func(w *world) {
			w.ended(25, "j1-2-1", "seller", 0)
			w.join(27, w.buy(26, 3, 1, "c", events.ForReplace))
		}},
		{"it is noticed and the notice withdrawn", func(w *world) {
			w.notice(25, 145)
			w.in(26, Withdrawn{events.JobNoticeWithdrawn{Epoch: 2, Lease: "j1-2-1"}})
		}},
		{"it is noticed and taken", func(w *world) {
			w.notice(25, 27)
			w.join(27, w.buy(26, 3, 1, "c", events.ForReplace))
			w.in(28, Tick{})
		}},
		{"it is silent for a while", func(w *world) { w.in(25, Silent{Epoch: 2}); w.in(26, Returned{Epoch: 2}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			w.ended(20, w.job.Current.Lease, "seller", 37)
			w.join(24, w.buy(22, 2, 1, "b", events.ForReplace))
			tc.do(w)
			out := w.start(30, 11)
			r := out[len(out)-1].Fact.(events.JobFailedOver).Record
			if r.From.Lease != "j1-1-1" || r.Cause != events.CauseReclaim || r.LostSteps != 27 || r.LostMS != 15500 || !r.Ended.Equal(at(30).Control) {
				t.Errorf("record %+v", r)
			}
			if w.job.Failovers != 1 || w.job.Move != nil {
				t.Errorf("%d failovers, move %+v", w.job.Failovers, w.job.Move)
			}
		})
	}
}

func TestAMachineThatIsBackFromSilenceIsStillUnderItsNotice(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(w *world)
	}{
		{"noticed, then silent, then back", func(w *world) {
			w.notice(10, 130)
			w.in(50, Silent{Epoch: 1})
			w.in(60, Returned{Epoch: 1})
		}},
		{"silent, and back with a notice", func(w *world) { w.in(50, Silent{Epoch: 1}); w.notice(60, 130); w.in(61, Returned{Epoch: 1}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			tc.do(w)
			if j := w.job; j.Notice == nil || j.Current.Silent || j.Status() != "draining" || len(owes(j, events.Acquire)) != 1 {
				t.Errorf("notice %+v, silent %v, %s, owes %v", j.Notice, j.Current.Silent, j.Status(), owes(j, events.Acquire))
			}
		})
	}
}

func TestACancelSaysWhoAndWhy(t *testing.T) {
	w, v := running(), running()
	w.in(10, Cancel{By: "ann"})
	v.in(10, Cancel{By: "ann", Reason: "wrong data"})
	if w.job.Reason != "cancelled by ann" || v.job.Reason != "cancelled by ann: wrong data" {
		t.Errorf("%q, %q", w.job.Reason, v.job.Reason)
	}
}

func TestARecordNamesWhatWasRestoredNotWhatWasAdopted(t *testing.T) {
	w := running()
	w.commit(6, 20, false)
	w.ended(10, w.job.Current.Lease, "seller", 25)
	l := w.buy(11, 2, 1, "b", events.ForReplace)
	w.join(12, l)
	w.in(13, Rejected{events.JobCheckpointRejected{Epoch: 2, Lease: l, Checkpoint: events.Checkpoint{Name: "c1-20"}}})
	out := w.in(14, Stepped{events.JobStarted{Epoch: 2, Lease: l, From: 10, Step: 11}})
	r := out[len(out)-1].Fact.(events.JobFailedOver).Record
	// Committed at 4 s, last heard at 9.5 s.
	if r.Resumed == nil || r.Resumed.Name != "c1-10" || r.LostSteps != 15 || r.LostMS != 5500 {
		t.Errorf("resumed %+v, lost %d steps, %d ms; want c1-10, 15, 5500", r.Resumed, r.LostSteps, r.LostMS)
	}
	seen := map[events.EventID]bool{}
	for _, id := range r.Evidence {
		if seen[id] {
			t.Errorf("evidence %s twice", id)
		}
		seen[id] = true
	}
}
