package vastfake

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// search answers with the backend's offers that match, each under a new id.
func (f *Fake) search(w http.ResponseWriter, r *http.Request) {
	var q map[string]json.RawMessage
	if !decode(w, r, &q) {
		return
	}
	var terms string
	limit := 64
	_ = json.Unmarshal(q["type"], &terms) // what is missing has its default
	_ = json.Unmarshal(q["limit"], &limit)
	offers, err := f.cfg.Backend.Offers(r.Context())
	if err != nil {
		refuse(w, err, 0)
		return
	}
	rows := []map[string]any{}
	for _, o := range offers {
		if o.Pool.Capacity.Reclaimable() != (terms == "bid") || o.Price <= 0 || !o.Available() {
			continue
		}
		row := f.row(o, terms == "bid")
		if matches(row, q) && len(rows) < limit {
			rows = append(rows, row)
		}
	}
	tell(w, http.StatusOK, map[string]any{"offers": rows})
}

// row is an offer as Vast.ai tells it.
func (f *Fake) row(o events.Offer, bid bool) map[string]any {
	id := f.offered(o, bid)
	base, least := o.Price, o.Price/2
	if bid { // the machine costs more without the auction
		base, least = 2*o.Price, o.Price
	}
	var place any
	if o.Country != "" {
		place = o.Pool.Region + ", " + o.Country
	}
	return map[string]any{
		"id": id, "ask_contract_id": id, "machine_id": machineOf(o.Pool), "host_id": 1, "rentable": true, "rented": false,
		"verified": true, "verification": "verified", "datacenter": o.Trust == events.TrustDataCentre,
		"num_gpus": o.GPU.Count, "gpu_name": nameOf(o.GPU), "gpu_ram": o.GPU.MemoryMiB, "gpu_frac": 0.5,
		"cpu_cores": 2 * o.VCPU, "cpu_cores_effective": o.VCPU, "cpu_ram": 2 * o.RAMMiB, "disk_space": float64(o.DiskGB) + 0.7,
		"dph_base": json.Number(base.String()), "dph_total": json.Number(base.String()), "min_bid": json.Number(least.String()),
		"storage_cost": 0.15, "inet_up_cost": json.Number(o.Egress.String()), "inet_down_cost": json.Number(o.Ingress.String()),
		"inet_up": 800.5, "inet_down": 900, "reliability2": 0.9964528, "geolocation": place, "duration": 3149474.3556768894,
		"cuda_max_good": 12.8, "driver_version": "570.124.04", "compute_cap": 10 * o.GPU.Capability, "bw_nvlink": 0, "cpu_arch": "amd64",
	}
}

// offered is the id under which an offer can be bought: the same as long as it lives.
func (f *Fake) offered(o events.Offer, bid bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.ids[o.Pool]
	now := f.cfg.Now().Control
	if a, lives := f.asks[id]; !lives || now.After(a.expires) {
		f.lastID++
		id = f.lastID
		f.ids[o.Pool] = id
	}
	f.asks[id] = ask{o.Pool, o.Price, bid, now.Add(f.cfg.AskTTL)}
	return id
}

// machineOf is the number of the machine that a pool is on: one for all its terms.
func machineOf(p events.Pool) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.Region + "\x00" + p.Zone + "\x00" + p.InstanceType)) // a hash does not fail
	return int(h.Sum32()>>4) + 1
}

// nameOf is a GPU as Vast.ai calls it.
func nameOf(g events.GPU) string {
	name, _, _ := strings.Cut(g.Model, "-")
	if rest, ok := strings.CutPrefix(name, "RTX"); ok {
		return "RTX " + rest
	}
	switch {
	case name == "A100" && g.Form == "SXM":
		return "A100 SXM4"
	case name == "V100" || name == "T4" || name == "P100":
		return "Tesla " + name
	case g.Form != "":
		return name + " " + g.Form
	}
	return name
}

// matches says whether a row fulfils every condition of a query. What is no
// condition (order, limit, type) binds nothing.
func matches(row map[string]any, q map[string]json.RawMessage) bool {
	for _, field := range slices.Sorted(maps.Keys(q)) {
		var ops map[string]any
		have, there := row[field]
		if !there || json.Unmarshal(q[field], &ops) != nil {
			continue
		}
		for op, want := range ops {
			if !holds(op, have, want) {
				return false
			}
		}
	}
	return true
}

func holds(op string, have, want any) bool {
	a, b := plain(have), plain(want)
	x, numeric := a.(float64)
	y, also := b.(float64)
	switch op {
	case "eq":
		return a == b
	case "neq":
		return a != b
	case "gt":
		return numeric && also && x > y
	case "gte":
		return numeric && also && x >= y
	case "lt":
		return numeric && also && x < y
	case "lte":
		return numeric && also && x <= y
	}
	return false
}

// plain is a value as JSON would give it back.
func plain(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(b, &out) != nil {
		return nil
	}
	return out
}
