package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func jobCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "job", Short: "Look at jobs, follow them, pause, move and stop them",
		Long:    "A JOB is its id, the first characters of one (four or more), or the name of exactly one job.",
		Example: "  spotferry job ls\n  spotferry job show llama-7b\n  spotferry job logs -f llama-7b",
	}, jobListCommand(e), jobShowCommand(e), jobLogsCommand(e), jobEventsCommand(e), jobPauseCommand(e), jobResumeCommand(e),
		jobMigrateCommand(e), jobDrillCommand(e), jobCancelCommand(e))
}

func jobListCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List all jobs", Args: args(0, 0),
		Example: "  spotferry job ls\n  spotferry job ls -o wide\n  spotferry job ls -o json | jq '.items[] | {name, status, spent}'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			jobs, err := once[[]console.Job](cmd.Context(), e, true, console.GetJobs, nil)
			if err != nil {
				return err
			}
			return e.show(jobsView(jobs, e.now()))
		},
	}
}

func jobsView(jobs []console.Job, now time.Time) view {
	v := view{doc: jobs, list: true, page: func(p *page) {
		if len(jobs) == 0 {
			p.line("No jobs yet. 'spotferry run FILE' submits one.")
			return
		}
		p.table(jobsTable(p, jobs, now))
	}}
	for _, j := range jobs {
		v.names = append(v.names, string(j.ID))
	}
	return v
}

func jobsTable(p *page, jobs []console.Job, now time.Time) terminal.Table {
	names := []string{"JOB", "NAME", "STATUS", ">STEP", ">EPOCHS", ">RECLAIMS", ">SPENT", ">BUDGET", ">AGE"}
	if p.wide {
		names = append(names, ">LOST", ">RESERVED", ">ON-DEMAND", "BY", "TEAM", "PROJECT", "MACHINE", "DETAIL")
	}
	t := terminal.Table{Columns: terminal.Columns(names...)}
	t.Columns[2].Mark = markStatus
	for _, j := range jobs {
		row := []string{
			string(j.ID), j.Name, j.Status, steps(j.Step, j.Steps), fmt.Sprint(j.Epochs), fmt.Sprint(j.Reclaims),
			j.Spent.Dollars(), j.Budget.Dollars(), age(j, now),
		}
		if p.wide {
			machine := ""
			if j.Machine != nil {
				machine = j.Machine.Pool.String()
			}
			row = append(row, fmt.Sprint(j.LostSteps), j.Reserved.Dollars(), j.OnDemand.Dollars(), j.By, j.Team, j.Project, machine, j.Detail)
		}
		t.Row(row...)
	}
	t.Drop("TEAM")
	t.Drop("PROJECT")
	return t
}

// age is how long a job has lived, or lived.
func age(j console.Job, now time.Time) string {
	if !j.Ended.IsZero() {
		now = j.Ended
	}
	return short(now.Sub(j.Submitted))
}

func jobCancelCommand(e *environment) *cobra.Command {
	return act(&cobra.Command{
		Use: "cancel JOB", Short: "Save a job and stop it for good", Args: args(1, 1),
		Long:              "Cancel lets the trainer save, stops it, and gives its machine back. A cancelled job cannot be taken up again.",
		Example:           "  spotferry job cancel llama-7b --reason 'wrong data'\n  spotferry job cancel 01jx3k -y --reason 'found a bug'",
		ValidArgsFunction: e.completeJobs,
	}, func(ctx context.Context, args []string, reason string) error { return e.cancel(ctx, args[0], reason) })
}

func (e *environment) cancel(ctx context.Context, job, reason string) error {
	l, err := e.connect(ctx, false)
	if err != nil {
		return err
	}
	defer l.Close()
	j, err := ask[console.Job](ctx, l, console.GetJob, console.Query{Job: job})
	if err != nil {
		return err
	}
	if !j.Over {
		question := fmt.Sprintf("Cancel %s (%s), %s, saved up to step %d? It cannot be taken up again.", terminal.Safe(j.Name), j.ID, j.Status, j.Committed)
		if err := e.confirm(ctx, "cancelling "+terminal.Safe(j.Name), question); err != nil {
			return err
		}
	}
	j, err = ask[console.Job](ctx, l, console.DoCancel, console.CancelRequest{Job: string(j.ID), Reason: reason})
	if err != nil {
		return err
	}
	return e.show(view{doc: j, names: []string{string(j.ID)}, page: func(p *page) {
		switch {
		case j.Over:
			p.line("%s (%s) is %s.", j.Name, j.ID, j.Status)
		default:
			p.line("%s (%s) saves and stops. '%s' tells how it ended.", j.Name, j.ID, e.hint("job", "show", string(j.ID)))
		}
	}})
}

// completeJobs offers the ids of jobs for a JOB argument.
func (e *environment) completeJobs(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	jobs, err := once[[]console.Job](ctx, e, true, console.GetJobs, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, j := range jobs {
		out = append(out, cobra.CompletionWithDesc(string(j.ID), terminal.Safe(j.Name)+", "+terminal.Safe(j.Status)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
