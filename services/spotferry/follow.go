package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spotferry/spotferry/services/internal/console"
)

// settle is how long after a job's end its last lines and its machines' end are waited for.
const settle = 15 * time.Second

// jobWatch watches one job: its events, its output, how far it is. What it has
// shown is never shown again, also after the system was away.
type jobWatch struct {
	env  *environment
	link *link
	job  string

	logs  *logView // nil: output is not wanted
	quiet bool     // the past is not told, only what happens from now on
	bar   bool     // how far it is is shown

	position uint64 // of the newest event seen
	view     console.Job
	over     time.Time // when the end was first seen
	away     time.Time // since when nothing could be looked at; zero: it can be
	missed   bool      // that was told, and its end was not
	idle     bool      // the last look found no output
	notes    statusNotes
}

func newWatch(e *environment, l *link, job string) *jobWatch {
	return &jobWatch{env: e, link: l, job: job, notes: statusNotes{zone: e.zone()}}
}

// follow shows what happens until the job has ended and everything about it has been shown.
func (f *jobWatch) follow(ctx context.Context) (console.Job, error) {
	for {
		if err := f.steadily(ctx); err != nil {
			return f.view, err
		}
		if f.finished() {
			return f.view, nil
		}
		if err := pause(ctx, f.env.poll); err != nil {
			return f.view, err
		}
	}
}

// finished says whether nothing more is to come.
func (f *jobWatch) finished() bool {
	if !f.view.Over {
		return f.link.readOnly && f.idle
	}
	if f.over.IsZero() {
		f.over = f.env.now()
	}
	return f.idle && (f.view.Closed || f.link.readOnly) || f.env.now().Sub(f.over) > settle
}

// steadily looks once, and waits for a system that went away to come back.
func (f *jobWatch) steadily(ctx context.Context) error {
	for {
		err := f.look(ctx)
		if err == nil {
			f.away = time.Time{}
			return nil
		}
		now := f.env.now()
		switch {
		case ctx.Err() != nil || !away(err):
			return err
		case f.away.IsZero():
			f.away, f.missed = now, true
			f.env.term.Note("the system cannot be reached; the job goes on without it; trying again for %s", short(f.env.patience))
		case now.Sub(f.away) >= f.env.patience:
			return err
		}
		if err := pause(ctx, f.env.poll); err != nil {
			return err
		}
		f.link.readable = false // to open its state would keep it from coming back
		_ = f.link.reopen(ctx)  // if not, the next look says so
	}
}

// look shows what is new. The job comes first, so that once it has ended its
// events and its output are complete; events come before output, so that a new
// epoch's place is known before its first line.
func (f *jobWatch) look(ctx context.Context) (err error) {
	if f.view, err = ask[console.Job](ctx, f.link, console.GetJob, console.Query{Job: f.job}); err != nil {
		return err
	}
	if f.missed {
		f.missed = false
		f.env.term.Note("the system is back")
	}
	tell := f.position > 0 || !f.quiet
	if f.position, err = timeline(ctx, f.link, f.job, f.position, func(e entry) {
		f.logs.placed(e)
		if tell {
			f.notes.tell(f.env.term, e)
		}
	}); err != nil {
		return err
	}
	if f.idle, err = f.logs.read(ctx, f.link, f.job); err != nil {
		return err
	}
	if f.bar && !f.view.Over && !f.env.format.forProgram() {
		f.env.term.Progress(f.view.Step, f.view.Steps, progressWords(f.view))
	}
	return nil
}

func progressWords(j console.Job) string {
	where := j.Status
	if j.Machine != nil {
		where = fmt.Sprintf("%s on %s, epoch %d", j.Status, place(j.Machine.Pool), j.Epoch)
	}
	return fmt.Sprintf("step %s  %s of %s  %s", steps(j.Step, j.Steps), j.Spent.Dollars(), j.Budget.Dollars(), where)
}
