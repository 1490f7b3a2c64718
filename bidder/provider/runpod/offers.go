package runpod

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gpu"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// slot is one price that is asked for: so many GPUs in a data centre.
type slot struct {
	alias, place string
	count        int
}

func (c *Client) slots() []slot {
	var all []slot
	for _, d := range c.cfg.DataCentres {
		for _, n := range c.cfg.Counts {
			all = append(all, slot{"p" + strconv.Itoa(len(all)), d, n})
		}
	}
	return all
}

// query asks for every slot's price of every GPU type. What is put in has been
// checked to be names and numbers.
func query(slots []slot) string {
	var b strings.Builder
	b.WriteString("query { gpuTypes { id displayName memoryInGb secureCloud")
	for _, s := range slots {
		fmt.Fprintf(&b, " %s: lowestPrice(input: {gpuCount: %d, secureCloud: true, dataCenterId: %q}) { minimumBidPrice uninterruptablePrice stockStatus minVcpu minMemory }", s.alias, s.count, s.place)
	}
	b.WriteString(" } }")
	return b.String()
}

// lowest is the price of a slot, for one GPU of it. null is not to be had.
type lowest struct {
	Bid    wire.Number `json:"minimumBidPrice"`
	Fixed  wire.Number `json:"uninterruptablePrice"`
	Stock  wire.Text   `json:"stockStatus"`
	VCPU   wire.Number `json:"minVcpu"`
	Memory wire.Number `json:"minMemory"` // GB
}

// quote is an offer with what it is bought by.
type quote struct {
	events.Offer
	gpuID  string
	perGPU events.PerGPUHour
}

// look asks what is sold, and remembers it.
func (c *Client) look(ctx context.Context) ([]events.Offer, error) {
	var data struct {
		Types *[]map[string]json.RawMessage `json:"gpuTypes"`
	}
	slots := c.slots()
	if err := c.graph(ctx, provider.OpOffers, query(slots), nil, &data); err != nil {
		return nil, err
	}
	if data.Types == nil {
		return nil, wire.Garbled(provider.OpOffers, wire.Answer{Status: 200}, errNoData)
	}
	now := c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	quotes := map[events.Pool]quote{}
	for _, row := range *data.Types {
		for _, s := range slots {
			c.price(row, s, now, quotes)
		}
	}
	c.quotes = quotes
	out := make([]events.Offer, 0, len(quotes))
	for _, q := range quotes {
		out = append(out, q.Offer)
	}
	slices.SortFunc(out, func(a, b events.Offer) int { return strings.Compare(a.Pool.String(), b.Pool.String()) })
	c.cfg.Log.Debug("price list read", zap.Int("gpu_types", len(*data.Types)), zap.Int("offers", len(out)))
	return out, nil
}

// price adds to quotes what a slot of a GPU type is sold for.
func (c *Client) price(row map[string]json.RawMessage, s slot, now events.Moment, quotes map[events.Pool]quote) {
	var l lowest
	if raw, ok := row[s.alias]; !ok || json.Unmarshal(raw, &l) != nil {
		return
	}
	id, name := text(row["id"]), text(row["displayName"])
	if id == "" {
		return
	}
	g := gpuOf(id, name, row["memoryInGb"])
	g.Count = s.count
	for _, terms := range []events.CapacityType{events.OnDemand, events.Bid} {
		quoted := l.Fixed
		if terms == events.Bid {
			quoted = l.Bid
		}
		one, ok := quoted.Scaled(int64(events.DollarPerHour))
		if !ok || terms == events.Bid && !c.cfg.Spot {
			continue
		}
		o := c.offer(id, g, s, terms, l, now)
		o.Price, o.Quoted = events.PerGPUHour(one).PerInstance(s.count), quoted.String()
		if before, ok := c.quotes[o.Pool]; ok && before.Price == o.Price {
			o.Market = before.Market
		}
		quotes[o.Pool] = quote{o, id, events.PerGPUHour(one)}
	}
}

func (c *Client) offer(id string, g events.GPU, s slot, terms events.CapacityType, l lowest, now events.Moment) events.Offer {
	o := events.Offer{
		Pool: events.Pool{
			Seller: c.cfg.Seller, Region: s.place, Zone: s.place, Capacity: terms, Gang: 1,
			InstanceType: fmt.Sprintf("%dx-%s", s.count, strings.Join(strings.Fields(id), "_")),
		},
		GPU: g, VCPU: max(l.VCPU.Int(), 0), RAMMiB: max(l.Memory.Int(), 0) << 10, DiskGB: c.cfg.DiskGB, Country: countryOf(s.place),
		PerGPU: true, Terms: events.Terms{GrainS: 1}, SpeedPct: 100,
		Market: now.Market, Seen: now.Control, TTLS: int64(c.cfg.OfferTTL.Seconds()),
		Trust: events.TrustDataCentre, Isolation: events.Container, NoticeKind: events.NoticeNone, AfterReclaim: events.AfterGone,
		Storage: events.Dollar / 10, StorageStopped: events.Dollar / 5,
	}
	switch strings.ToLower(string(l.Stock)) {
	case "high":
		o.InStock, o.Score = new(true), 90
	case "medium":
		o.InStock, o.Score = new(true), 60
	case "low":
		o.InStock, o.Score = new(true), 30
	case "none":
		o.InStock = new(false)
	}
	if terms == events.Bid { // SIGTERM, and SIGKILL so soon that nothing is saved by it
		o.NoticeKind, o.NoticeS, o.AfterReclaim = events.NoticeSignal, 5, events.AfterStopped
	}
	return o
}

func text(b json.RawMessage) string {
	var t wire.Text
	if len(b) == 0 || t.UnmarshalJSON(b) != nil {
		return ""
	}
	return t.Name()
}

// gpuOf tells a GPU by the id of its type, else by the name that people see.
func gpuOf(id, name string, memory json.RawMessage) events.GPU {
	var gb wire.Number
	if len(memory) > 0 && gb.UnmarshalJSON(memory) != nil {
		gb = wire.Number{}
	}
	mib := max(gb.Int(), 0) << 10
	g := gpu.Identify(id, "", mib)
	if named := gpu.Identify(name, "", mib); !g.Known() && named.Known() {
		return named
	}
	return g
}

// countryOf reads the name of a data centre: EU-RO-1, US-TX-3, CA-MTL-1.
func countryOf(place string) string {
	parts := strings.Split(place, "-")
	switch {
	case parts[0] == "US" || parts[0] == "CA":
		return parts[0]
	case len(parts) == 3 && len(parts[1]) == 2 && strings.Trim(parts[1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "":
		return parts[1]
	}
	return ""
}
