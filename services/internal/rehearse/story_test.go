package rehearse

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// world plays a trainer to a story: one step in 100 ms, a save every so many
// steps, two seconds from a machine's loss to the next one's first step.
type world struct {
	saveEvery int64
	tells     bool
	stuckAt   int64 // makes no more steps after this one; 0: never

	seen   Seen
	start  float64 // of the life
	next   float64 // when the next life begins; 0: it has begun
	notice bool
}

func (w *world) begin(now float64) {
	from := int64(0)
	for _, c := range w.seen.History.Commits {
		from = max(from, c.Checkpoint.Step)
	}
	l := life(len(w.seen.Lives)+1, now, from, from, nil)
	l.Resumed = from > 0
	w.start, w.next = now, 0
	w.seen.Lives = append(w.seen.Lives, l)
}

func (w *world) turn(now float64) {
	if w.next > 0 && now >= w.next {
		w.begin(now)
	}
	l := &w.seen.Lives[len(w.seen.Lives)-1]
	step := l.From + int64((now-w.start)*10+0.5)
	if w.next > 0 && !w.notice || step == l.From || w.stuckAt > 0 && step > w.stuckAt {
		return
	}
	if l.Started.IsZero() {
		l.Started, l.First = at(now), step
	}
	if w.tells && l.Last() < step {
		x := steady(step)
		l.Told = append(l.Told, Telling{Lease: l.Lease, At: at(now), Step: step, Loss: &x})
	}
	if step%w.saveEvery == 0 {
		if _, ok := w.seen.History.committed(l.Epoch); !ok || w.seen.History.Commits[len(w.seen.History.Commits)-1].Checkpoint.Step != step {
			w.seen.History.Commits = append(w.seen.History.Commits, commit(l.Epoch, step, now))
		}
	}
}

// play runs a story to its end and returns when that was, and what it did.
func (w *world) play(limit time.Duration) (s *Story, ended float64, acts []Act) {
	s = NewStory(at(0), limit)
	w.begin(0)
	for tick := 0; ; tick++ {
		now := float64(tick) / 10
		w.turn(now)
		switch act := s.Next(w.seen, at(now)); act {
		case Finish:
			return s, now, acts
		case TakeNoticed, TakeSuddenly:
			acts = append(acts, act)
			w.next, w.notice = now+2, act == TakeNoticed
		}
	}
}

func TestTheStoryTakesTheMachineTwiceAndEndsWhenItKnowsEnough(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		world    world
		limit    time.Duration
		complete bool
		acts     int
		within   float64 // seconds
	}{
		{"a save every 20 steps", world{saveEvery: 20, tells: true}, 5 * time.Minute, true, 2, 15},
		{"a save every fourth step is never ten steps ago", world{saveEvery: 4, tells: true}, 5 * time.Minute, true, 2, 15},
		{"a save with every step", world{saveEvery: 1, tells: true}, 5 * time.Minute, true, 2, 15},
		{"a save once in a minute", world{saveEvery: 600, tells: true}, 5 * time.Minute, true, 2, 140},
		{"a save so seldom that the second is not waited for", world{saveEvery: 1500, tells: true}, 5 * time.Minute, true, 2, 240},
		{"no step is told", world{saveEvery: 20}, 5 * time.Minute, true, 2, 20},
		{"a save that never comes", world{saveEvery: 1 << 40, tells: true}, time.Minute, false, 0, 60},
		{"a save too late for a move", world{saveEvery: 570, tells: true}, time.Minute, false, 1, 60},
		{"a trainer that hangs", world{saveEvery: 20, tells: true, stuckAt: 25}, time.Minute, false, 0, 60},
		{"one that hangs is not taken away meanwhile", world{saveEvery: 25, tells: true, stuckAt: 40}, time.Minute, false, 1, 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, ended, acts := tc.world.play(tc.limit)
			if s.Complete != tc.complete || len(acts) != tc.acts || ended > tc.within {
				t.Errorf("complete %v after %.1f s with %v; want %v within %v s with %d acts", s.Complete, ended, acts, tc.complete, tc.within, tc.acts)
			}
			if len(acts) == 2 && (acts[0] != TakeNoticed || acts[1] != TakeSuddenly) {
				t.Errorf("acts %v", acts)
			}
			for _, x := range s.Taken {
				if tc.world.tells && len(x.Life.Told) > 0 && x.Life.Last() <= x.Life.From {
					t.Errorf("taken at step %d, no step past its checkpoint", x.Life.Last())
				}
			}
		})
	}
}

func TestTheStoryEndsAtOnceWhenThereIsNothingMoreToSee(t *testing.T) {
	t.Parallel()
	exit := func(code int, s float64) Exit { return Exit{events.JobExited{Code: code}, at(s)} }
	for _, tc := range []struct {
		name string
		h    History
		code []int // listed
		want Act
	}{
		{"the job ended", History{Ended: &events.JobEnded{}}, nil, Finish},
		{"the job is paused", History{Paused: &events.JobPaused{}}, nil, Finish},
		{"one crash may be chance", History{Exits: []Exit{exit(7, 1)}}, nil, Watch},
		{"the same code twice is none", History{Exits: []Exit{exit(7, 1), exit(7, 2)}}, nil, Finish},
		{"two different codes are two troubles", History{Exits: []Exit{exit(7, 1), exit(8, 2)}}, nil, Watch},
		{"with a save between it got further", History{Exits: []Exit{exit(7, 1), exit(7, 3)}, Commits: []Commit{commit(1, 20, 2)}}, nil, Watch},
		{"a kill is no crash", History{Exits: []Exit{{events.JobExited{Code: -1, Signal: "SIGKILL"}, at(1)}, {events.JobExited{Code: -1, Signal: "SIGKILL"}, at(2)}}}, nil, Watch},
		{"a listed code may come twice", History{Exits: []Exit{exit(33, 1), exit(33, 2)}}, []int{33}, Watch},
		{"and not three times", History{Exits: []Exit{exit(33, 1), exit(33, 2), exit(33, 3)}}, []int{33}, Finish},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := NewStory(at(0), time.Minute)
			if got := s.Next(Seen{History: tc.h, Listed: tc.code}, at(5)); got != tc.want {
				t.Errorf("Next = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestOnlyTheWayOfSavingIsKeptOfAPolicy(t *testing.T) {
	t.Parallel()
	in := events.JobSpec{
		Run: "train", Envs: map[string]string{"LR": "1"}, Resources: events.Resources{Accelerators: []events.Accelerator{{Model: "H100", Count: 8}, {Model: "A100", Count: 8}}, VCPU: 96, Places: []events.Place{{Seller: "aws"}}},
		Policy: events.Policy{Budget: 1, Deadline: at(0), MaxDurationS: 5, Countries: []string{"SE"}, Checkpoint: events.CheckpointPolicy{Signal: "SIGUSR1"}, MaxRestarts: 3, Work: events.Work{Steps: 9, HoursOnS: map[string]int64{"H100": 1}}},
	}
	out := Spec(in)
	if out.Run != "train" || out.Envs["LR"] != "1" || out.Envs[Variable] != "1" || in.Envs[Variable] != "" {
		t.Errorf("envs %v, were %v", out.Envs, in.Envs)
	}
	p := out.Policy
	if len(out.Resources.Accelerators) != 1 || out.Resources.VCPU != 0 || out.Resources.Places != nil || !p.Deadline.IsZero() || p.MaxDurationS != 0 || p.Countries != nil ||
		p.Checkpoint.Signal != "SIGUSR1" || p.MaxRestarts != 3 || p.Work.Steps != 9 || p.Work.HoursOnS != nil || p.Spot.Mode != events.SpotOnly || p.Budget <= 1 {
		t.Errorf("%+v", out)
	}
	if err := Market(out).Validate(); err != nil {
		t.Error(err)
	}
	if got := Market(out).Table.List[0].Info.Offer.GPU; got.Model != "H100" || got.Count != 8 {
		t.Errorf("the market sells %+v", got)
	}
}
