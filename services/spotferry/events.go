package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/terminal"
)

func eventsCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "events", Short: "Read the system's own record of what happened",
		Example: "  spotferry events tail",
	}, eventsTailCommand(e))
}

type tailOptions struct {
	job    string
	last   int
	follow bool
}

func eventsTailCommand(e *environment) *cobra.Command {
	var o tailOptions
	var stop bool
	cmd := &cobra.Command{
		Use: "tail", Short: "Show the newest events of all jobs and go on with what happens", Args: args(0, 0),
		Long:    "With -o json every event is an object of its own, with its facts.",
		Example: "  spotferry events tail\n  spotferry events tail --job llama-7b --last 100\n  spotferry events tail -o json | jq 'select(.type == \"job.lost\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.follow = !stop
			return e.tail(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.job, "job", "", "only of this `JOB`")
	f.IntVar(&o.last, "last", 20, "begin with the last `N` events")
	f.BoolVar(&stop, "no-follow", false, "end with what is there now")
	return cmd
}

func jobEventsCommand(e *environment) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "events JOB", Short: "List a job's events and those of its machines", Args: args(1, 1),
		Example: "  spotferry job events llama-7b\n  spotferry job events -f llama-7b\n  spotferry job events llama-7b -o json | jq '.items[] | select(.type == \"lease.intended\") | .fact.decision'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				return e.tail(cmd.Context(), tailOptions{job: args[0], last: -1, follow: true})
			}
			return e.listEvents(cmd.Context(), args[0])
		},
		ValidArgsFunction: e.completeJobs,
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens")
	return cmd
}

func (e *environment) listEvents(ctx context.Context, job string) error {
	l, err := e.connect(ctx, true)
	if err != nil {
		return err
	}
	defer l.Close()
	list := []entry{}
	if _, err := timeline(ctx, l, job, 0, func(e entry) { list = append(list, e) }); err != nil {
		return err
	}
	v := view{doc: list, list: true, page: func(p *page) {
		if len(list) == 0 {
			p.line("No events.")
			return
		}
		p.table(timelineTable(p, list, list[0].Time))
	}}
	for _, e := range list {
		v.names = append(v.names, string(e.ID))
	}
	return e.show(v)
}

// tail prints the last events that are there, then those to come. last -1 is all.
func (e *environment) tail(ctx context.Context, o tailOptions) error {
	l, err := e.connect(ctx, true)
	if err != nil {
		return err
	}
	defer l.Close()
	var kept []entry
	after, err := timeline(ctx, l, o.job, 0, func(e entry) {
		if kept = append(kept, e); o.last >= 0 && len(kept) > o.last {
			kept = kept[1:]
		}
	})
	if err != nil {
		return err
	}
	for _, x := range kept {
		e.printEntry(x)
	}
	for o.follow && !l.readOnly {
		if pause(ctx, e.poll) != nil {
			return &failure{exit: exitInterrupted}
		}
		if after, err = timeline(ctx, l, o.job, after, e.printEntry); err != nil {
			return err
		}
	}
	return nil
}

// printEntry prints one event of a stream of them.
func (e *environment) printEntry(x entry) {
	if printed, err := e.stream(x); printed || err != nil {
		return
	}
	if e.format == formatName {
		e.term.Print(terminal.Safe(string(x.ID)))
		return
	}
	e.printLine(x)
}

func (e *environment) printLine(x entry) {
	p := e.page()
	subject := x.Subject
	if p.wide {
		subject = string(x.ID)
	}
	p.line("%s  %-31s  %-24s  %s", p.clock(x.Time), subject, x.Type, x.Summary)
	_ = p.flush()
}
