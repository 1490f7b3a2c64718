package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func budgetCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "budget", Short: "What jobs may cost, and who said so",
		Example: "  spotferry budget show\n  spotferry budget set llama-7b '$80' --reason 'two more epochs'",
	}, budgetShowCommand(e), budgetSetCommand(e))
}

func budgetShowCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "show [JOB]", Short: "Show a job's budget and every limit it had, or a line for every job", Args: args(0, 1),
		Example: "  spotferry budget show\n  spotferry budget show llama-7b\n  spotferry budget show -o json | jq '.items[] | {name, free}'",
		RunE: func(cmd *cobra.Command, args []string) error {
			var q console.Query
			if len(args) == 1 {
				q.Job = args[0]
			}
			list, err := once[[]console.Budget](cmd.Context(), e, true, console.GetBudget, q)
			if err != nil {
				return err
			}
			if len(args) == 1 && len(list) == 1 {
				return e.showBudget(list[0])
			}
			v := view{doc: list, list: true, page: func(p *page) { writeBudgets(p, list) }}
			for _, b := range list {
				v.names = append(v.names, string(b.Job))
			}
			return e.show(v)
		},
		ValidArgsFunction: e.completeJobs,
	}
}

func (e *environment) showBudget(b console.Budget) error {
	return e.show(view{doc: b, names: []string{string(b.Job)}, page: func(p *page) { writeBudget(p, b) }})
}

func writeBudgets(p *page, list []console.Budget) {
	if len(list) == 0 {
		p.line("No jobs yet.")
		return
	}
	t := terminal.Table{Columns: terminal.Columns("JOB", "NAME", "STATUS", ">BUDGET", ">SPENT", ">RESERVED", ">FREE", ">SPENT OF IT")}
	for _, b := range list {
		t.Row(string(b.Job), b.Name, b.Status, b.Limit.Dollars(), b.Spent.Dollars(), b.Reserved.Dollars(), b.Free.Dollars(), share(b.Spent, b.Limit))
	}
	p.table(t)
}

func writeBudget(p *page, b console.Budget) {
	p.head("%s  %s", b.Name, b.Job)
	p.field("status", "%s", b.Status)
	p.field("budget", "%s", b.Limit.Dollars())
	p.field("spent", "%s (%s)", b.Spent.Dollars(), share(b.Spent, b.Limit))
	p.field("reserved", "%s, the most that machines in use can still come to", b.Reserved.Dollars())
	p.field("free", "%s", b.Free.Dollars())
	if b.Overrun > 0 {
		p.field("OVERRUN", "%s above what was reserved", b.Overrun.Dollars())
	}
	if len(b.Limits) == 0 {
		return
	}
	p.head("Limits")
	t := terminal.Table{Columns: terminal.Columns("SET", ">BUDGET", "BY", "WHY")}
	for _, l := range b.Limits {
		t.Row(p.stamp(l.At), l.Amount.Dollars(), l.By, l.Reason)
	}
	p.table(t)
}

func budgetSetCommand(e *environment) *cobra.Command {
	return act(&cobra.Command{
		Use: "set JOB AMOUNT", Short: "Give a job another hard limit", Args: args(2, 2),
		Long: `Set changes what a job may ever cost in all, at any time until it has ended. A higher
limit carries a job on that its budget would have stopped, and takes up one that it
has paused. A limit below what is spent and reserved stops every new commitment at
once; the job saves and stops as soon as what is left would not cover that.`,
		Example:           "  spotferry budget set llama-7b '$80' --reason 'two more epochs'\n  spotferry budget set llama-7b 12.50 --reason 'good enough' -y",
		ValidArgsFunction: e.completeJobs,
	}, func(ctx context.Context, args []string, reason string) error {
		limit, err := events.ParseMicroUSD(strings.TrimPrefix(args[1], "$"))
		if err != nil || limit <= 0 {
			return usagef("give dollars, such as 80 or '$12.50'", "%.40q is no budget", args[1])
		}
		return e.setBudget(ctx, args[0], limit, reason)
	})
}

func (e *environment) setBudget(ctx context.Context, job string, limit events.MicroUSD, reason string) error {
	l, err := e.connect(ctx, false)
	if err != nil {
		return err
	}
	defer l.Close()
	list, err := ask[[]console.Budget](ctx, l, console.GetBudget, console.Query{Job: job})
	if err != nil {
		return err
	}
	if len(list) == 1 && limit < list[0].Spent+list[0].Reserved {
		b := list[0]
		question := fmt.Sprintf("%s has spent %s and has %s reserved. With %s it buys nothing more, and saves and stops. Set it?",
			terminal.Safe(b.Name), b.Spent.Dollars(), b.Reserved.Dollars(), limit.Dollars())
		if err := e.confirm(ctx, "lowering the budget of "+terminal.Safe(b.Name), question); err != nil {
			return err
		}
		job = string(b.Job)
	}
	b, err := ask[console.Budget](ctx, l, console.DoBudget, console.BudgetRequest{Job: job, Limit: limit, Reason: reason})
	if err != nil {
		return err
	}
	return e.showBudget(b)
}
