package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

type offersQuery struct {
	gpu, region string
	watch       bool
	every       time.Duration
}

func offersCommand(e *environment) *cobra.Command {
	var q offersQuery
	cmd := &cobra.Command{
		Use: "offers", Short: "What can be bought now, cheapest first", Args: args(0, 0),
		Example: "  spotferry offers\n  spotferry offers --gpu V100 --region us-east-1\n  spotferry offers --watch",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.offers(cmd.Context(), q)
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.gpu, "gpu", "", "only this `MODEL`, such as H100")
	f.StringVar(&q.region, "region", "", "only this `REGION`")
	f.BoolVarP(&q.watch, "watch", "w", false, "go on, and show changes")
	f.DurationVar(&q.every, "every", 2*time.Second, "with --watch, `TIME` between looks")
	return cmd
}

func (e *environment) offers(ctx context.Context, q offersQuery) error {
	l, err := e.connect(ctx, false)
	if err != nil {
		return err
	}
	defer l.Close()
	shown := ""
	for {
		list, err := ask[[]console.Offer](ctx, l, console.GetOffers, nil)
		if err != nil {
			return err
		}
		list = q.of(list)
		if now := fingerprint(list); !q.watch || now != shown || e.term.OutTTY {
			shown = now
			if q.watch && !e.format.forProgram() {
				e.term.Clear()
				e.term.Print(e.page().stamp(e.now()))
			}
			if err := e.showOffers(list, q.watch); err != nil {
				return err
			}
		}
		if !q.watch {
			return nil
		}
		if err := pause(ctx, max(q.every, 100*time.Millisecond)); err != nil {
			return &failure{exit: exitInterrupted}
		}
	}
}

// of is what the query asks for, cheapest first.
func (q offersQuery) of(list []console.Offer) []console.Offer {
	list = slices.DeleteFunc(slices.Clone(list), func(o console.Offer) bool {
		return (q.gpu != "" && !strings.EqualFold(o.GPU.Model, q.gpu)) || (q.region != "" && !strings.EqualFold(o.Pool.Region, q.region))
	})
	slices.SortStableFunc(list, func(a, b console.Offer) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), strings.Compare(a.Pool.String(), b.Pool.String()))
	})
	return list
}

// fingerprint changes with prices and stock, not with ages.
func fingerprint(list []console.Offer) string {
	var b strings.Builder
	for _, o := range list {
		fmt.Fprintln(&b, o.Pool, o.Price, o.Available())
	}
	return b.String()
}

// showOffers prints a list; one of several stands on a line of its own for programs.
func (e *environment) showOffers(list []console.Offer, several bool) error {
	v := offersView(list)
	if !several || e.format != formatJSON {
		return e.show(v)
	}
	doc, err := document(v.doc, v.list)
	if err != nil {
		return err
	}
	return terminal.JSONLine(e.term.Out, doc)
}

func offersView(list []console.Offer) view {
	v := view{doc: list, list: true, page: func(p *page) {
		if len(list) == 0 {
			p.line("Nothing on offer.")
			return
		}
		names := []string{"SELLER", "ZONE", "INSTANCE", "GPUS", "TYPE", ">PRICE/H", ">RECLAIMS/H", ">AGE", "STOCK"}
		if p.wide {
			names = append(names, "REGION", "COUNTRY", ">VCPU", ">RAM GIB", ">DISK GB", ">NOTICE", ">GRAIN", ">MINIMUM", "SINCE (MARKET)")
		}
		t := terminal.Table{Columns: terminal.Columns(names...)}
		for _, o := range list {
			row := []string{
				o.Pool.Seller, o.Pool.Zone, o.Pool.InstanceType, gpus(o.GPU), string(o.Pool.Capacity),
				price(o.Price), rate(o.Hazard, o.Pool.Capacity), ms(o.AgeMS), stock(o),
			}
			if p.wide {
				row = append(row, o.Pool.Region, o.Country, fmt.Sprint(o.VCPU), fmt.Sprint(o.RAMMiB/1024), fmt.Sprint(o.DiskGB),
					secs(o.NoticeS), secs(o.Terms.GrainS), secs(o.Terms.MinimumS), p.stamp(o.Market))
			}
			t.Row(row...)
		}
		p.table(t)
	}}
	for _, o := range list {
		v.names = append(v.names, o.Pool.String())
	}
	return v
}

func stock(o console.Offer) string {
	switch {
	case o.InStock == nil:
		return "not told"
	case *o.InStock:
		return "yes"
	}
	return "none"
}
