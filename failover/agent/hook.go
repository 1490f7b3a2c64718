package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// runHooks runs the job's scripts for a notice beside the trainer, one after the
// other, each for as long as it may and the notice lasts. What becomes of them
// changes nothing else: a save never waits for a hook.
func (a *agent) runHooks() {
	if len(a.spec.OnNotice) == 0 || a.stage != training {
		return
	}
	by, epoch, hooks := a.notice.deadline-a.notice.margin, a.epoch, a.spec.OnNotice
	a.spawn(func(ctx context.Context) {
		for i, h := range hooks {
			left := by - a.now()
			if h.TimeoutS > 0 {
				left = min(left, time.Duration(h.TimeoutS)*time.Second)
			}
			if left <= 0 || ctx.Err() != nil {
				a.say(fmt.Sprintf("hook %d is not run: the notice is over", i+1))
				return
			}
			a.runHook(ctx, epoch, i+1, h, left)
		}
	})
}

func (a *agent) runHook(ctx context.Context, epoch, n int, h events.Hook, left time.Duration) {
	began := a.now()
	exit, err := a.hook(ctx, epoch, n, h, left)
	took := (a.now() - began).Round(time.Millisecond)
	a.cfg.Log.Info("hook ended", zap.Int("hook", n), zap.Int("code", exit.Code), zap.String("signal", exit.Signal), zap.Duration("took", took), zap.Error(err))
	switch {
	case err != nil:
		a.say(fmt.Sprintf("hook %d: %v", n, err))
	case took >= left:
		a.say(fmt.Sprintf("hook %d was killed: it had %v", n, left.Round(time.Millisecond)))
	default:
		a.say(fmt.Sprintf("hook %d %v after %v", n, exit, took))
	}
}

func (a *agent) hook(ctx context.Context, epoch, n int, h events.Hook, left time.Duration) (Exit, error) {
	script := filepath.Join(a.place.base, fmt.Sprintf("hook-%d.sh", n))
	if err := os.WriteFile(script, []byte(h.Run), 0o700); err != nil {
		return Exit{}, fmt.Errorf("writing it: %w", err)
	}
	process, flush, err := a.launch(script, epoch, "")
	if err != nil {
		return Exit{}, err
	}
	defer flush()
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = process.Kill(context.WithoutCancel(ctx)) }) // killed again below, with its error
	exit := process.Wait()
	stop()
	return exit, process.Kill(context.WithoutCancel(ctx)) // what it left running has no business any more
}
