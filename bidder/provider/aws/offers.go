package aws

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// What EC2 charges besides the machine, in the dearest common case; each is a
// size, and no invoice is made of it.
const (
	egressPerGB       events.MicroUSD = 90_000 // to the internet, after the first 100 GB
	storagePerGBMonth events.MicroUSD = 80_000 // gp3, whether or not the machine runs
	noticeS                           = 120
)

// terms are how EC2 bills.
func terms(c events.CapacityType) events.Terms {
	t := events.Terms{GrainS: 1, MinimumS: 60}
	if c == events.Spot {
		t.FreeIfReclaimedS, t.FollowsMarket = 3600, true
	}
	return t
}

// Offers implements provider.Provider. A region that does not answer is left out,
// unless none does.
func (c *Client) Offers(ctx context.Context) ([]events.Offer, error) {
	if ctx.Err() != nil {
		return nil, provider.HeldBack(ctx, provider.OpOffers)
	}
	found := make([][]events.Offer, len(c.regions))
	errs := c.everywhere(func(n int, r *region) error {
		var err error
		found[n], err = c.offersIn(ctx, r)
		return err
	})
	if err := c.settle(provider.OpOffers, errs); err != nil {
		return nil, classify(provider.OpOffers, err)
	}
	return slices.Concat(found...), nil
}

func (c *Client) offersIn(ctx context.Context, r *region) ([]events.Offer, error) {
	z, err := c.zoneMap(ctx, r)
	if err != nil {
		return nil, err
	}
	machines, err := c.hardwareOf(ctx, r)
	if err != nil {
		return nil, err
	}
	spot, err := c.spotIn(ctx, r, z, machines)
	if err != nil {
		return nil, err
	}
	listed, err := c.onDemandIn(ctx, r, z, machines)
	if err != nil {
		return nil, err
	}
	out := append(spot, listed...)
	slices.SortFunc(out, func(a, b events.Offer) int { return cmp.Compare(a.Pool.String(), b.Pool.String()) })
	return out, nil
}

// spotIn is what is sold on the spot: the newest price of each type and zone. One
// that cannot be read is not replaced by an older one.
func (c *Client) spotIn(ctx context.Context, r *region, z zones, machines map[string]hardware) ([]events.Offer, error) {
	if len(machines) == 0 {
		return nil, nil
	}
	now := c.cfg.Now()
	scores := c.scoresOf(ctx, r, machines)
	newest := map[place]row{}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(machines)), perCall) {
		rows, err := r.askPrices(ctx, z, some, now.Market)
		if err != nil {
			return nil, err
		}
		for _, got := range rows {
			if old, there := newest[got.place]; !there || got.at.After(old.at) {
				newest[got.place] = got
			}
		}
	}
	var out []events.Offer
	for p, got := range newest {
		price, ok := readable(got.text)
		h, sold := machines[p.instanceType]
		if !ok || !sold {
			c.log.Debug("price left out", zap.String("region", r.Name), zap.String("zone", p.zone),
				zap.String("instance_type", p.instanceType), zap.String("text", short(got.text)))
			continue
		}
		r.history.note(p, change{got.at, price})
		o := c.offer(r, p, events.Spot, h, now)
		o.Price, o.Market, o.Score = price, got.at, scores[p.zone]
		out = append(out, o)
	}
	return out, nil
}

// onDemandIn is what is sold at the catalogue's prices, in every zone that has the type.
func (c *Client) onDemandIn(ctx context.Context, r *region, z zones, machines map[string]hardware) ([]events.Offer, error) {
	if len(c.cfg.OnDemand) == 0 || len(machines) == 0 {
		return nil, nil
	}
	sold, err := r.sold.get(ctx, c.cfg.Now().Control, zonesHold, r.loadSold)
	if err != nil {
		return nil, err
	}
	var out []events.Offer
	for t, h := range machines {
		listed, ok := c.cfg.OnDemand[Listed{r.Name, t}]
		if !ok || listed.Price <= 0 {
			continue
		}
		for _, zone := range sold[t] {
			if z.nameOf[zone] == "" {
				continue
			}
			o := c.offer(r, place{t, zone}, events.OnDemand, h, c.cfg.Now())
			o.Price, o.Market = listed.Price, listed.Since
			if o.Market.IsZero() {
				o.Market = c.started
			}
			out = append(out, o)
		}
	}
	return out, nil
}

// loadSold asks in which zones each type can be had.
func (r *region) loadSold(ctx context.Context) (map[string][]string, error) {
	sold := map[string][]string{}
	err := pages(func(token *string) (*string, error) {
		out, err := r.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{
			LocationType: types.LocationTypeAvailabilityZoneId, NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, o := range out.InstanceTypeOfferings {
			t := string(o.InstanceType)
			if zone := aws.ToString(o.Location); !slices.Contains(sold[t], zone) {
				sold[t] = append(sold[t], zone)
			}
		}
		return out.NextToken, nil
	})
	return sold, err
}

func (c *Client) offer(r *region, p place, capacity events.CapacityType, h hardware, now events.Moment) events.Offer {
	o := events.Offer{
		Pool: c.pool(r, p, capacity), GPU: h.gpu, VCPU: h.vcpu, RAMMiB: h.ramMiB, DiskGB: c.cfg.DiskGB, Country: r.country(),
		Terms: terms(capacity), SpeedPct: 100, Egress: egressPerGB, Storage: storagePerGBMonth, StorageStopped: storagePerGBMonth,
		Seen: now.Control, TTLS: int64(c.cfg.OfferTTL / time.Second), Driver: c.cfg.Driver, CUDA: c.cfg.CUDA,
		Trust: events.TrustDataCentre, Isolation: events.Passthrough, NoticeKind: events.NoticeEC2, AfterReclaim: events.AfterGone,
	}
	switch {
	case h.metal:
		o.Isolation = events.BareMetal
	case !h.gpu.Whole():
		o.Isolation = events.VGPU
	}
	if capacity == events.Spot {
		o.NoticeS = noticeS
	}
	return o
}

func (c *Client) pool(r *region, p place, capacity events.CapacityType) events.Pool {
	return events.Pool{Seller: r.seller, Region: r.Name, Zone: p.zone, InstanceType: p.instanceType, Capacity: capacity, Gang: 1}
}
