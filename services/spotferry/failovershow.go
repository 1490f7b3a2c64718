package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// failoverDetail is a move with the decisions that did not lead to it, when they were asked for.
type failoverDetail struct {
	console.FailoverReport
	Explained []console.Choice `json:"considered_decisions,omitempty"`
	explain   bool
}

func failoverShowCommand(e *environment) *cobra.Command {
	var explain bool
	var bundle, trace string
	cmd := &cobra.Command{
		Use: "show JOB [N]", Short: "Show one move: why, how long each phase took, what was lost, what else could be bought", Args: args(1, 2),
		Example: "  spotferry failover show llama-7b        # the newest\n  spotferry failover show llama-7b 3 --explain\n  spotferry failover show llama-7b 3 --bundle postmortem.tar.gz\n  spotferry failover show llama-7b 3 --trace spans.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := numbered(args)
			if err != nil {
				return err
			}
			l, err := e.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer l.Close()
			d, err := failoverReport(cmd.Context(), l, q, explain || bundle != "")
			if err != nil {
				return err
			}
			if bundle != "" || trace != "" {
				if err := e.export(cmd.Context(), l, d, bundle, trace); err != nil {
					return err
				}
			}
			d.explain = explain
			name := fmt.Sprintf("%s/%d", d.Job, d.Record.N)
			return e.show(view{doc: d, names: []string{name}, page: d.write})
		},
		ValidArgsFunction: e.completeJobs,
	}
	f := cmd.Flags()
	f.BoolVar(&explain, "explain", false, "also every candidate of every decision, with its figures or why not, and whether the decision replays")
	f.StringVar(&bundle, "bundle", "", "also write all of it to `FILE`, one archive for the post-mortem")
	f.StringVar(&trace, "trace", "", "also write its trace to `FILE`, as OTLP JSON")
	return cmd
}

// numbered reads JOB [N].
func numbered(args []string) (q console.FailoverQuery, err error) {
	q.Job = args[0]
	if len(args) < 2 {
		return q, nil
	}
	if q.N, err = strconv.Atoi(args[1]); err != nil || q.N < 1 {
		return q, usagef("give its number, as 'spotferry failover ls' shows it", "%.40q is not the number of a failover", args[1])
	}
	return q, nil
}

// failoverReport reads one move, 0 for the newest, and all its decisions if they are to be explained.
func failoverReport(ctx context.Context, l *link, q console.FailoverQuery, explain bool) (d failoverDetail, err error) {
	if d.FailoverReport, err = ask[console.FailoverReport](ctx, l, console.GetFailover, q); err != nil || !explain {
		return d, err
	}
	skip := max(len(d.Considered)-mostExplained, 0)
	for _, c := range d.Considered[skip:] {
		full, err := ask[console.Choice](ctx, l, console.GetDecision, console.FailoverQuery{Event: c.Event})
		if err != nil {
			return d, err
		}
		d.Explained = append(d.Explained, full)
	}
	return d, nil
}

// mostExplained is how many decisions that did not lead to the move are told in full: the newest.
// A job that waited overnight has hundreds, each like the one before.
const mostExplained = 10

func (d failoverDetail) write(p *page) {
	r := d.Record
	p.head("%s  failover %d of %d%s", d.Name, r.N, d.Of, labelled(", a ", drill(r)))
	p.field("cause", "%s%s", d.Cause, labelled(": ", d.Detail))
	p.field("recorded as", "%s", recordedAs(d.Failover))
	p.field("from", "%s", side(r.From))
	p.field("to", "%s", side(r.To))
	p.field("began", "%s", p.stamp(r.Began))
	p.field("took", "%s to the first step on the new machine", short(r.Ended.Sub(r.Began)))
	p.field("notice", "%s%s", notice(r), labelled(", last save after ", used(r)))
	if r.Resumed == nil {
		p.field("resumed", "from the beginning: nothing had been saved")
	} else {
		p.field("resumed", "step %d of epoch %d, %s", r.Resumed.Step, r.Resumed.Epoch, r.Resumed.Name)
	}
	p.field("lost", "%d steps up to step %d, %s, %s", r.LostSteps, r.LastStep, ms(r.LostMS), r.LostCost.Dollars())
	p.field("record", "%s", d.Event)
	p.field("trace", "%s", d.Trace)
	writePhases(p, r)
	writeEvidence(p, d.FailoverReport)
	writeLastWords(p, d.LastWords, r)
	if len(d.Bill) > 0 {
		p.head("What both machines cost")
		p.table(leasesTable(p, d.Bill))
	}
	d.writeChoices(p)
}

// writeEvidence shows what the cause rests on, and how it came to be known.
func writeEvidence(p *page, d console.FailoverReport) {
	if len(d.Refined) > 0 {
		p.head("What was believed when")
		t := terminal.Table{Columns: terminal.Columns("TIME", "CAUSE", "BECAUSE", "EVENT")}
		t.Row(p.stamp(d.Record.Ended), string(d.Record.Cause), d.Record.Detail, string(d.Event))
		for _, m := range d.Refined {
			t.Row(p.stamp(m.Time), string(m.Cause), m.Detail, string(m.Event))
		}
		p.table(t)
	}
	if len(d.Evidence) == 0 {
		return
	}
	p.head("Evidence")
	t := terminal.Table{Columns: terminal.Columns("TIME", "EVENT", "ID", "FOR", "WHAT")}
	for _, e := range d.Evidence {
		when, what := "", "not here any more"
		if e.Type != "" {
			when, what = p.clock(e.Time), e.Summary
		}
		t.Row(when, e.Type, string(e.ID), string(e.After), what)
	}
	t.Drop("FOR")
	p.table(t)
}

// fewLines is how much of a dead machine's log is shown; -o wide shows all that is kept.
const fewLines = 20

func writeLastWords(p *page, w *console.LastWords, r events.Failover) {
	if w == nil {
		return
	}
	p.head("Last words of %s", w.Lease)
	if hb := w.Heartbeat; hb != nil {
		loss := ""
		if hb.Loss != nil {
			loss = fmt.Sprintf(", loss %.4g", *hb.Loss)
		}
		p.field("heartbeat", "%s, %s: step %d, %s%s", p.clock(hb.At), relative(hb.At, r.Began), hb.Step, hb.State, loss)
		p.field("trouble", "%s", hb.Trouble)
		p.field("notices", "%s", hb.Notices)
		for _, g := range hb.GPUs {
			p.field("gpu", "%d %s: %.0f%% busy, %d of %d MiB, %.0f °C, %.0f W", g.Index, g.Name, 100*g.Util, g.MemUsedMiB, g.MemMiB, g.TempC, g.PowerW)
		}
	}
	lines := w.Lines
	if !p.wide && len(lines) > fewLines {
		p.line("  the last %d of %d lines; -o wide shows all", fewLines, len(lines))
		lines = lines[len(lines)-fewLines:]
	}
	for _, l := range lines {
		p.line("  %s %-6s %s", p.clock(l.At), l.Stream, terminal.SafeLine(l.Text))
	}
	if len(lines) == 0 {
		p.line("  no output was kept")
	}
}

// relative is a time as seen from a move's first sign.
func relative(at, began time.Time) string {
	if d := began.Sub(at); d > 0 {
		return short(d) + " before the first sign"
	}
	return short(at.Sub(began)) + " after the first sign"
}

const phaseWidth = 40

// writePhases draws the phases of a move to one scale.
func writePhases(p *page, r events.Failover) {
	if len(r.Phases) == 0 {
		return
	}
	from, to := r.Began, r.Ended
	for _, ph := range r.Phases {
		if ph.Began.Before(from) {
			from = ph.Began
		}
		if end := ph.Began.Add(time.Duration(ph.MS) * time.Millisecond); end.After(to) {
			to = end
		}
	}
	all := to.Sub(from).Milliseconds()
	phases := slices.Clone(r.Phases)
	slices.SortStableFunc(phases, func(a, b events.Phase) int { return a.Began.Compare(b.Began) })
	t := terminal.Table{Columns: terminal.Columns("PHASE", ">AT", ">TOOK", "CLOCK", "")}
	for _, ph := range phases {
		at := ph.Began.Sub(from).Milliseconds()
		bar := terminal.Span(at, at+ph.MS, all, phaseWidth)
		t.Row(ph.Name, signed(ph.Began.Sub(r.Began)), ms(ph.MS), ph.Clock, "|"+fmt.Sprintf("%-*s", phaseWidth, bar)+"|")
	}
	p.head("Phases (%s)", ms(all))
	p.table(t)
}

// signed is a time before or after the first sign.
func signed(d time.Duration) string {
	if d < 0 {
		return short(d)
	}
	return "+" + short(d)
}
