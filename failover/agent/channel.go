package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

const (
	hintEvery   = 5 * time.Second  // between looks for a hint
	longAnswer  = 30 * time.Second // so long nobody waits without being told that nothing is heard
	sameFailure = time.Minute      // least time between log lines of one failure that words itself anew
)

// channel is what the seller says on the machine, as one goroutine hears it.
type channel struct {
	a       *agent
	heard   bool          // it has answered at least once
	stands  bool          // a notice
	failing string        // the newest failure; "": it works
	logged  time.Duration // when a failure last was
	hint    string        // the newest
	hintAt  time.Duration // when hints were last looked for; 0: not yet
	deaf    string        // the newest failure to read hints
}

// lookForNotices asks the seller's metadata until ctx ends, and posts what changes.
func (a *agent) lookForNotices(ctx context.Context) {
	if a.unannounced() {
		a.say("this machine gives no notices: it may be taken without warning")
		return
	}
	c := channel{a: a}
	tick := time.NewTicker(a.cfg.NoticeEvery)
	defer tick.Stop()
	for {
		c.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// unannounced reports whether nothing is to be heard on this machine, ever.
func (a *agent) unannounced() bool {
	_, mute := a.cfg.Metadata.(*Mute)
	return a.cfg.Metadata == nil || mute
}

func (c *channel) look(ctx context.Context) {
	if !c.heard && c.failing == "" && c.a.patience() > longAnswer {
		c.a.beat.update(func(h *events.Heartbeat) { h.Notices = events.NoticesUnseen }) // until it has answered
	}
	w, err := c.a.askNotice(ctx)
	at := c.a.now()
	if ctx.Err() != nil {
		return
	}
	if err != nil { // neither a notice nor its withdrawal
		c.fails(err, at)
		return
	}
	c.works()
	switch {
	case w != nil:
		c.stands = true
		c.a.post(func() { c.a.noticed(*w, at) })
	case c.stands:
		c.stands = false
		c.a.post(c.a.withdrawn)
	default:
		c.lookForHint(ctx, at)
	}
}

// fails says once that the seller cannot be heard, and logs each kind of failure once.
func (c *channel) fails(err error, at time.Duration) {
	text := err.Error()
	if c.failing == "" {
		c.a.say("the seller's notices cannot be read: the machine may be taken without warning")
		c.a.beat.update(func(h *events.Heartbeat) {
			h.Notices = events.NoticesUnseen
			if c.heard {
				h.Notices = events.NoticesLost
			}
		})
	}
	if c.failing == "" || text != c.failing && at-c.logged >= sameFailure {
		c.failing, c.logged = text, at
		c.a.cfg.Log.Warn("reading the metadata", zap.Bool("heard_before", c.heard), zap.Error(err))
	}
}

func (c *channel) works() {
	if c.heard && c.failing == "" {
		return
	}
	if c.failing != "" {
		c.a.say("the seller's notices can be read")
		c.a.cfg.Log.Info("the metadata answers")
	}
	c.heard, c.failing = true, ""
	c.a.beat.update(func(h *events.Heartbeat) { h.Notices = "" })
}

// lookForHint asks now and then whether a checkpoint is worth having early.
func (c *channel) lookForHint(ctx context.Context, at time.Duration) {
	h, ok := c.a.cfg.Metadata.(Hinter)
	if !ok || c.hintAt > 0 && at-c.hintAt < hintEvery {
		return
	}
	c.hintAt = at
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	hint, err := h.Hint(ctx)
	if err != nil {
		if text := err.Error(); text != c.deaf && ctx.Err() == nil {
			c.deaf = text
			c.a.cfg.Log.Warn("reading hints", zap.Error(err))
		}
		return
	}
	c.deaf = ""
	if hint != c.hint {
		c.hint = hint
		if hint != "" {
			c.a.post(func() { c.a.hinted(hint) })
		}
	}
}

func (a *agent) askNotice(ctx context.Context) (*Warning, error) {
	ctx, cancel := context.WithTimeout(ctx, a.patience())
	defer cancel()
	return a.cfg.Metadata.Warning(ctx)
}

// patience is how long the next answer may take.
func (a *agent) patience() time.Duration {
	if p, ok := a.cfg.Metadata.(Patient); ok {
		return p.Patience()
	}
	return time.Second
}

// hinted has a save made early. It is no notice: nothing is told to the gateway,
// nothing moves, and a trainer that a save would end is left alone.
func (a *agent) hinted(hint string) {
	asks := a.notice == nil && a.wish == nil && a.trainer.step >= 0 && !a.awaited && a.asks() && !endsTrainer(a.signal)
	a.say("the seller hints: " + hint)
	a.cfg.Log.Info("hint", zap.String("hint", hint), zap.Bool("asks", asks))
	if asks {
		a.ask(a.now())
	}
}

// mayGo tells the seller, where it listens, that the machine need not be kept until
// the deadline: what there is to save is committed as the last.
func (a *agent) mayGo() {
	k, ok := a.cfg.Metadata.(Acknowledger)
	if !ok || a.notice == nil || a.notice.agreed {
		return
	}
	a.notice.agreed = true
	a.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		agreed, err := k.Acknowledge(ctx)
		if agreed {
			a.say("everything is saved: the seller may take the machine now")
		}
		a.cfg.Log.Info("notice acknowledged", zap.Bool("agreed", agreed), zap.Error(err))
	})
}
