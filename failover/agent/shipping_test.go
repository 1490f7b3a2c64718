package agent_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
)

const mib = 1 << 20

// link is a store at the other end of a line that carries so many bytes a
// second, however many share it.
type link struct {
	checkpoint.Store
	rate float64

	mu   sync.Mutex
	free time.Time
	sent []sending
}

// sending is what has arrived at a time.
type sending struct {
	at time.Time
	n  int
}

// online puts the world's store behind a line.
func (w *world) online(rate float64) *link {
	l := &link{Store: w.store, rate: rate}
	w.cfg.OpenStore = func(events.StoreGrant) (checkpoint.Store, error) { return l, nil }
	return l
}

func (l *link) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	return l.Store.Put(ctx, name, &carried{ctx, l, r}, size)
}

// carry returns when so many bytes will have arrived that are sent now.
func (l *link) carry(n int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	l.sent = append(l.sent, sending{l.free, n})
	return l.free
}

// between is how many bytes arrived from one time to another.
func (l *link) between(from, to time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sent {
		if s.at.After(from) && !s.at.After(to) {
			n += s.n
		}
	}
	return n
}

type carried struct {
	ctx context.Context
	l   *link
	r   io.Reader
}

func (c *carried) Read(p []byte) (int, error) {
	n, err := c.r.Read(p[:min(len(p), 64<<10)])
	if n > 0 {
		t := time.NewTimer(time.Until(c.l.carry(n)))
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.ctx.Done():
			return 0, c.ctx.Err()
		}
	}
	return n, err
}

// uploads are how long the commits so far took from complete to the store.
func (w *world) uploads() (took []time.Duration) {
	for _, c := range w.commits() {
		took = append(took, time.Duration(c.UploadMS)*time.Millisecond)
	}
	return took
}

func (w *world) committed(step int64) func() bool {
	return func() bool { return w.lastCommit().Checkpoint.Step >= step }
}

func TestFilesAreAwayBeforeTheirCheckpointIsComplete(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		l := w.online(mib)
		w.trainer.Shards, w.trainer.Bytes, w.trainer.SaveTime, w.trainer.SaveEvery = 4, 3*mib, 40*time.Second, 60
		w.boot()
		w.until("two commits", func() bool { return len(w.commits()) == 2 })
		for _, took := range w.uploads() {
			if took > 3*time.Second {
				t.Errorf("uploads took %v after the checkpoint was complete; each has 12 MiB, and the line carries one a second", w.uploads())
			}
		}
		if n := l.between(time.Time{}, time.Now()); n > 2*12*mib+mib/10 {
			t.Errorf("%d bytes sent of two checkpoints of 12 MiB", n)
		}
	})
}

func TestUploadsKeepToTheirShare(t *testing.T) {
	inWorld(t, func(w *world, join *events.JoinReply) {
		join.Spec.Policy.Checkpoint.SharePct = 25
		w.online(mib)
		w.trainer.Bytes, w.trainer.SaveEvery = 9*mib, 60
		w.boot()
		w.until("ten commits", func() bool { return len(w.commits()) == 10 })
		for i, took := range w.uploads() {
			measuring := i%8 == 0
			if measuring && took > 12*time.Second || !measuring && (took < 32*time.Second || took > 45*time.Second) {
				t.Errorf("upload %d took %v: at a quarter of the line it takes 36 s, and the first and every eighth has all of it", i, took)
			}
		}
	})
}

// TestUploadsLeaveBusyCoresAlone: half of the line is 32 MiB a second, and what a
// hundredth of two cores sends some ten.
func TestUploadsLeaveBusyCoresAlone(t *testing.T) {
	for _, tc := range []struct {
		name        string
		idle        float64 // cores
		least, most time.Duration
	}{
		{"a trainer on one of two cores", 1, 0, time.Second},
		{"a trainer on both", 0, 2 * time.Second, 6 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *events.JoinReply) {
				w.online(64 * mib)
				began := time.Now()
				w.cfg.Load = func() (agent.Load, bool) {
					return agent.Load{Cores: 2, Idle: time.Duration(tc.idle * float64(time.Since(began)))}, true
				}
				w.trainer.Bytes, w.trainer.SaveEvery = 40*mib, 60
				w.boot()
				w.until("three commits", func() bool { return len(w.commits()) == 3 })
				for _, took := range w.uploads()[1:] { // the first measures the line
					if took < tc.least || took > tc.most {
						t.Errorf("uploads took %v once the save was complete, want %v to %v of 40 MiB", w.uploads(), tc.least, tc.most)
					}
				}
			})
		})
	}
}

func TestANoticeLiftsTheShareAndItsWithdrawalSetsItAgain(t *testing.T) {
	inWorld(t, func(w *world, join *events.JoinReply) {
		join.Spec.Policy.Checkpoint.Signal = ""
		l := w.online(mib)
		w.trainer.Deaf = true
		w.trainer.Bytes, w.trainer.SaveEvery = 40*mib, 200
		rate := func(d time.Duration) float64 {
			from := time.Now()
			w.sleep(d)
			return float64(l.between(from, time.Now())) / mib / d.Seconds()
		}
		w.boot()
		w.until("a commit", w.committed(200))
		w.until("the next save", func() bool { return w.trainer.Last() >= 400 })
		w.sleep(10 * time.Second)
		if r := rate(8 * time.Second); r > 0.6 || r < 0.4 {
			t.Errorf("%.2f of the line before the notice", r)
		}
		w.seller.Warn(2 * time.Minute)
		w.sleep(2 * time.Second)
		if r := rate(8 * time.Second); r < 0.9 {
			t.Errorf("%.2f of the line under a notice", r)
		}
		w.seller.Withdraw()
		w.sleep(2 * time.Second)
		if r := rate(8 * time.Second); r > 0.6 || r < 0.4 {
			t.Errorf("%.2f of the line after it was withdrawn", r)
		}
		w.until("the commit", w.committed(400))
		w.until("the next save", func() bool { return w.trainer.Last() >= 600 })
		w.sleep(5 * time.Second)
		if r := rate(8 * time.Second); r > 0.6 {
			t.Errorf("%.2f of the line for the next one: what was measured under the notice is not the line", r)
		}
	})
}

func TestWhatIsUnsentIsTold(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.online(mib)
		w.trainer.Bytes, w.trainer.SaveEvery = 20*mib, 60
		w.boot()
		w.until("a commit", w.committed(60))
		w.until("the next save", func() bool { return w.trainer.Last() >= 120 })
		w.sleep(10 * time.Second)
		last := int64(20*mib + 1000)
		for range 4 { // at half the line
			w.sleep(5 * time.Second)
			h := w.newestBeat()
			if h.Unsent <= 0 || h.Unsent >= last {
				t.Errorf("%d bytes unsent, %d before", h.Unsent, last)
			}
			if flush := float64(h.FlushMS) / 1000; flush < float64(h.Unsent)/mib*0.9 || flush > float64(h.Unsent)/mib*1.3+1 {
				t.Errorf("%.1f s to flush %d bytes with all of a line of 1 MiB/s", flush, h.Unsent)
			}
			last = h.Unsent
		}
		w.until("the commit", w.committed(120))
		w.sleep(6 * time.Second)
		if h := w.newestBeat(); h.Unsent != 0 || h.FlushMS != 0 {
			t.Errorf("%d bytes, %d ms when all is away", h.Unsent, h.FlushMS)
		}
	})
}

func TestANoticeMeetsAnUploadUnderWay(t *testing.T) {
	for _, tc := range []struct {
		name   string
		notice time.Duration
		hangs  bool
		first  bool // the one under way is committed
		fresh  bool // what the notice asks for is
	}{
		{"time for both: the one under way is finished first", 60 * time.Second, false, true, true},
		{"time for the fresh one only", 17 * time.Second, false, false, true},
		{"time for the rest of the one under way only", 11 * time.Second, false, true, false},
		{"the trainer does not save: it is gone on with", 17 * time.Second, true, true, false},
		{"time for nothing", 4 * time.Second, false, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *events.JoinReply) {
				w.online(mib)
				w.trainer.Shards, w.trainer.Bytes, w.trainer.SaveEvery = 10, mib, 60
				if tc.hangs {
					w.trainer.HangAt = 121
				}
				w.boot()
				w.until("a commit", w.committed(60))
				w.until("the next save", func() bool { return w.trainer.Last() >= 120 })
				w.sleep(5 * time.Second) // of which some are sent, at half the line
				w.seller.Warn(tc.notice)
				w.sleep(tc.notice)
				steps := w.steps()
				fresh := slices.ContainsFunc(steps, func(s int64) bool { return s > 120 })
				if first := slices.Contains(steps, 120); first != tc.first || fresh != tc.fresh {
					t.Errorf("committed %v by the deadline", steps)
				}
				if last := w.lastCommit(); (tc.first || tc.fresh) && !last.Final {
					t.Errorf("the last, of step %d, is not said to be", last.Checkpoint.Step)
				}
			})
		})
	}
}

func TestACheckpointDeletedByItsTrainerIsShippedAllTheSame(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.online(mib)
		w.trainer.Bytes, w.trainer.SaveEvery, w.trainer.Keep = 9*mib, 6, 1
		w.boot()
		w.until("five commits", func() bool { return len(w.commits()) == 5 })
		for _, c := range w.commits() {
			if err := checkpoint.Verify(w.t.Context(), w.store, "acme", string(job), refOf(c.Checkpoint), true); err != nil {
				t.Error(err)
			}
		}
		if steps := w.steps(); steps[4] < 36 {
			t.Errorf("steps %v: those between are passed over", steps)
		}
	})
}

func TestSavesAreAskedForInAChosenRhythm(t *testing.T) {
	auto := func(join *events.JoinReply, w *world) {
		join.Spec.Policy.Checkpoint.IntervalAuto = true
		w.trainer.SaveEvery = 0
	}
	t.Run("as often as machines like this are taken back", func(t *testing.T) {
		inWorld(t, func(w *world, join *events.JoinReply) {
			auto(join, w)
			w.gw.Reply(func(r *events.RenewReply) { r.ReclaimEvery = time.Hour })
			w.boot()
			w.until("four commits", func() bool { return len(w.commits()) == 4 })
			if s := w.steps(); s[3]-s[2] < 30 || s[3]-s[2] > 40 {
				t.Errorf("saved at %v", s)
			}
		})
	})
	t.Run("once an hour when nobody knows", func(t *testing.T) {
		inWorld(t, func(w *world, join *events.JoinReply) {
			auto(join, w)
			w.boot()
			w.sleep(59 * time.Minute)
			w.equal("commits", len(w.commits()), 0)
			w.until("a commit", func() bool { return len(w.commits()) == 1 })
		})
	})
	t.Run("no faster than uploads follow", func(t *testing.T) {
		inWorld(t, func(w *world, join *events.JoinReply) {
			auto(join, w)
			w.gw.Reply(func(r *events.RenewReply) { r.ReclaimEvery = time.Hour })
			w.online(mib / 4)
			w.trainer.Bytes = 9 * mib
			w.boot()
			w.until("four commits", func() bool { return len(w.commits()) == 4 })
			if s := w.steps(); s[3]-s[2] < 70 || s[3]-s[2] > 90 {
				t.Errorf("saved at %v; 9 MiB take 72 s at half of the line", s)
			}
			if !w.said("uploads of 1m1") {
				t.Error("nobody is told")
			}
		})
	})
	t.Run("a person is told of a flush that no notice covers", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.online(mib / 16)
			w.trainer.Bytes, w.trainer.SaveEvery = 9*mib, 300
			w.boot()
			w.until("a commit", func() bool { return len(w.commits()) == 1 })
			w.sleep(5 * time.Second)
			if !w.said("the seller warns at most 2m0s ahead") {
				t.Error("nobody is told")
			}
		})
	})
}
