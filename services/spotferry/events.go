package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
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
	types  []string
	since  time.Time
	last   int // of those that are there; -1: all
	follow bool
}

func eventsTailCommand(e *environment) *cobra.Command {
	var o tailOptions
	var stop bool
	var since string
	cmd := &cobra.Command{
		Use: "tail", Short: "Show the newest events of jobs, machines and operations, and go on with what happens", Args: args(0, 0),
		Long: `With -o json every event is an object of its own, with its facts. When the system
goes away the tail waits for it and goes on where it was: nothing is left out and
nothing comes twice.`,
		Example: "  spotferry events tail\n  spotferry events tail --type job.lost --type ops --since 12h\n  spotferry events tail --job llama-7b --last 100\n  spotferry events tail -o json | jq 'select(.type == \"job.lost\") | .fact'",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.follow = !stop
			if o.since, err = e.moment(since); err != nil {
				return err
			}
			if !o.since.IsZero() && !cmd.Flags().Changed("last") {
				o.last = -1
			}
			if err := knownTypes(o.types); err != nil {
				return err
			}
			return e.tail(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.job, "job", "", "only of this `JOB`")
	f.StringSliceVar(&o.types, "type", nil, "only of this `TYPE`, such as job.lost, or of all of lease; may be given again")
	f.StringVar(&since, "since", "", "begin with all since this `TIME`: 12h, or 2030-01-31T18:00:00Z")
	f.IntVar(&o.last, "last", 20, "begin with the last `N` events")
	f.BoolVar(&stop, "no-follow", false, "end with what is there now")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(eventTypes(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// eventTypes lists what --type takes: families, and types.
func eventTypes() []string {
	var out []string
	for _, t := range events.Table {
		if t.Family != "job" && t.Family != "lease" && t.Family != "ops" {
			continue // of streams that are not tailed
		}
		if !slices.Contains(out, t.Family) {
			out = append(out, t.Family)
		}
		out = append(out, t.Family+"."+t.Event)
	}
	return out
}

func knownTypes(types []string) error {
	for _, t := range types {
		if known := eventTypes(); !slices.Contains(known, t) {
			remedy := "give job, lease, ops, or one of their types, such as job.lost"
			if best := nearest(t, known); best != "" {
				remedy = "did you mean --type " + best + "?"
			}
			return usagef(remedy, "no event has the type %.40q", t)
		}
	}
	return nil
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

// tail prints the last events that are there, then those to come. It holds its
// place by the position of the newest event that it has seen, across whatever happens to the system.
func (e *environment) tail(ctx context.Context, o tailOptions) error {
	l, err := e.connect(ctx, true)
	if err != nil {
		return err
	}
	defer l.Close()
	l.readable = false // whoever follows waits for the system, and must not hold its state meanwhile
	var kept []entry
	q := console.Query{Job: o.job, Types: o.types, Since: o.since}
	q.After, err = timelineOf(ctx, l, q, func(e entry) {
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
	for lost := (time.Time{}); o.follow && !l.readOnly; {
		if pause(ctx, e.poll) != nil {
			return &failure{exit: exitInterrupted}
		}
		if q.After, err = timelineOf(ctx, l, q, e.printEntry); err == nil {
			if !lost.IsZero() {
				lost = time.Time{}
				e.term.Note("the system is back")
			}
			continue
		}
		if lost, err = e.wait(ctx, l, lost, err); err != nil {
			return err
		}
	}
	return nil
}

// wait is for a system that went away while it was tailed. lost is since when, zero until now.
func (e *environment) wait(ctx context.Context, l *link, lost time.Time, err error) (time.Time, error) {
	switch now := e.now(); {
	case ctx.Err() != nil:
		return lost, &failure{exit: exitInterrupted}
	case !away(err):
		return lost, err
	case lost.IsZero():
		lost = now
		e.term.Note("the system cannot be reached; trying again for %s", short(e.patience))
	case now.Sub(lost) >= e.patience:
		return lost, err
	}
	_ = l.reopen(ctx) // if not, the next look says so
	return lost, nil
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
