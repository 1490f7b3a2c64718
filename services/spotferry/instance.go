package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func instanceCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "instance", Short: "Which machines are ours, by us and by their sellers",
		Example: "  spotferry instance ls\n  spotferry instance reap --dry-run",
	}, instanceListCommand(e), instanceReapCommand(e))
}

func instanceListCommand(e *environment) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List machines, ours against the sellers' own lists", Args: args(0, 0),
		Example: "  spotferry instance ls\n  spotferry instance ls -o json | jq '.items[] | select(.orphan)'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := once[[]console.Instance](cmd.Context(), e, true, console.GetInstances, nil)
			if err != nil {
				return err
			}
			if !all {
				list = slices.DeleteFunc(list, past)
			}
			return e.show(instancesView(list, e.now()))
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that ended and are gone")
	return cmd
}

// past says whether a machine has ended by our record and by its seller's.
func past(i console.Instance) bool {
	return i.State == "ended" && (i.Seller == "gone" || i.Seller == "absent")
}

func instancesView(list []console.Instance, now time.Time) view {
	v := view{doc: list, list: true, page: func(p *page) {
		if len(list) == 0 {
			p.line("No machines.")
			return
		}
		t := terminal.Table{Columns: terminal.Columns("LEASE", "INSTANCE", "POOL", "WE SAY", "SELLER SAYS", ">PRICE/H", ">SINCE", "")}
		t.Columns[7].Mark = terminal.Style.Bad
		for _, i := range list {
			since, orphan := "", ""
			if !i.Since.IsZero() {
				since = short(now.Sub(i.Since))
			}
			if i.Orphan {
				orphan = "ORPHAN"
			}
			t.Row(string(i.Lease), string(i.Instance), i.Pool.String(), i.State, i.Seller, price(i.Price), since, orphan)
		}
		p.table(t)
	}}
	for _, i := range list {
		v.names = append(v.names, string(i.Instance))
	}
	return v
}
