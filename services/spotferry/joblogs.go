package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/console"
)

type logsOptions struct {
	follow bool
	epoch  int
	since  string
	tail   int
	stamps bool
}

func jobLogsCommand(e *environment) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use: "logs JOB", Short: "Print a job's output, over all machines it ran on", Args: args(1, 1),
		Long: `Logs prints a job's output in one piece: a mark where it moved to another
machine, a mark where lines are missing, no line twice. With -f it goes on until
the job ends, tells of moves on standard error, and exits with how the job ended.

With -o json every line is an object of its own, and so are the marks.`,
		Example: "  spotferry job logs llama-7b\n  spotferry job logs -f --tail 20 llama-7b\n  spotferry job logs --epoch 3 --since 10m llama-7b",
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.logs(cmd.Context(), args[0], o)
		},
		ValidArgsFunction: e.completeJobs,
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on until the job ends")
	f.IntVar(&o.epoch, "epoch", 0, "only of epoch `N`")
	f.StringVar(&o.since, "since", "", "only lines since `TIME`: 10m, or 2030-01-31T18:00:00Z")
	f.IntVar(&o.tail, "tail", 0, "begin with the last `N` lines")
	f.BoolVarP(&o.stamps, "timestamps", "t", false, "show when each line was written")
	return cmd
}

func (e *environment) logs(ctx context.Context, job string, o logsOptions) error {
	since, err := e.moment(o.since)
	if err != nil {
		return err
	}
	if o.epoch < 0 || o.tail < 0 {
		return usagef("give a number from 1", "--epoch and --tail cannot be negative")
	}
	l, err := e.connect(ctx, true)
	if err != nil {
		return err
	}
	defer l.Close()
	j, err := ask[console.Job](ctx, l, console.GetJob, console.Query{Job: job})
	if err != nil {
		return err
	}
	f := newWatch(e, l, string(j.ID))
	f.quiet = true
	f.logs = e.printedLogs(o)
	f.logs.since = since
	if !o.follow {
		return f.look(ctx)
	}
	f.bar = true
	j, err = f.follow(ctx)
	e.term.Done()
	if err != nil {
		return e.stillRuns(ctx, string(j.ID), err)
	}
	if !j.Over {
		return &failure{exit: exitUnfinished, What: "the job has not ended, and no system runs on this state to carry it on", Remedy: "start it with '" + e.hint("dev") + "'"}
	}
	e.farewell(j)
	return e.ended(j)
}

// printedLogs is a view whose output is the command's own, in every format.
func (e *environment) printedLogs(o logsOptions) *logView {
	v := newLogView(e)
	v.out, v.tty, v.style = e.term.Print, e.term.OutTTY, e.term.Style
	v.epoch, v.tail, v.stamps = o.epoch, o.tail, o.stamps
	v.document = e.format == formatJSON || e.format == formatYAML
	return v
}
