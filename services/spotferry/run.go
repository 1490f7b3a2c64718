package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

type runOptions struct {
	task
	detach     bool
	acceptRisk bool
}

func runCommand(e *environment) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use: "run FILE", Short: "Plan a job, ask, submit it, and follow it to its end", Args: args(1, 1),
		Long: `Run reads a job file, shows what would be bought and what it would cost, asks,
submits the job, and follows its output across every machine it runs on. Output
goes to standard output, everything else to standard error.

What the job reads travels with it (workdir, and file_mounts from here) or is
fetched by each machine while it boots (file_mounts from s3://, gs://, https://
and hf://, with the job's own secrets). Fetched files can be read, not written.
Commands run on the machine itself: no container image is fetched or started.

Ctrl-C stops watching; the job goes on. Run exits with how the job ended:
'spotferry help exit-codes'.`,
		Example: `  spotferry run train.yaml
  spotferry run train.yaml -y --env LR=3e-4 --project llm
  spotferry run train.yaml -y --accept-risk --detach -o name
  HF_TOKEN=... spotferry run sky-task.yaml --budget 120 --secret HF_TOKEN   # a file of SkyPilot's, as it is`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.run(cmd.Context(), args[0], o)
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVarP(&o.detach, "detach", "d", false, "do not follow it")
	cmd.Flags().BoolVar(&o.acceptRisk, "accept-risk", false, "with -y: submit even when budget and deadline may not hold")
	return cmd
}

func (e *environment) run(ctx context.Context, file string, o runOptions) error {
	l, job, err := e.prepare(ctx, file, o.task)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := e.agree(ctx, l, job, o.acceptRisk); err != nil {
		return err
	}
	if err := e.bring(ctx, &job); err != nil {
		return err
	}
	if err := e.seal(ctx, l, &job); err != nil {
		return err
	}
	j, err := e.submit(ctx, l, job.request)
	if err != nil {
		return err
	}
	e.term.Note("%s is submitted as %s", terminal.Safe(j.Name), j.ID)
	if o.detach {
		e.term.Note("follow it with '%s'", e.hint("job", "logs", "-f", string(j.ID)))
		return e.showJob(j)
	}
	if e.format == formatName {
		e.term.Print(string(j.ID))
	}
	return e.followToEnd(ctx, l, string(j.ID))
}

// agree shows the plan and gets consent to it, before any money moves.
func (e *environment) agree(ctx context.Context, l *link, job prepared, acceptRisk bool) error {
	plan, err := e.askPlan(ctx, l, job)
	if err != nil {
		return err
	}
	p := e.aside()
	writePlan(p, plan, job)
	if err := p.flush(); err != nil {
		return err
	}
	if err := possible(plan, job); err != nil {
		return err
	}
	_ = e.noteFreeze(ctx, l) // a job can be submitted all the same; it waits
	question := fmt.Sprintf("Run %s for about %s, %s at most?", terminal.Safe(job.name()), plan.Expected.Dollars(), plan.Budget.Dollars())
	if !plan.Certain {
		if e.yes && !acceptRisk {
			return usagef("add --accept-risk to submit it all the same, or change budget or deadline",
				"%s is only %s; -y alone does not take that risk", terminal.Safe(job.name()), terminal.Safe(certainty(plan)))
		}
		question = fmt.Sprintf("It is %s. %s", terminal.Safe(certainty(plan)), question)
	}
	return e.confirm(ctx, "submitting "+terminal.Safe(job.name()), question)
}

// submit submits a job; an answer that was lost is asked for again, which
// cannot submit it twice.
func (e *environment) submit(ctx context.Context, l *link, r console.SubmitRequest) (console.Job, error) {
	began := e.now()
	for {
		j, err := ask[console.Job](ctx, l, console.DoSubmit, r)
		if err == nil {
			return j, nil
		}
		if !errors.Is(err, console.ErrUnreachable) && ctx.Err() == nil {
			return j, err
		}
		if ctx.Err() != nil || e.now().Sub(began) >= e.patience {
			f := failureOf(ctx, err)
			f.What = fmt.Sprintf("nobody knows whether job %s was submitted: %s", r.ID, f.What)
			f.Remedy = fmt.Sprintf("look with '%s' before running the file again", e.hint("job", "show", string(r.ID)))
			return j, f
		}
		if pause(ctx, e.poll) == nil {
			_ = l.reopen(ctx) // if not, the next ask says so
		}
	}
}

func (e *environment) showJob(j console.Job) error {
	return e.show(view{doc: j, names: []string{string(j.ID)}, page: func(*page) {}})
}

// followToEnd shows a job's output until it ends, and turns its outcome into an exit code.
func (e *environment) followToEnd(ctx context.Context, l *link, job string) error {
	f := newWatch(e, l, job)
	f.logs, f.bar = newLogView(e), true
	j, err := f.follow(ctx)
	e.term.Done()
	if err != nil {
		return e.stillRuns(ctx, job, err)
	}
	e.farewell(j)
	if e.format == formatJSON || e.format == formatYAML {
		if err := e.showJob(j); err != nil {
			return err
		}
	}
	return e.ended(j)
}

// stillRuns says, of a watch that ended before the job, how to watch on.
func (e *environment) stillRuns(ctx context.Context, job string, err error) error {
	f := failureOf(ctx, err)
	if ctx.Err() == nil && f.exit != exitUnreachable {
		return err
	}
	if ctx.Err() != nil {
		f = &failure{exit: exitInterrupted, What: "you stopped watching; the job goes on"}
	}
	f.Remedy = fmt.Sprintf("watch it again with '%s', stop it with '%s'", e.hint("job", "logs", "-f", job), e.hint("job", "cancel", job))
	return f
}

// farewell sums a job up.
func (e *environment) farewell(j console.Job) {
	mark := terminal.Style.Bad
	if j.Status == string(events.Succeeded) {
		mark = terminal.Style.Good
	}
	text := fmt.Sprintf("%s (%s) after %s: %s, %s, %d steps lost; %s of %s spent",
		terminal.Safe(j.Name), j.ID, short(j.Ended.Sub(j.Submitted)), count(j.Epochs, "placement"), count(j.Reclaims, "reclaim"), j.LostSteps, j.Spent.Dollars(), j.Budget.Dollars())
	if s := saving(j.Spent, j.OnDemand); s != "" {
		text += ", " + s + " saved against on-demand"
	}
	e.term.Mark(mark, j.Status+":", "%s", text)
	if j.Status != string(events.Succeeded) && j.Detail != "" {
		e.term.Note("  %s%s", terminal.Safe(j.Detail), exitWords(j))
	}
	if !j.Closed {
		e.term.Note("  its last machine is still being given back: '%s'", e.hint("instance", "ls"))
	}
}

// ended is the exit code of a job that was followed.
func (e *environment) ended(j console.Job) error {
	code := exitUnfinished
	if j.Over {
		code = outcomeExit(events.Outcome(j.Status))
	}
	if code == exitOK {
		return nil
	}
	return &failure{exit: code}
}

func newJobID() events.JobID { return events.JobID(strings.ToLower(ulid.Make().String())) }
