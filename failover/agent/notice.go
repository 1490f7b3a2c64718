package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// notice is a seller's warning that stands.
type notice struct {
	action   string
	source   string
	seen     time.Duration // first
	deadline time.Duration
	margin   time.Duration
	signalMS int64 // see events.NoticeRequest
	told     bool  // the gateway is being told
	agreed   bool  // the seller was told that the machine may go
}

// noticed acts on a notice at first sight. Seen again it changes nothing, unless
// the deadline has come nearer: a deadline that moves away with every answer is
// no reason to hope.
func (a *agent) noticed(w Warning, at time.Duration) {
	by := deadline(at, w, a.cfg.NoticeCap)
	if n := a.notice; n != nil {
		if by < n.deadline-n.margin {
			n.deadline = by
			a.writeNotice()
			a.reportNotice()
		}
		return
	}
	a.notice = &notice{action: w.Action, source: w.Source, seen: at, deadline: by, margin: margin(by - at), signalMS: -1}
	a.engine.Boost(true)
	a.limit()
	a.writeNotice()
	was := a.asked
	a.want(wishNotice, "")
	if a.wish.fresh {
		a.trainer.watch.hurry.Store(true)
		a.giveWay()
	}
	if a.wish.fresh && a.asked != was {
		a.notice.signalMS = (a.now() - at).Milliseconds()
	}
	a.say(fmt.Sprintf("the seller will %.32s this machine in %v", w.Action, (by - at).Round(time.Millisecond)))
	a.cfg.Log.Warn("noticed", zap.String("action", w.Action), zap.Duration("left", by-at), zap.Bool("fresh", a.wish.fresh),
		zap.Duration("save", a.saveTime()), zap.Duration("upload", a.ship.another()), zap.Duration("unsent", a.unsent()), zap.Int64("signal_ms", a.notice.signalMS))
	a.reportNotice()
	a.runHooks()
}

// withdrawn puts everything back as it was.
func (a *agent) withdrawn() {
	n := a.notice
	if n == nil {
		return
	}
	a.notice = nil
	a.engine.Boost(false)
	if w := a.trainer.watch; w != nil {
		w.hurry.Store(false)
	}
	if a.wish != nil && a.wish.kind == wishNotice {
		a.wish = nil
	}
	a.limit()
	if err := os.Remove(a.place.notice); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.cfg.Log.Warn("removing the notice file", zap.Error(err))
	}
	a.say("the seller has taken its notice back")
	a.cfg.Log.Info("notice withdrawn")
	if !n.told {
		return
	}
	a.tell(func(now time.Duration) events.NoticeRequest {
		return events.NoticeRequest{Lease: a.cfg.Bootstrap.Lease, Withdrawn: true, Action: n.action, Source: n.source, Ago: min(now-n.seen, time.Hour), SignalMS: -1}
	})
}

// reportNotice tells the gateway, once it has given this machine the job: before
// that there is nothing on it to move.
func (a *agent) reportNotice() {
	if !a.placed {
		return
	}
	a.notice.told = true
	n := *a.notice
	a.tell(func(now time.Duration) events.NoticeRequest {
		return events.NoticeRequest{Lease: a.cfg.Bootstrap.Lease, Action: n.action, Source: n.source,
			Left: max(n.deadline-now, 0), Ago: min(now-n.seen, time.Hour), SignalMS: n.signalMS}
	})
}

// tell reports how the notice stands until that is heard; what is told later
// takes the place of what was not heard yet.
func (a *agent) tell(request func(now time.Duration) events.NoticeRequest) {
	if a.report != nil {
		a.report()
	}
	ctx, cancel := context.WithCancel(a.ctx)
	a.report = cancel
	a.working.Go(func() {
		defer cancel()
		err := persist(ctx, a.timers.Heartbeat, func(ctx context.Context) error {
			return a.cfg.Control.Notice(ctx, request(a.now()))
		})
		a.answered(err)
		if err != nil && ctx.Err() == nil {
			a.cfg.Log.Error("the notice was not taken", zap.Error(err))
		}
	})
}

// NoticeFile is the content of SPOTFERRY_NOTICE_FILE while a notice stands.
type NoticeFile struct {
	Action      string    `json:"action"`
	SecondsLeft float64   `json:"seconds_left"` // when this was written
	Deadline    time.Time `json:"deadline"`     // by this machine's wall clock, which may be wrong
}

// writeNotice shows the notice to the trainer, whole or not at all.
func (a *agent) writeNotice() {
	left := max(a.notice.deadline-a.now(), 0)
	data, err := json.Marshal(NoticeFile{a.notice.action, left.Seconds(), a.cfg.Now().Add(left).UTC()})
	if err == nil {
		err = os.WriteFile(a.place.notice+".new", append(data, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(a.place.notice+".new", a.place.notice)
	}
	if err != nil { // a full disk; the signal does not need it
		a.cfg.Log.Warn("writing the notice file", zap.Error(err))
	}
}
