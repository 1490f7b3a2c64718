package lambda

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gpu"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// listing is an instance type with the regions that have some.
type listing struct {
	Type    kind     `json:"instance_type"`
	Regions []region `json:"regions_with_capacity_available"`
}

type kind struct {
	Name  wire.Text   `json:"name"`
	Words wire.Text   `json:"description"`
	GPU   wire.Text   `json:"gpu_description"`
	Cents wire.Number `json:"price_cents_per_hour"`
	Specs struct {
		VCPUs   wire.Number `json:"vcpus"`
		Memory  wire.Number `json:"memory_gib"`
		Storage wire.Number `json:"storage_gib"`
		GPUs    wire.Number `json:"gpus"`
	} `json:"specs"`
}

type region struct {
	Name wire.Text `json:"name"`
}

// cent is a hundredth of a dollar an hour.
const cent = events.DollarPerHour / 100

// look asks what is sold, and remembers it.
func (c *Client) look(ctx context.Context) ([]events.Offer, error) {
	var types map[string]json.RawMessage
	if err := c.call(ctx, provider.OpOffers, http.MethodGet, "/instance-types", nil, &types); err != nil {
		return nil, err
	}
	now := c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	quotes := map[events.Pool]events.Offer{}
	useless := 0
	for name, raw := range types {
		var l listing
		if json.Unmarshal(raw, &l) != nil || !c.price(name, l, now, quotes) {
			useless++
		}
	}
	if useless > 0 {
		c.cfg.Log.Debug("instance types left out", zap.Int("left_out", useless), zap.Int("of", len(types)))
	}
	c.quotes = quotes
	out := make([]events.Offer, 0, len(quotes))
	for _, o := range quotes {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b events.Offer) int { return strings.Compare(a.Pool.String(), b.Pool.String()) })
	return out, nil
}

// price adds an instance type's offers to quotes. False: it has no price, name or GPU.
func (c *Client) price(name string, l listing, now events.Moment, quotes map[events.Pool]events.Offer) bool {
	price, ok := l.Type.Cents.Scaled(int64(cent))
	count := l.Type.Specs.GPUs.Int()
	if !ok || wire.Text(name).Name() == "" || l.Type.Name != "" && string(l.Type.Name) != name || count < 1 || count > mostGPUs {
		return false
	}
	g := gpuOf(l.Type.GPU.Name(), l.Type.Words.Name())
	g.Count = count
	for _, at := range l.Regions {
		where := at.Name.Name()
		if where == "" || len(c.cfg.Regions) > 0 && !slices.Contains(c.cfg.Regions, where) {
			continue
		}
		p := events.Pool{Seller: c.cfg.Seller, Region: where, Zone: where, InstanceType: name, Capacity: events.OnDemand, Gang: 1}
		o := events.Offer{
			Pool: p, GPU: g, VCPU: max(l.Type.Specs.VCPUs.Int(), 0), RAMMiB: max(l.Type.Specs.Memory.Int(), 0) << 10, DiskGB: max(l.Type.Specs.Storage.Int(), 0),
			Country: countryOf(where), Price: events.PerInstanceHour(price), Terms: c.cfg.Terms, SpeedPct: 100,
			Market: now.Market, Seen: now.Control, TTLS: int64(c.cfg.OfferTTL.Seconds()), InStock: new(true),
			Trust: events.TrustDataCentre, Isolation: events.Passthrough, NoticeKind: events.NoticeNone, AfterReclaim: events.AfterGone,
		}
		if before, ok := c.quotes[p]; ok && before.Price == o.Price {
			o.Market = before.Market
		}
		quotes[p] = o
	}
	return true
}

// mostGPUs is more than any machine has; above it is nonsense.
const mostGPUs = 64

// gpuOf reads "H100 (80 GB SXM5)". Without it, words say "8x H100 (80 GB SXM5)" or so.
func gpuOf(description, words string) events.GPU {
	if description == "" {
		_, after, ok := strings.Cut(words, "x ")
		if description = words; ok {
			description = after
		}
	}
	name, inner, _ := strings.Cut(description, "(")
	size, form, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(inner), ")"), "GB")
	memory := 0
	if ok {
		var n wire.Number
		if n.UnmarshalJSON([]byte(`"`+strings.TrimSpace(size)+`"`)) == nil {
			memory = max(n.Int(), 0) << 10
		}
	}
	return gpu.Identify(strings.TrimSpace(name), strings.TrimSpace(form), memory)
}

// countryOf says where a region is; "" if its name does not tell.
func countryOf(region string) string {
	for _, at := range []struct{ prefix, country string }{
		{"us-", "US"}, {"europe-central-1", "DE"}, {"europe-south-1", "IT"}, {"asia-northeast-", "JP"}, {"asia-south-1", "IN"},
		{"me-west-1", "IL"}, {"australia-", "AU"},
	} {
		if strings.HasPrefix(region, at.prefix) {
			return at.country
		}
	}
	return ""
}
