package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// task is what the command line says about a job besides its file.
type task struct {
	given
	team, project string
	labels        map[string]string
	rehearsal     string // file; "": beside the job file, if there is one
}

// given is what the command line says in place of the file.
type given struct {
	env, secrets     []string
	budget, deadline string
}

func (g *given) flags(f *pflag.FlagSet) {
	f.StringArrayVarP(&g.env, "env", "e", nil, "environment variable `NAME=VALUE`, or NAME to pass this shell's on; may be repeated")
	f.StringArrayVar(&g.secrets, "secret", nil, "variable that nobody sees: `NAME` to pass this shell's on, or NAME=VALUE; may be repeated")
	f.StringVar(&g.budget, "budget", "", "the most it may ever cost, `AMOUNT` in US dollars, whatever the file says")
	f.StringVar(&g.deadline, "deadline", "", "when it must be done, `TIME` or +36h, whatever the file says")
}

func (t *task) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	t.given.flags(f)
	f.StringVar(&t.team, "team", "", "`TEAM` that pays")
	f.StringVar(&t.project, "project", "", "`PROJECT` that it is for")
	f.StringVar(&t.rehearsal, "rehearsal", "", "`FILE` of figures that 'spotferry rehearse' has kept (default beside the job file, if there is one)")
	f.StringToStringVar(&t.labels, "label", nil, "`KEY=VALUE` for the bill; may be repeated")
}

func planCommand(e *environment) *cobra.Command {
	var t task
	var explain bool
	cmd := &cobra.Command{
		Use: "plan FILE", Short: "Show what a job would be bought with; nothing is bought", Args: args(1, 1),
		Long:    "Plan reads a job file and asks the system what it would buy for it now, what that\nwould cost, and how likely it is to end within its budget and deadline. It exits\nwith 5 when that is impossible.\n\nFigures that nobody has measured are marked as assumed; 'spotferry rehearse FILE'\nmeasures those that are the job's own.",
		Example: "  spotferry plan train.yaml\n  spotferry plan train.yaml --explain\n  spotferry plan train.yaml -o json | jq .expected_total",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, job, err := e.prepare(cmd.Context(), args[0], t)
			if err != nil {
				return err
			}
			defer l.Close()
			plan, err := e.askPlan(cmd.Context(), l, job)
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
	request    console.SubmitRequest
	rehearsed  rehearsalOf
	workdir    string
	repository *jobfile.Repository
	mounts     []jobfile.Mount
	secrets    map[string]events.Secret
}

func (p prepared) name() string { return p.request.Spec.Name }

// prepare reads a job file at the system's market time, which its deadline
// counts from. When the system is away, what is wrong with the file is still said.
func (e *environment) prepare(ctx context.Context, file string, t task) (*link, prepared, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, prepared{}, usagef("give the path of a job file", "reading the job file: %v", err)
	}
	opt, err := e.options(file, t.given)
	if err != nil {
		return nil, prepared{}, err
	}
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
	rehearsed, err := e.rehearsalOf(file, t.rehearsal, job.Spec)
	if err != nil {
		l.Close()
		return nil, prepared{}, err
	}
	return l, prepared{rehearsed: rehearsed, workdir: job.Workdir, repository: job.Repository, mounts: job.Mounts, secrets: job.Secrets, request: console.SubmitRequest{
		ID: e.mint(), Attribution: t.attribution(job), Spec: job.Spec,
	}}, nil
}

// worse is what is wrong with a job file, or else why the system is away. Only
// the system knows the market's time, so no date is judged here.
func (e *environment) worse(file string, src []byte, opt jobfile.Options, unreachable error) error {
	var found *jobfile.Error
	if _, err := jobfile.Read(file, src, opt); errors.As(err, &found) {
		return found
	}
	return unreachable
}

// options is what a job file is read with, but for the time.
func (e *environment) options(file string, g given) (jobfile.Options, error) {
	opt := jobfile.Options{Budget: g.budget, Deadline: g.deadline, Dir: filepath.Dir(file), Home: e.getenv("HOME"), Stat: os.Stat}
	var err error
	if opt.Env, err = e.variables("--env", g.env); err != nil {
		return opt, err
	}
	hidden, err := e.variables("--secret", g.secrets)
	if err != nil {
		return opt, err
	}
	opt.Secrets = map[string]events.Secret{}
	for name, value := range hidden {
		opt.Secrets[name] = events.NewSecret(value)
	}
	return opt, nil
}

// variables reads NAME=VALUE, and NAME for a variable of this shell. It quotes no value.
func (e *environment) variables(flag string, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range list {
		name, value, given := strings.Cut(s, "=")
		if name == "" {
			return nil, usagef("write "+flag+" NAME=VALUE", "%s has no name", flag)
		}
		if !given {
			if value = e.getenv(name); value == "" {
				return nil, usagef("write "+flag+" "+name+"=VALUE, or set it first", "%s %.80s: this shell has no such variable", flag, name)
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
	if plan.Possible && plan.Expected > 0 {
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
	writeKnown(p, plan, job)
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
	case plan.Probability < 0:
		return "nobody can tell" + labelled(": ", plan.Reason)
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
