package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/rehearse"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// rehearsalOf is what is known of a job from its rehearsal.
type rehearsalOf struct {
	file    string             // of the job
	found   bool               // there is a record, and it is of this job
	record  rehearse.Record    //
	figures *console.Rehearsed // nil: none that can be used
}

// rehearsalOf reads the record of a job. Without one, or with one of another
// script, a plan assumes; one that was asked for by name has to be there.
func (e *environment) rehearsalOf(file, named string, spec events.JobSpec) (rehearsalOf, error) {
	none := rehearsalOf{file: file}
	path := either(named, rehearse.Beside(file))
	record, err := rehearse.Load(path)
	switch {
	case err != nil && named != "":
		return none, usagef("give the file that 'spotferry rehearse' has kept", "--rehearsal: %s", terminal.Safe(err.Error()))
	case errors.Is(err, rehearse.ErrNoRecord):
		return none, nil
	case err != nil:
		e.term.Note("the rehearsal is not used: %s", terminal.Safe(err.Error()))
		return none, nil
	case record.Key != rehearse.Key(spec):
		e.term.Note("%s is of a job with another script, setup, environment or way of saving: its figures are not used; rehearse again", terminal.Safe(path))
		return none, nil
	}
	return rehearsalOf{file: file, found: true, record: record, figures: forPlan(record, spec)}, nil
}

// forPlan is what a plan takes from a record.
func forPlan(r rehearse.Record, spec events.JobSpec) *console.Rehearsed {
	f := r.Figures
	out := &console.Rehearsed{At: r.At, Where: r.Machine.String(), SaveMS: f.SavePauseMS, StateBytes: f.CheckpointBytes}
	if out.SaveMS == nil {
		out.SaveMS = f.SaveWriteMS // nothing shows how long the trainer stands still: as long as it writes, at most
	}
	if d, ok := f.Restart(); ok {
		n := d.Milliseconds()
		out.StartMS = &n
	}
	steps := spec.Policy.Work.Steps
	for _, a := range spec.Resources.Accelerators {
		if steps > 0 && f.StepMS != nil && r.Machine.Has(a) {
			out.WorkS = map[string]int64{a.Model: int64(float64(steps)**f.StepMS/1000) + 1}
		}
	}
	return out
}

// askPlan asks what a job would be bought with, by what is known of it.
func (e *environment) askPlan(ctx context.Context, l *link, job prepared) (console.Plan, error) {
	r := job.request
	r.Rehearsed = job.rehearsed.figures
	return ask[console.Plan](ctx, l, console.GetPlan, r)
}

// writeKnown shows the figures of a plan with where they come from.
func writeKnown(p *page, plan console.Plan, job prepared) {
	assumed := false
	for _, f := range plan.Figures {
		assumed = assumed || f.Origin == console.Assumed
		if f.Name != "work" || f.Value > 0 { // that nothing is known of it is said below
			p.field(f.Name, "%s, %s", figure(f), origin(f))
		}
	}
	r := job.rehearsed
	switch {
	case r.found:
		p.field("rehearsed", "%s", rehearsalLine(r.record, job.request.Spec.Policy.Work.Steps))
	case assumed:
		p.field("rehearsed", "not yet: 'spotferry rehearse %s' measures what is the job's own, and shows whether it resumes", shellWord(r.file))
	}
}

func figure(f console.Figure) string {
	if f.Unit == "bytes" {
		return size(int64(f.Value))
	}
	return short(time.Duration(f.Value * float64(time.Second)))
}

// origin says where a figure comes from. When and where it was rehearsed is said once, below.
func origin(f console.Figure) string {
	if f.Rehearsed && f.Origin == console.Measured {
		return "measured by the rehearsal"
	}
	return strings.ReplaceAll(string(f.Origin), "-", " ") + labelled(": ", f.Detail)
}

// rehearsalLine sums a rehearsal up. One that found a fault is no reason to refuse
// a plan, and the first thing to know about it.
func rehearsalLine(r rehearse.Record, all int64) string {
	s := "resumes rightly"
	if r.Verdict != rehearse.Resumes {
		s = "not shown to resume (" + string(r.Verdict) + ")"
	}
	s += ", " + r.At.UTC().Format("2006-01-02 15:04Z") + " on " + r.Machine.String()
	f := r.Figures
	if f.StepsPerS != nil {
		s += fmt.Sprintf("; %.3g steps a second there", *f.StepsPerS)
	}
	if f.StepMS != nil && all > 0 {
		s += fmt.Sprintf(", %s for all %d", short(time.Duration(float64(all)**f.StepMS*float64(time.Millisecond))), all)
	}
	return s + labelled("; memory ", orElse(f.PeakBytes, size, ""))
}
