package trainer

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// boundary waits until the next step is due, and meanwhile does what signals
// ask for. It says whether to stop.
func (l *loop) boundary(ctx context.Context) (stop bool, err error) {
	l.lookForNotice()
	now := l.now()
	timer := time.NewTimer(max(0, l.due.Sub(now)))
	defer timer.Stop()
	waited := false // what was asked for still goes before a step that is due
	for !waited || len(l.signals) > 0 || ctx.Err() != nil {
		select {
		case <-ctx.Done():
			return true, nil
		case sig := <-l.signals:
			if stop, err = l.obey(sig); stop || err != nil {
				return stop, err
			}
		case <-timer.C:
			waited = true
		}
	}
	// A step that was late does not hurry the ones after it.
	if now.After(l.due) {
		l.due = now
	}
	l.due = l.due.Add(l.StepInterval)
	return false, nil
}

// obey does what a signal asks for, and says whether that is to stop.
func (l *loop) obey(sig os.Signal) (stop bool, err error) {
	if sig != syscall.SIGUSR1 {
		return true, nil
	}
	if l.state.step == 0 {
		l.wanted = true
		return false, nil
	}
	return false, l.save()
}

// lookForNotice logs a notice when its file appears. There is nothing else to
// do: the agent decides what a notice means, and asks with a signal.
func (l *loop) lookForNotice() {
	if l.notice == "" {
		return
	}
	_, err := os.Stat(l.notice)
	there := !errors.Is(err, os.ErrNotExist)
	if there && !l.noticed {
		l.out.event("notice", l.state.step, l.notice)
	}
	l.noticed = there
}
