package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// talkative is a seller that hints, and that can be told that a machine may go.
type talkative struct {
	*agenttest.Seller
	mu     sync.Mutex
	hint   string
	agreed []time.Duration
	refuse error
	alone  bool
}

func (s *talkative) hints(text string) { s.mu.Lock(); defer s.mu.Unlock(); s.hint = text }

func (s *talkative) Hint(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hint, nil
}

func (s *talkative) Acknowledge(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agreed = append(s.agreed, s.Now())
	return s.alone && s.refuse == nil, s.refuse
}

func (s *talkative) acknowledged() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.agreed...)
}

func TestAHintIsASaveAndNoNotice(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		s := &talkative{Seller: w.seller}
		w.cfg.Metadata = s
		w.trainer.SaveEvery = 10_000
		w.boot()
		w.sleep(50 * time.Second)
		w.equal("commits", len(w.commits()), 0)
		s.hints("rebalance recommended")
		w.sleep(20 * time.Second)
		if c := w.commits(); len(c) != 1 || c[0].Final || c[0].Checkpoint.Step < 49 {
			t.Errorf("commits %+v", c)
		}
		w.sleep(time.Minute)
		w.equal("commits for one hint", len(w.commits()), 1)
		s.hints("rebalance recommended once more")
		w.sleep(20 * time.Second)
		w.equal("commits for two", len(w.commits()), 2)
		w.equal("notices", len(w.gw.Record().Notices), 0)
		if !w.said("hints") || !w.running() {
			t.Error("nothing is said of it, or the trainer was stopped")
		}
	})
}

func TestAHintDoesNotEndATrainerThatSavesAtItsEnd(t *testing.T) {
	inWorld(t, func(w *world, r *events.JoinReply) {
		r.Spec.Policy.Checkpoint.Signal = "SIGTERM"
		s := &talkative{Seller: w.seller}
		w.cfg.Metadata = s
		w.boot()
		w.sleep(50 * time.Second)
		s.hints("rebalance recommended")
		w.sleep(time.Minute)
		if !w.running() || w.restarts() != 0 {
			t.Error("the trainer was ended for a hint")
		}
	})
}

func TestTheSellerIsToldOnlyWhenEverythingIsSaved(t *testing.T) {
	t.Run("once, after the last commit", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			s := &talkative{Seller: w.seller, alone: true}
			w.cfg.Metadata = s
			w.boot()
			w.sleep(50 * time.Second)
			s.Warn(time.Minute)
			w.until("a final commit", func() bool { return w.lastCommit().Final })
			at := w.gw.Record().CommitAt
			w.sleep(10 * time.Second)
			if k := s.acknowledged(); len(k) != 1 || k[0] < at[len(at)-1] {
				t.Errorf("acknowledged at %v, committed at %v", k, at)
			}
			w.gw.Order(events.OrderSave, "save-1") // as follows from a notice
			w.until("its answer", func() bool { return len(w.answers("save-1")) > 0 })
			w.sleep(10 * time.Second)
			w.equal("acknowledged", len(s.acknowledged()), 1)
			if !w.said("may take the machine") {
				t.Error("it is not said")
			}
		})
	})
	t.Run("never while the gateway does not take the commit", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			s := &talkative{Seller: w.seller, alone: true}
			w.cfg.Metadata = s
			w.boot()
			w.sleep(50 * time.Second)
			w.gw.Cut(true)
			s.Warn(time.Minute)
			w.sleep(55 * time.Second)
			w.equal("acknowledged", len(s.acknowledged()), 0)
			w.gw.Cut(false)
		})
	})
	t.Run("never when there was nothing to save", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			s := &talkative{Seller: w.seller, alone: true}
			w.cfg.Metadata = s
			w.trainer.Deaf, w.trainer.SaveEvery = true, 10_000
			w.boot()
			w.sleep(50 * time.Second)
			s.Warn(time.Minute)
			w.sleep(70 * time.Second)
			w.equal("acknowledged", len(s.acknowledged()), 0)
		})
	})
	t.Run("a seller that does not listen changes nothing", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			s := &talkative{Seller: w.seller, refuse: errors.New("status 500")}
			w.cfg.Metadata = s
			w.boot()
			w.sleep(50 * time.Second)
			s.Warn(time.Minute)
			w.sleep(30 * time.Second)
			w.equal("acknowledged", len(s.acknowledged()), 1)
			w.equal("final", w.lastCommit().Final, true)
			s.Withdraw()
			w.sleep(30 * time.Second)
			s.Warn(time.Minute)
			w.sleep(30 * time.Second)
			w.equal("a new notice is acknowledged anew", len(s.acknowledged()), 2)
			w.equal("running", w.running(), true)
		})
	})
}

func TestAChannelThatIsNotHeardIsVisible(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		core, logs := observer.New(zap.WarnLevel)
		w.cfg.Log = zap.New(core)
		lines := func() int { return logs.FilterMessage("reading the metadata").Len() }
		state := func() string {
			b := w.gw.Record().Beats
			return b[len(b)-1].Notices
		}
		w.seller.Fail(errors.New("connection refused"))
		w.boot()
		w.sleep(2 * time.Minute)
		w.equal("never heard", state(), events.NoticesUnseen)
		w.equal("lines for one failure", lines(), 1)
		w.seller.Fail(errors.New("status 503"))
		w.sleep(time.Minute)
		w.equal("lines for two", lines(), 2)
		w.seller.Fail(nil)
		w.sleep(20 * time.Second)
		w.equal("heard", state(), "")
		w.seller.Fail(errors.New("status 503"))
		w.sleep(20 * time.Second)
		w.equal("not any more", state(), events.NoticesLost)
		w.equal("lines for three", lines(), 3)
		for i := range 600 { // one that words itself anew with every look
			w.seller.Fail(errors.New(strings.Repeat("x", i)))
			w.sleep(100 * time.Millisecond)
		}
		if n := lines(); n > 5 {
			t.Errorf("%d lines in a minute", n)
		}
		if w.over() || !w.running() {
			t.Error("a seller that cannot be heard has ended something")
		}
		w.seller.Fail(nil)
		w.seller.Warn(30 * time.Second)
		w.until("a final commit", func() bool { return w.lastCommit().Final })
	})
}

// slow is a channel whose first answer takes two minutes, as Azure's may.
type slow struct {
	*agenttest.Seller
	answered bool
}

func (s *slow) Patience() time.Duration {
	if s.answered {
		return time.Second
	}
	return 130 * time.Second
}

func (s *slow) Warning(ctx context.Context) (*agent.Warning, error) {
	if !s.answered {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Minute):
			s.answered = true
		}
	}
	return s.Seller.Warning(ctx)
}

func TestASlowFirstAnswerIsWaitedFor(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.cfg.Metadata = &slow{Seller: w.seller}
		w.boot()
		w.sleep(time.Minute)
		b := w.gw.Record().Beats
		w.equal("until then", b[len(b)-1].Notices, events.NoticesUnseen)
		w.equal("said to be broken", w.said("cannot be read"), false)
		w.seller.Warn(2 * time.Minute)
		w.until("a final commit", func() bool { return w.lastCommit().Final })
		w.sleep(10 * time.Second)
		b = w.gw.Record().Beats
		w.equal("since then", b[len(b)-1].Notices, "")
	})
}

func TestAMachineWithoutNoticesSaysSo(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.cfg.Metadata = &agent.Mute{ID: "pod-1"}
		w.boot()
		w.sleep(30 * time.Second)
		b := w.gw.Record().Beats
		if !w.said("gives no notices") || b[len(b)-1].Notices != "" {
			t.Errorf("heartbeat %+v", b[len(b)-1])
		}
	})
}

func TestASignalIsANotice(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		received := make(chan struct{})
		w.cfg.NoticeEvery = 20 * time.Millisecond
		w.cfg.NoticeCap = 5 * time.Second
		w.cfg.Metadata = agent.NewSignalled(&agent.Mute{ID: "pod-1"}, 5*time.Second, received)
		w.boot()
		w.sleep(50 * time.Second)
		at := w.trainer.Last()
		close(received)
		w.until("a final commit", func() bool { return w.lastCommit().Final })
		if c := w.lastCommit(); c.Checkpoint.Step < at {
			t.Errorf("step %d committed, %d reached at the signal", c.Checkpoint.Step, at)
		}
		n := w.gw.Record().Notices
		if len(n) != 1 || n[0].Source != "signal" || n[0].Left > 5*time.Second || n[0].Left < 4*time.Second {
			t.Errorf("notices %+v", n)
		}
	})
}
