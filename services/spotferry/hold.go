package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func sellerCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "seller", Short: "Sellers, and whether anything is bought from them",
		Long:    "A held seller stays in every list of candidates, with the reason why it is not taken.\nMachines that are there already are not touched.",
		Example: "  spotferry seller ls\n  spotferry seller hold aws --reason 'reclaim storm'\n  spotferry seller release aws --reason 'calm again'",
	}, sellerListCommand(e), sellerHoldCommand(e, console.DoHold), sellerHoldCommand(e, console.DoRelease))
}

func sellerListCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List sellers with what is held", Args: args(0, 0),
		Example: "  spotferry seller ls\n  spotferry seller ls -o json | jq '.items[] | select(.held)'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := e.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer l.Close()
			list, err := ask[[]console.Seller](cmd.Context(), l, console.GetSellers, nil)
			if err != nil {
				return err
			}
			if err := e.noteFreeze(cmd.Context(), l); err != nil {
				return err
			}
			return e.show(sellersView(list, e.now()))
		},
	}
}

func sellersView(list []console.Seller, now time.Time) view {
	v := view{doc: list, list: true, page: func(p *page) {
		if len(list) == 0 {
			p.line("No sellers.")
			return
		}
		t := terminal.Table{Columns: terminal.Columns("SELLER", ">POOLS", ">MACHINES", ">POOLS HELD", "HELD", ">FOR", "BY", "WHY")}
		for _, s := range list {
			row := []string{s.Name, fmt.Sprint(s.Pools), fmt.Sprint(s.Machines), fmt.Sprint(s.Holds)}
			t.Row(append(row, heldCells(s.Held, now)...)...)
		}
		p.table(t)
	}}
	for _, s := range list {
		v.names = append(v.names, s.Name)
	}
	return v
}

// heldCells are the columns HELD, FOR, BY and WHY.
func heldCells(h *console.Hold, now time.Time) []string {
	if h == nil {
		return []string{"", "", "", ""}
	}
	what := "pool"
	if h.Pool == nil {
		what = "seller"
	}
	return []string{what, short(now.Sub(h.Since)), h.By, h.Reason}
}

func sellerHoldCommand(e *environment, v console.Verb) *cobra.Command {
	cmd := &cobra.Command{Use: string(v) + " SELLER", Args: args(1, 1)}
	switch v {
	case console.DoHold:
		cmd.Short, cmd.Long = "Buy nothing more from a seller", "Nothing more is bought from the seller until it is released. What runs there goes on."
		cmd.Example = "  spotferry seller hold aws --reason 'reclaim storm, INC-42'"
	default:
		cmd.Short = "Buy from a seller again"
		cmd.Example = "  spotferry seller release aws --reason 'calm again'"
	}
	return act(cmd, func(ctx context.Context, args []string, reason string) error {
		l, err := e.connect(ctx, false)
		if err != nil {
			return err
		}
		defer l.Close()
		o, err := ask[console.Ops](ctx, l, v, console.HoldRequest{Seller: args[0], Reason: reason})
		if err != nil {
			return err
		}
		return e.showOps(o, fmt.Sprintf("Seller %s is %s.", args[0], heldOrNot(v)))
	})
}

func heldOrNot(v console.Verb) string {
	if v == console.DoHold {
		return "held: nothing more is bought from it"
	}
	return "released"
}

func poolCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "pool", Short: "Pools of machines, and whether anything is bought from them",
		Long:    "A POOL is its name as 'spotferry pool ls' shows it: seller/zone/instance/type.\nFlags instead of a name take every pool that fits all of them.",
		Example: "  spotferry pool ls\n  spotferry pool hold aws/us-east-1a/p3.2xlarge/spot --reason 'slow disks'\n  spotferry pool release --seller aws --zone us-east-1a --reason 'new hosts'",
	}, poolListCommand(e), poolHoldCommand(e, console.DoHold), poolHoldCommand(e, console.DoRelease))
}

func poolListCommand(e *environment) *cobra.Command {
	var w poolWanted
	var held bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List pools with their newest price and what is held", Args: args(0, 0),
		Example: "  spotferry pool ls\n  spotferry pool ls --held\n  spotferry pool ls --seller aws -o name",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := e.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer l.Close()
			list, err := ask[[]console.Pool](cmd.Context(), l, console.GetPools, nil)
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(p console.Pool) bool { return !w.fits(p.Pool) || held && p.Held == nil })
			if err := e.noteFreeze(cmd.Context(), l); err != nil {
				return err
			}
			return e.show(poolsView(list, e.now()))
		},
	}
	w.flags(cmd)
	cmd.Flags().BoolVar(&held, "held", false, "only what is held")
	return cmd
}

func poolsView(list []console.Pool, now time.Time) view {
	v := view{doc: list, list: true, page: func(p *page) {
		if len(list) == 0 {
			p.line("No pools.")
			return
		}
		t := terminal.Table{Columns: terminal.Columns("POOL", ">PRICE/H", ">AGE", "HELD", ">FOR", "BY", "WHY")}
		for _, x := range list {
			row := []string{x.Pool.String(), "not quoted", ""}
			if x.Quoted {
				row = []string{x.Pool.String(), price(x.Price), ms(x.AgeMS)}
			}
			t.Row(append(row, heldCells(x.Held, now)...)...)
		}
		p.table(t)
	}}
	for _, x := range list {
		v.names = append(v.names, x.Pool.String())
	}
	return v
}

func poolHoldCommand(e *environment, v console.Verb) *cobra.Command {
	var w poolWanted
	cmd := &cobra.Command{Use: string(v) + " [POOL]", Args: args(0, 1)}
	switch v {
	case console.DoHold:
		cmd.Short, cmd.Long = "Buy nothing more from pools", "Nothing more is bought from the pools until they are released. What runs there goes on."
		cmd.Example = "  spotferry pool hold aws/us-east-1a/p3.2xlarge/spot --reason 'slow disks'\n  spotferry pool hold --seller aws --capacity spot --reason 'on demand only today'"
	default:
		cmd.Short = "Buy from pools again"
		cmd.Example = "  spotferry pool release aws/us-east-1a/p3.2xlarge/spot --reason 'new hosts'\n  spotferry pool release --seller aws --reason 'all of it'"
	}
	w.flags(cmd)
	return act(cmd, func(ctx context.Context, args []string, reason string) error {
		if len(args) == 1 {
			w.name = args[0]
		}
		return e.holdPools(ctx, v, w, reason)
	})
}

func (e *environment) holdPools(ctx context.Context, v console.Verb, w poolWanted, reason string) error {
	if w == (poolWanted{}) {
		return usagef("name a POOL as 'spotferry pool ls' shows it, or narrow them with --seller, --zone and so on", "no pool is named")
	}
	l, err := e.connect(ctx, false)
	if err != nil {
		return err
	}
	defer l.Close()
	list, err := ask[[]console.Pool](ctx, l, console.GetPools, nil)
	if err != nil {
		return err
	}
	r := console.HoldRequest{Reason: reason}
	for _, p := range list {
		// Only a hold of its own can be released.
		if w.fits(p.Pool) && (v == console.DoHold || p.Held != nil && p.Held.Pool != nil || w.name != "") {
			r.Pools = append(r.Pools, p.Pool)
		}
	}
	if p, whole := w.whole(); len(r.Pools) == 0 && whole {
		r.Pools = []events.Pool{p} // nobody quotes it at the moment
	}
	if len(r.Pools) == 0 {
		return &failure{exit: exitNotFound, What: fmt.Sprintf("no pool fits %s", w), Remedy: "'spotferry pool ls' lists those that are quoted or held; one that is not is named by all of --seller, --region, --zone, --type and --capacity"}
	}
	o, err := ask[console.Ops](ctx, l, v, r)
	if err != nil {
		return err
	}
	var lines []string
	for _, p := range r.Pools {
		lines = append(lines, fmt.Sprintf("Pool %s is %s.", p, heldOrNot(v)))
	}
	return e.showOps(o, lines...)
}

// poolWanted is what a name or the flags narrow pools to.
type poolWanted struct {
	name, seller, region, zone, kind, capacity string
}

func (w *poolWanted) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.seller, "seller", "", "only of this `SELLER`")
	f.StringVar(&w.region, "region", "", "only in this `REGION`")
	f.StringVar(&w.zone, "zone", "", "only in this `ZONE`")
	f.StringVar(&w.kind, "type", "", "only of this instance `TYPE`")
	f.StringVar(&w.capacity, "capacity", "", "only of this capacity `TYPE`: spot, bid, on-demand, owned")
}

func (w poolWanted) fits(p events.Pool) bool {
	for _, x := range [][2]string{
		{w.name, p.String()}, {w.seller, p.Seller}, {w.region, p.Region}, {w.zone, p.Zone}, {w.kind, p.InstanceType}, {w.capacity, string(p.Capacity)},
	} {
		if x[0] != "" && !strings.EqualFold(x[0], x[1]) {
			return false
		}
	}
	return true
}

// whole is the one pool that the flags name, if they name all of one.
func (w poolWanted) whole() (events.Pool, bool) {
	p := events.Pool{Seller: w.seller, Region: w.region, Zone: w.zone, InstanceType: w.kind, Capacity: events.CapacityType(w.capacity), Gang: 1}
	return p, w.name == "" && w.seller != "" && w.region != "" && w.zone != "" && w.kind != "" && w.capacity != ""
}

func (w poolWanted) String() string {
	var said []string
	for _, x := range [][2]string{{"", w.name}, {"--seller ", w.seller}, {"--region ", w.region}, {"--zone ", w.zone}, {"--type ", w.kind}, {"--capacity ", w.capacity}} {
		if x[1] != "" {
			said = append(said, fmt.Sprintf("%s%.80q", x[0], x[1]))
		}
	}
	return strings.Join(said, " ")
}
