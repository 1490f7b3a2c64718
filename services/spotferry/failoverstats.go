package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func failoverStatsCommand(e *environment) *cobra.Command {
	var w wanted
	by := "seller"
	cmd := &cobra.Command{
		Use: "stats", Short: "Say how long moves and their phases took, by seller, cause or pool", Args: args(0, 0),
		Example: "  spotferry failover stats --since 168h\n  spotferry failover stats --by cause\n  spotferry failover stats --by pool --seller aws -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := w.query(e)
			if err != nil {
				return err
			}
			q.By = by
			stats, err := once[console.FailoverStats](cmd.Context(), e, true, console.GetFailoverStats, q)
			if err != nil {
				return err
			}
			return e.show(statsView(stats))
		},
	}
	w.flags(cmd)
	cmd.Flags().StringVar(&by, "by", by, "group by `WHAT`: seller, cause or pool")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"seller", "cause", "pool"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func statsView(s console.FailoverStats) view {
	v := view{doc: s, page: func(p *page) {
		if s.All.Count == 0 {
			p.line("No failovers.")
			return
		}
		p.table(statsTable(p, s))
		p.head("Phases of all")
		t := terminal.Table{Columns: terminal.Columns("PHASE", ">MOVES", ">P50", ">P95", ">LONGEST")}
		for _, ph := range s.All.Phases {
			t.Row(ph.Name, fmt.Sprint(ph.Count), ms(ph.P50), ms(ph.P95), ms(ph.Max))
		}
		p.table(t)
	}}
	for _, r := range s.Rows {
		v.names = append(v.names, r.Key)
	}
	return v
}

func statsTable(_ *page, s console.FailoverStats) terminal.Table {
	t := terminal.Table{Columns: terminal.Columns(strings.ToUpper(s.By), ">MOVES", ">NOTICED", ">P50", ">P95", ">LONGEST", ">LOST STEPS", ">LOST TIME", ">LOST")}
	row := func(key string, r console.FailoverStat) {
		t.Row(key, fmt.Sprint(r.Count), fmt.Sprint(r.Noticed), ms(r.Took.P50), ms(r.Took.P95), ms(r.Took.Max), fmt.Sprint(r.LostSteps), ms(r.LostMS), r.LostCost.Dollars())
	}
	for _, r := range s.Rows {
		row(r.Key, r)
	}
	if len(s.Rows) > 1 {
		row("all", s.All)
	}
	return t
}
