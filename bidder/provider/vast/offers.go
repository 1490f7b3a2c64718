package vast

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider/gpu"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// row is an offer as a search tells it. Prices are dollars an hour for the slice.
type row struct {
	ID           wire.Number `json:"id"`
	Machine      wire.Number `json:"machine_id"`
	GPUs         wire.Number `json:"num_gpus"`
	GPUName      wire.Text   `json:"gpu_name"`
	GPURAM       wire.Number `json:"gpu_ram"` // MiB each
	GPUFrac      wire.Number `json:"gpu_frac"`
	Cores        wire.Number `json:"cpu_cores"` // of the whole host
	CoresHere    wire.Number `json:"cpu_cores_effective"`
	RAM          wire.Number `json:"cpu_ram"` // MiB of the whole host
	Disk         wire.Number `json:"disk_space"`
	Base         wire.Number `json:"dph_base"`
	MinBid       wire.Number `json:"min_bid"`
	Storage      wire.Number `json:"storage_cost"` // dollars a GB-month of 720 hours
	UpCost       wire.Number `json:"inet_up_cost"`
	DownCost     wire.Number `json:"inet_down_cost"`
	Up           wire.Number `json:"inet_up"`
	Down         wire.Number `json:"inet_down"`
	Reliability  wire.Number `json:"reliability2"`
	Verification wire.Text   `json:"verification"`
	Place        wire.Text   `json:"geolocation"`
	Duration     wire.Number `json:"duration"`
	CUDA         wire.Number `json:"cuda_max_good"`
	Driver       wire.Text   `json:"driver_version"`
	Capability   wire.Number `json:"compute_cap"` // times 100
	NVLink       wire.Number `json:"bw_nvlink"`
	Rentable     *bool       `json:"rentable"`
}

// query is what is searched for.
func (c *Client) query(terms events.CapacityType, more map[string]any) map[string]any {
	q := map[string]any{
		"rentable": map[string]any{"eq": true}, "rented": map[string]any{"eq": false},
		"order": [][]string{{"dph_total", "asc"}}, "limit": c.cfg.Limit, "allocated_storage": c.cfg.DiskGB,
		"type": "on-demand",
	}
	if terms == events.Bid {
		q["type"] = "bid"
	}
	if !c.cfg.Unverified {
		q["verified"] = map[string]any{"eq": true}
	}
	if c.cfg.DataCentre {
		q["datacenter"] = map[string]any{"eq": true}
	}
	for k, v := range more {
		q[k] = map[string]any{"eq": v}
	}
	return q
}

// search adds to found what is sold on these terms.
func (c *Client) search(ctx context.Context, op string, terms events.CapacityType, more map[string]any, found map[events.Pool]quote) error {
	var answer struct {
		Offers *[]json.RawMessage `json:"offers"`
	}
	err := c.ask(ctx, op, c.pace.search, wire.Question{Method: http.MethodPost, Path: "/api/v0/bundles/", Body: c.query(terms, more), Most: wire.MostOffers}, &answer)
	if err != nil {
		return err
	}
	if answer.Offers == nil {
		return wire.Garbled(op, wire.Answer{Status: http.StatusOK}, fmt.Errorf("no offers in the answer"))
	}
	now := c.cfg.Now()
	useless := 0
	for _, raw := range *answer.Offers {
		var r row
		if json.Unmarshal(raw, &r) != nil {
			useless++
			continue
		}
		o, why := c.offer(r, terms, now)
		if why != "" {
			useless++
			continue
		}
		found[o.Pool] = found[o.Pool].or(quote{o, r.ID.ID()})
	}
	if useless > 0 {
		c.cfg.Log.Debug("offers left out", zap.Int("left_out", useless), zap.Int("of", len(*answer.Offers)), zap.String("terms", string(terms)))
	}
	return nil
}

// offer is a row in our terms, or why it is none.
func (c *Client) offer(r row, terms events.CapacityType, now events.Moment) (events.Offer, string) {
	count := r.GPUs.Int()
	price, priced := r.Base.Scaled(int64(events.DollarPerHour))
	if terms == events.Bid {
		price, priced = r.MinBid.Scaled(int64(events.DollarPerHour))
	}
	switch {
	case r.ID.ID() == "" || r.Machine.ID() == "":
		return events.Offer{}, "no id"
	case r.Rentable != nil && !*r.Rentable:
		return events.Offer{}, "not for rent"
	case r.GPUName.Name() == "" || count < 1 || count > mostGPUs:
		return events.Offer{}, "no GPU"
	case !priced:
		return events.Offer{}, "no price"
	case r.Disk.Int() < c.cfg.DiskGB:
		return events.Offer{}, "too small a disk"
	}
	region, country := place(r.Place.Name())
	machine := "m" + r.Machine.ID()
	o := events.Offer{
		Pool: events.Pool{
			Seller: c.cfg.Seller, Region: region, Zone: machine, Capacity: terms, Gang: 1,
			InstanceType: fmt.Sprintf("%dx-%s", count, strings.Join(strings.Fields(string(r.GPUName)), "_")),
		},
		GPU: r.gpu(count), VCPU: max(r.CoresHere.Int(), 0), RAMMiB: r.ram(), DiskGB: c.cfg.DiskGB,
		Country: country, Price: events.PerInstanceHour(price), Terms: events.Terms{GrainS: 1}, SpeedPct: 100,
		Market: now.Market, Seen: now.Control, TTLS: int64(c.cfg.OfferTTL.Seconds()), InStock: new(true),
		Machine: machine, Trust: events.TrustCommunity, Isolation: events.Container,
		Driver: r.Driver.Name(), CUDA: r.cuda(), UpMbps: max(r.Up.Int(), 0), DownMbps: max(r.Down.Int(), 0),
		NoticeKind: events.NoticeNone, AfterReclaim: events.AfterStopped,
		MaxLifetimeS: lifetime(r.Duration), Reliability: percent(r.Reliability),
	}
	if terms == events.Bid {
		o.AfterReclaim = events.AfterPaused
	}
	if c.cfg.DataCentre && strings.EqualFold(string(r.Verification), "verified") {
		o.Trust = events.TrustDataCentre
	}
	o.Egress, o.Ingress = micro(r.UpCost), micro(r.DownCost)
	o.Storage = micro(r.Storage) * 730 / 720
	return o, ""
}

// mostGPUs is more than any machine has; above it is nonsense.
const mostGPUs = 64

func micro(n wire.Number) events.MicroUSD {
	v, _ := n.Scaled(int64(events.Dollar))
	return events.MicroUSD(v)
}

func (r row) gpu(count int) events.GPU {
	g := gpu.Identify(string(r.GPUName), "", max(r.GPURAM.Int(), 0))
	g.Count = count
	if v := r.Capability.Int() / 10; v > 0 && v < 1000 {
		g.Capability = v
	}
	if bw, ok := r.NVLink.Float(); ok && count > 1 {
		g.Interconnect = "none"
		if bw > 0 {
			g.Interconnect = "nvlink"
		}
	}
	return g
}

// ram is the slice's part of the host's memory: as its part of the cores, or of the GPUs.
func (r row) ram() int {
	whole, _ := r.RAM.Float()
	part, ok := r.CoresHere.Float()
	if all, known := r.Cores.Float(); ok && known && all > 0 {
		part /= all
	} else if part, ok = r.GPUFrac.Float(); !ok {
		part = 1
	}
	mib := whole * min(max(part, 0), 1)
	if mib < 0 || mib > 1e9 {
		return 0
	}
	return int(mib)
}

func (r row) cuda() string {
	v, ok := r.CUDA.Float()
	if !ok || v <= 0 || v > 1000 {
		return ""
	}
	return fmt.Sprintf("%.1f", v)
}

// lifetime is how long the host stays, rounded down to whole hours so that an offer
// does not change every second; 0 if it does not say.
func lifetime(n wire.Number) int64 {
	s, ok := n.Float()
	if !ok || s <= 0 || s > 1e10 {
		return 0
	}
	if s >= 3600 {
		return int64(s) / 3600 * 3600
	}
	return max(int64(s)/60*60, 1)
}

func percent(n wire.Number) int {
	v, ok := n.Float()
	if !ok || v < 0 || v > 1 {
		return 0
	}
	return int(math.Floor(v*100 + 1e-9))
}

// nowhere is the region of a machine whose host does not say where it is.
const nowhere = "unknown"

// place reads "Region, CC": the region may be missing, a continent may follow, all of it may be null.
func place(s string) (region, country string) {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if len(parts) < 2 || !isCountry(parts[1]) {
		return nowhere, ""
	}
	country = parts[1]
	region = events.Token(country)
	if parts[0] != "" {
		region = events.Token(country + "-" + parts[0])
	}
	return region, country
}

func isCountry(s string) bool {
	return len(s) == 2 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// offers are those of the quotes, in a fixed order.
func offers(found map[events.Pool]quote) []events.Offer {
	out := make([]events.Offer, 0, len(found))
	for _, q := range found {
		out = append(out, q.Offer)
	}
	slices.SortFunc(out, func(a, b events.Offer) int { return strings.Compare(a.Pool.String(), b.Pool.String()) })
	return out
}
