package agent

import (
	"cmp"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// wishKind says who wants the job saved, and what is to happen then. A greater
// one includes the smaller.
type wishKind uint8

const (
	wishSave    wishKind = iota + 1 // the gateway; training goes on
	wishNotice                      // the seller; training goes on until the machine is taken
	wishStop                        // the gateway; then stop
	wishSilence                     // nobody is there; then stop and end
	wishEnd                         // the gateway; no save, kill
)

// wish is a last save that is wanted.
type wish struct {
	kind    wishKind
	order   string        // to answer
	asked   time.Duration // when
	fresh   bool          // the trainer was asked, and what it saves is waited for
	base    int64         // a checkpoint of this step or later is fresh
	giveUp  time.Duration // when waiting ends; with a notice the plan decides earlier
	final   bool          // the newest checkpoint has been committed as the last
	settled bool          // everything that could be done has been
}

// replied takes what the gateway says the agent owes. An order that was taken up
// before is not taken up again.
func (a *agent) replied(r events.RenewReply) {
	a.placed = a.placed || r.Order != ""
	if a.placed && a.notice != nil && !a.notice.told {
		a.reportNotice()
	}
	if r.Epoch > a.epoch {
		a.goOver(r)
		return
	}
	id := cmp.Or(r.OrderID, string(r.Order))
	if r.Order == "" || a.orders[id] {
		return
	}
	a.orders[id] = true
	a.cfg.Log.Info("order", zap.String("order", string(r.Order)), zap.String("id", id))
	switch r.Order {
	case events.OrderStart:
		a.start(r.Resume)
	case events.OrderSave:
		a.want(wishSave, r.OrderID)
	case events.OrderStop:
		a.want(wishStop, r.OrderID)
	case events.OrderEnd:
		a.end(r.OrderID)
	default:
		a.say(fmt.Sprintf("an order to %.40q is not known to this agent", string(r.Order)))
	}
}

// want takes up a wish, or adds to the one there is: a notice and the order that
// follows from it are one save.
func (a *agent) want(kind wishKind, order string) {
	if a.stage == over && kind == wishStop {
		a.wish = &wish{kind: kind, order: order, settled: true}
		a.reportDone() // again, now with the order it answers
		return
	}
	if w := a.wish; w != nil {
		w.kind, w.order = max(w.kind, kind), cmp.Or(order, w.order)
		w.final, w.settled = false, w.kind == wishEnd
		return
	}
	w := &wish{kind: kind, order: order, asked: a.now(), base: max(a.trainer.step, a.ship.newest())}
	w.giveUp = w.asked + a.saveLimit()
	a.wish = w
	if kind == wishSave && endsTrainer(a.signal) {
		return
	}
	if kind == wishNotice && a.outlook(w.asked).choose() != freshSave {
		return
	}
	w.fresh = a.ask(w.asked)
}

// ask asks the trainer to save, and reports whether it can have heard.
func (a *agent) ask(now time.Duration) bool {
	if !a.asks() {
		return false
	}
	a.asked = now
	told, err := a.trainer.process.Tell(a.signal)
	if err != nil {
		a.cfg.Log.Warn("asking the trainer to save", zap.Error(err))
	}
	a.cfg.Log.Info("trainer asked to save", zap.Int("processes", told))
	a.awaited = told > 0
	a.trainer.bidden = a.trainer.bidden || told > 0 && endsTrainer(a.signal)
	return told > 0
}

// asks reports whether there is a trainer that can be asked to save.
func (a *agent) asks() bool { return a.signal != 0 && a.stage == training && !a.trainer.stopping }

// saveLimit is how long a save is waited for when there is no deadline.
func (a *agent) saveLimit() time.Duration {
	return cmp.Or(time.Duration(a.spec.Policy.Checkpoint.GraceS)*time.Second, 3*a.cfg.Grace)
}

// saveTime is how long it takes from asking to a checkpoint found complete.
func (a *agent) saveTime() time.Duration {
	unknown := cmp.Or(time.Duration(a.spec.Policy.Checkpoint.GraceS)*time.Second, time.Second+a.cfg.Quiet+2*a.cfg.WatchEvery)
	return a.ship.saves.p95(unknown)
}

// outlook is what a notice leaves room for.
func (a *agent) outlook(now time.Duration) outlook {
	return outlook{
		left: a.notice.deadline - now, margin: a.notice.margin, asks: a.asks(),
		save: a.saveTime(), still: a.cfg.Quiet, unsent: a.unsent(),
		upload: a.ship.another(), whole: a.ship.pace.expect(a.ship.wholes.p95(a.ship.size)),
	}
}

// needToEnd is how long it takes to save, ship and stop.
func (a *agent) needToEnd() time.Duration {
	if a.stage != training {
		return 0
	}
	need := min(a.cfg.Grace, 5*time.Second)
	if a.asks() {
		need += a.saveTime()
	}
	return need + a.ship.another()
}

// pursue brings a wish nearer: waits for the save, for what is under way, says
// that it was the last, and then does what was to be done after.
func (a *agent) pursue(now time.Duration) {
	w := a.wish
	if w == nil || w.settled {
		return
	}
	if w.fresh && !a.arrived(w, now) {
		if a.patient(w, now) {
			return
		}
		a.cfg.Log.Warn("no fresh checkpoint came in time", zap.Duration("waited", now-w.asked))
	}
	w.fresh = false
	hopeless := a.hopeless()
	if a.ship.pending() && !hopeless {
		return
	}
	if !w.final && !hopeless && a.confirms(w) {
		a.ship.again()
		return
	}
	if w.kind == wishSave && !w.final && a.stage == training {
		return // there is nothing to commit yet: the first that comes
	}
	w.settled = true
	a.cfg.Log.Info("saved for the last time", zap.Int64("step", a.ship.newest()), zap.Duration("took", now-w.asked))
	switch w.kind {
	case wishSave:
		a.wish = nil
	case wishNotice:
		if w.final {
			a.mayGo()
		}
	case wishStop:
		a.stop("stopped by order")
	case wishSilence:
		a.stop("stopped out of contact")
	}
}

// confirms reports whether the newest committed checkpoint has to be committed
// once more, as the last one. A job that is stopped without having been asked to
// save may save when it is told to end, so its last one is yet to come.
func (a *agent) confirms(w *wish) bool {
	if a.ship.committed.Checkpoint.Name == "" || w.kind == wishSilence || a.finished(w) {
		return false
	}
	return w.kind != wishStop || a.signal != 0 || a.stage != training
}

// finished reports whether the trainer has done all its work, although the machine
// is to be left. That is told by the report of its end: a last checkpoint said to
// be one would have the job placed elsewhere before that is heard.
func (a *agent) finished(w *wish) bool {
	return w.kind <= wishNotice && a.stage == leaving && a.trainer.exit == (Exit{}) && !a.trainer.bidden
}

// last reports whether a checkpoint is the last before a known deadline or stop,
// and the order that it answers.
func (a *agent) last(step int64) (bool, string) {
	w, s := a.wish, &a.ship
	switch {
	case w == nil || w.kind == wishSilence || a.finished(w):
		return false, ""
	case w.fresh && step < w.base, s.now != nil && s.now.step > step, s.next != nil && s.next.step > step:
		return false, "" // a better one is on its way
	case w.kind == wishStop && a.signal == 0 && a.stage == training:
		return false, ""
	case w.final:
		return true, "" // answered already
	}
	return true, w.order
}
