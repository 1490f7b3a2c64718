package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// task is what the command line says about a job besides its file.
type task struct {
	env           []string
	team, project string
	labels        map[string]string
}

func (t *task) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&t.env, "env", "e", nil, "environment variable `NAME=VALUE`, or NAME to pass this shell's on; may be repeated")
	f.StringVar(&t.team, "team", "", "`TEAM` that pays")
	f.StringVar(&t.project, "project", "", "`PROJECT` that it is for")
	f.StringToStringVar(&t.labels, "label", nil, "`KEY=VALUE` for the bill; may be repeated")
}

func planCommand(e *environment) *cobra.Command {
	var t task
	var explain bool
	cmd := &cobra.Command{
		Use: "plan FILE", Short: "Show what a job would be bought with; nothing is bought", Args: args(1, 1),
		Long:    "Plan reads a job file and asks the system what it would buy for it now, what that\nwould cost, and how likely it is to end within its budget and deadline. It exits\nwith 5 when that is impossible.",
		Example: "  spotferry plan train.yaml\n  spotferry plan train.yaml --explain\n  spotferry plan train.yaml -o json | jq .expected_total",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, job, err := e.prepare(cmd.Context(), args[0], t)
			if err != nil {
				return err
			}
			defer l.Close()
			plan, err := ask[console.Plan](cmd.Context(), l, console.GetPlan, job.request)
			if err != nil {
				return err
			}
			if err := e.show(planView(plan, job, explain)); err != nil {
				return err
			}
			return possible(plan, job)
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&explain, "explain", false, "show the figures that the choice was made from, and the arithmetic")
	return cmd
}

// prepared is a job file that was understood, ready to be submitted.
type prepared struct {
	request console.SubmitRequest
	workdir string
}

func (p prepared) name() string { return p.request.Spec.Name }

// prepare reads a job file at the system's market time, which its deadline
// counts from. When the system is away, what is wrong with the file is still said.
func (e *environment) prepare(ctx context.Context, file string, t task) (*link, prepared, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, prepared{}, usagef("give the path of a job file", "reading the job file: %v", err)
	}
	given, err := e.variables(t.env)
	if err != nil {
		return nil, prepared{}, err
	}
	opt := jobfile.Options{Env: given, Dir: filepath.Dir(file), Home: e.getenv("HOME"), Stat: os.Stat}
	l, err := e.connect(ctx, false)
	if err != nil {
		return nil, prepared{}, e.worse(file, src, opt, err)
	}
	clock, err := ask[console.Clock](ctx, l, console.GetClock, nil)
	if err != nil {
		l.Close()
		return nil, prepared{}, e.worse(file, src, opt, err)
	}
	opt.Now = events.Moment{Control: clock.Control, Market: clock.Market}
	job, err := jobfile.Read(file, src, opt)
	if err != nil {
		l.Close()
		return nil, prepared{}, err
	}
	e.warn(job.Warnings)
	return l, prepared{workdir: job.Workdir, request: console.SubmitRequest{
		ID: e.mint(), Attribution: t.attribution(job), Spec: job.Spec,
	}}, nil
}

// worse is what is wrong with a job file, or else why the system is away. Only
// the system knows the market's time, so deadlines are not judged here.
func (e *environment) worse(file string, src []byte, opt jobfile.Options, unreachable error) error {
	now := e.now()
	opt.Now = events.Moment{Control: now, Market: now}
	var found *jobfile.Error
	if _, err := jobfile.Read(file, src, opt); !errors.As(err, &found) {
		return unreachable
	}
	found.Problems = slices.DeleteFunc(found.Problems, func(p jobfile.Problem) bool { return p.Field == "policy.deadline" })
	if len(found.Problems) == 0 {
		return unreachable
	}
	return found
}

// variables reads --env NAME=VALUE and --env NAME.
func (e *environment) variables(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range list {
		name, value, given := strings.Cut(s, "=")
		if name == "" {
			return nil, usagef("write --env NAME=VALUE", "--env %.40q has no name", s)
		}
		if !given {
			if value = e.getenv(name); value == "" {
				return nil, usagef("write --env "+name+"=VALUE, or set it first", "--env %.80s: this shell has no such variable", name)
			}
		}
		out[name] = value
	}
	return out, nil
}

func (t task) attribution(job jobfile.Job) events.Attribution {
	a := events.Attribution{Team: t.team, Project: t.project}
	for _, from := range []map[string]string{job.Labels, t.labels} {
		for k, v := range from {
			if a.Labels == nil {
				a.Labels = map[string]string{}
			}
			a.Labels[k] = v
		}
	}
	return a
}

func (e *environment) warn(list []jobfile.Problem) {
	for _, w := range list {
		e.term.Note("%s", w)
	}
}

func planView(plan console.Plan, job prepared, explain bool) view {
	v := view{doc: plan, page: func(p *page) {
		writePlan(p, plan, job)
		if explain {
			writeInputs(p, plan.Decision)
		}
	}}
	if i := plan.Decision.Chosen; i >= 0 && i < len(plan.Decision.Candidates) {
		v.names = []string{plan.Decision.Candidates[i].Offer.Pool.String()}
	}
	return v
}

func writePlan(p *page, plan console.Plan, job prepared) {
	p.head("Plan for %s, market time %s", job.name(), p.stamp(plan.Market))
	if len(plan.Decision.Candidates) > 0 {
		t := candidatesTable(p, plan.Decision, &figures{plan.Budget, plan.OnDemand})
		p.table(t)
		writeOmitted(p, plan.Decision)
		p.line("")
	}
	if plan.Decision.Detail != "" {
		p.field("choice", "%s: %s", plan.Decision.Rule, plan.Decision.Detail)
	}
	if plan.Possible {
		p.field("expected", "%s (%s of the budget %s); nine in ten end below %s", plan.Expected.Dollars(), share(plan.Expected, plan.Budget), plan.Budget.Dollars(), plan.P90.Dollars())
	}
	if plan.OnDemand > 0 {
		if plan.Expected > 0 {
			p.field("on demand", "%s; this saves %s", plan.OnDemand.Dollars(), saving(plan.Expected, plan.OnDemand))
		} else {
			p.field("on demand", "%s", plan.OnDemand.Dollars())
		}
	}
	if !plan.Deadline.IsZero() {
		p.field("deadline", "%s market time, in %s", p.stamp(plan.Deadline), short(plan.Deadline.Sub(plan.Market)))
	}
	p.field("certainty", "%s", certainty(plan))
	for _, a := range plan.Assumed {
		p.field("assumed", "%s", a)
	}
}

func certainty(plan console.Plan) string {
	switch {
	case !plan.Possible:
		return "impossible" + labelled(": ", plan.Reason)
	case plan.Certain:
		return "budget and deadline hold even at worst"
	}
	return fmt.Sprintf("%.0f%% likely to end within budget and deadline%s", 100*plan.Probability, labelled(": ", plan.Reason))
}

// possible refuses a job that cannot be done even at best, with the figures.
func possible(plan console.Plan, job prepared) error {
	if plan.Possible {
		return nil
	}
	what := job.name() + " is impossible" + labelled(": ", plan.Reason)
	var figures []string
	if plan.Cheapest > 0 {
		figures = append(figures, fmt.Sprintf("at best it costs %s, the budget is %s", plan.Cheapest.Dollars(), plan.Budget.Dollars()))
	}
	if plan.Fastest > 0 {
		fastest := fmt.Sprintf("at best it takes %.1f h", plan.Fastest)
		if !plan.Deadline.IsZero() {
			fastest += fmt.Sprintf(", the deadline is in %.1f h", plan.Deadline.Sub(plan.Market).Hours())
		}
		figures = append(figures, fastest)
	}
	if len(figures) > 0 {
		what += " (" + strings.Join(figures, "; ") + ")"
	}
	return &failure{exit: exitImpossible, What: terminal.Safe(what) + "; nothing was bought", Remedy: "raise the budget, move the deadline, or ask for other machines"}
}
