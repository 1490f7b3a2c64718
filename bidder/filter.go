package bidder

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Why a candidate is not eligible; the words before a colon are a closed list,
// counted in records and shown by plan.
const (
	whyPrice    = "no valid price"
	whyMode     = "capacity type not wanted"
	whyGang     = "another gang size"
	whyGPU      = "another GPU"
	whySize     = "too small"
	whyType     = "another instance type"
	whyPlace    = "another place"
	whyCountry  = "country not allowed"
	whyTrust    = "machine not trusted"
	whyPart     = "part of a GPU"
	whyContract = "contract ended"
	whyMaxPrice = "above the price limit"
	whyDearSpot = "dearer than on-demand"
	whyHeld     = "held"
	whyStale    = "stale"
	whyStock    = "not in stock"
	whyCooling  = "cooling down"
	whyAvoid    = "just failed this job"
	whySpeed    = "speed unknown"
	whySlow     = "too slow for the deadline"
	whyLife     = "reclaimed before a restart pays"
	whyBudget   = "beyond the budget"
)

// why joins a word of the list with the figures.
func why(word, format string, args ...any) string { return word + ": " + fmt.Sprintf(format, args...) }

// unfit says why an offer can never serve the job, whatever the time and the money; "" if it can.
func unfit(spec events.JobSpec, o events.Offer) string {
	r, p := spec.Resources, o.Pool
	switch {
	case o.Price <= 0:
		return why(whyPrice, "%s", o.Price)
	case spec.Policy.Spot.Mode == events.SpotOnly && !p.Capacity.Reclaimable() && p.Capacity != events.Owned,
		spec.Policy.Spot.Mode == events.OnDemandOnly && p.Capacity.Reclaimable():
		return why(whyMode, "%s", p.Capacity)
	case p.Gang > 1:
		return why(whyGang, "%d", p.Gang)
	case !o.GPU.Known():
		return why(whyGPU, "%q is in no table", o.GPU.Model)
	case !o.GPU.Whole():
		return why(whyPart, "%d %% %s", o.GPU.FractionPct, o.GPU.Slice)
	case len(r.Accelerators) > 0 && !slices.Contains(r.Accelerators, events.Accelerator{Model: o.GPU.Model, Count: o.GPU.Count}):
		return why(whyGPU, "%s x %d", o.GPU.Model, o.GPU.Count)
	case o.VCPU < r.VCPU:
		return why(whySize, "%d vCPU, need %d", o.VCPU, r.VCPU)
	case o.RAMMiB < r.RAMMiB:
		return why(whySize, "%d MiB of memory, need %d", o.RAMMiB, r.RAMMiB)
	case o.DiskGB < r.DiskGB:
		return why(whySize, "%d GB of disk, need %d", o.DiskGB, r.DiskGB)
	case r.InstanceType != "" && p.InstanceType != r.InstanceType:
		return why(whyType, "%s", p.InstanceType)
	case len(r.Places) > 0 && !slices.ContainsFunc(r.Places, func(at events.Place) bool { return covers(at, p) }):
		return why(whyPlace, "%s/%s", p.Seller, p.Zone)
	case !slices.Contains(spec.Policy.Countries, events.AnyCountry) && (o.Country == "" || len(spec.Policy.Countries) > 0 && !slices.Contains(spec.Policy.Countries, o.Country)):
		return why(whyCountry, "%q", o.Country)
	case !trusted(spec.Policy.Trust, o.Trust):
		return why(whyTrust, "it is of the %s", o.Trust)
	}
	if limit := r.MaxHourlyPrice; limit > 0 && o.Price > limit {
		return why(whyMaxPrice, "%s, limit %s", o.Price, limit)
	}
	return ""
}

// trusted says whether a job may run on somebody's machine. One that says nothing
// of it runs on its own organisation's and on data centres'.
func trusted(allowed []events.Trust, whose events.Trust) bool {
	whose = cmp.Or(whose, events.TrustDataCentre)
	if len(allowed) == 0 {
		return whose == events.TrustOwn || whose == events.TrustDataCentre
	}
	return slices.Contains(allowed, whose)
}

func covers(at events.Place, p events.Pool) bool {
	return (at.Seller == "" || at.Seller == p.Seller) && (at.Region == "" || at.Region == p.Region) && (at.Zone == "" || at.Zone == p.Zone)
}

// unavailable says why a fitting offer cannot be bought at this moment; "" if it can.
func unavailable(now time.Time, in events.Inputs, o events.Offer, onDemand events.PerInstanceHour) string {
	if h := heldBy(in.Holds, o.Pool); h != nil {
		return why(whyHeld, "%s (by %s)", h.Reason, h.By)
	}
	switch {
	case o.Pool.Capacity.Reclaimable() && onDemand > 0 && o.Price > onDemand:
		return why(whyDearSpot, "%s, on-demand %s", o.Price, onDemand)
	case !o.Fresh(now):
		return why(whyStale, "seen %s ago, good for %ds", now.Sub(o.Seen).Round(time.Second), o.TTLS)
	case o.Seen.After(now.Add(time.Minute)):
		return why(whyStale, "seen %s from now", o.Seen.Sub(now).Round(time.Second))
	case !o.Available():
		return whyStock
	case !o.Until.IsZero() && !now.Before(o.Until):
		return why(whyContract, "on %s", o.Until.UTC().Format(time.DateOnly))
	}
	for _, c := range in.CoolDowns {
		if c.Pool == o.Pool && now.Before(c.Until) {
			return why(whyCooling, "%s, until %s", c.Why, c.Until.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// heldBy returns the hold of a pool or of its seller, or nil.
func heldBy(holds []events.OpsHeld, p events.Pool) *events.OpsHeld {
	i := slices.IndexFunc(holds, func(h events.OpsHeld) bool {
		return h.Seller == p.Seller && (h.Pool == nil || *h.Pool == p)
	})
	if i < 0 {
		return nil
	}
	return &holds[i]
}

// priceCap is the most that is agreed to for an offer: the launch is refused above
// it, a running spot machine is lost above it, and money is reserved at it. A
// moving price may rise to that of on-demand, since a lower cap only adds
// reclaims; a fixed one may have moved by a twentieth since it was quoted.
func priceCap(spec events.JobSpec, o events.Offer, onDemand events.PerInstanceHour) events.PerInstanceHour {
	most := o.Price + o.Price/20
	if o.Terms.FollowsMarket {
		most = 2 * o.Price
		if onDemand > 0 {
			most = onDemand
		}
	}
	if o.Pool.Capacity.Reclaimable() && onDemand > 0 {
		most = min(most, onDemand)
	}
	if limit := spec.Resources.MaxHourlyPrice; limit > 0 {
		most = min(most, limit)
	}
	return max(most, o.Price)
}
