package lambdafake

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// kind is an instance type: what the backend sells of it, and where.
type kind struct {
	name  string
	offer events.Offer
	pools map[string]events.Pool // by region
	order []string
}

// kinds are the backend's offers as instance types. A type has one price everywhere,
// so offers of another price are another type.
func (f *Fake) kinds(ctx context.Context) ([]*kind, error) {
	offers, err := f.cfg.Backend.Offers(ctx)
	if err != nil {
		return nil, err
	}
	var all []*kind
	byName := map[string]*kind{}
	for _, o := range offers {
		if o.Pool.Capacity.Reclaimable() || o.Price <= 0 {
			continue
		}
		name := fmt.Sprintf("gpu_%dx_%s", o.GPU.Count, strings.ReplaceAll(events.Token(o.Pool.InstanceType), "-", "_"))
		for byName[name] != nil && (byName[name].offer.Price != o.Price || byName[name].pools[o.Pool.Zone] != events.Pool{}) {
			name += "_b"
		}
		k := byName[name]
		if k == nil {
			k = &kind{name: name, offer: o, pools: map[string]events.Pool{}}
			byName[name] = k
			all = append(all, k)
		}
		if o.Available() {
			k.pools[o.Pool.Zone] = o.Pool
			k.order = append(k.order, o.Pool.Zone)
		}
	}
	return all, nil
}

func (f *Fake) types(w http.ResponseWriter, r *http.Request) {
	all, err := f.kinds(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	data := map[string]any{}
	for _, k := range all {
		regions := []map[string]any{}
		for _, where := range k.order {
			regions = append(regions, map[string]any{"name": where, "description": where})
		}
		data[k.name] = map[string]any{"instance_type": k.row(), "regions_with_capacity_available": regions}
	}
	give(w, data)
}

func (k *kind) row() map[string]any {
	o := k.offer
	description := fmt.Sprintf("%s (%d GB %s)", strings.TrimSuffix(o.GPU.Model, "-80GB"), (o.GPU.MemoryMiB+512)>>10, o.GPU.Form)
	return map[string]any{
		"name": k.name, "description": fmt.Sprintf("%dx %s", o.GPU.Count, description), "gpu_description": description,
		"price_cents_per_hour": cents(o.Price),
		"specs":                map[string]any{"vcpus": o.VCPU, "memory_gib": o.RAMMiB >> 10, "storage_gib": o.DiskGB, "gpus": o.GPU.Count},
	}
}

// cents is a price as Lambda tells it: whole cents, if the backend's is of whole ones.
func cents(p events.PerInstanceHour) json.Number {
	const cent = int64(events.DollarPerHour / 100)
	if whole := int64(p) / cent; whole*cent == int64(p) {
		return json.Number(strconv.FormatInt(whole, 10))
	}
	return json.Number(fmt.Sprintf("%d.%07d", int64(p)/cent, int64(p)%cent))
}
