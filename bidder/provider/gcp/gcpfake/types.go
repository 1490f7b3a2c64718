package gcpfake

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

var nameFilter = regexp.MustCompile(`^name eq "(.+)"$`)

// gpus is which GPU a machine type has, by how the type's name begins.
var gpus = []struct{ prefix, kind, price string }{
	{"a2-ultragpu-", "nvidia-a100-80gb", "Nvidia Tesla A100 80GB"},
	{"a2-", "nvidia-tesla-a100", "Nvidia Tesla A100"},
	{"a3-megagpu-", "nvidia-h100-mega-80gb", "Nvidia H100 80GB Plus"},
	{"a3-ultragpu-", "nvidia-h200-141gb", "Nvidia H200 141GB"},
	{"a3-", "nvidia-h100-80gb", "Nvidia H100 80GB"},
	{"a4-", "nvidia-b200", "A4 Nvidia B200"},
	{"g2-", "nvidia-l4", "Nvidia L4"},
}

// attached are the GPUs that are added to a type, by their short name.
var attached = map[string]struct{ kind, price string }{
	"t4":   {"nvidia-tesla-t4", "Nvidia Tesla T4"},
	"v100": {"nvidia-tesla-v100", "Nvidia Tesla V100"},
}

// short is "t4" for nvidia-tesla-t4.
func short(kind string) string { return kind[strings.LastIndexByte(kind, '-')+1:] }

// split is an offered type as Google knows it: the machine type, the GPU, what the
// GPU is called in prices, and whether it is an addition.
func split(offered string) (machine, kind, price string, added bool) {
	machine, more, added := strings.Cut(offered, "+")
	if added {
		_, name, _ := strings.Cut(more, "x")
		return machine, attached[name].kind, attached[name].price, true
	}
	for _, g := range gpus {
		if strings.HasPrefix(machine, g.prefix) {
			return machine, g.kind, g.price, false
		}
	}
	return machine, "", "", false
}

// offers are those of the seller behind. It answers for the caller if there are none.
func (f *Fake) offers(w http.ResponseWriter, r *http.Request) ([]events.Offer, bool) {
	all, err := f.backend.Offers(r.Context())
	if err != nil {
		fail(w, provider.OpOffers, "offers", err)
		return nil, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range all {
		f.zones[o.Pool.Zone] = true
	}
	return all, true
}

func (f *Fake) listMachineTypes(w http.ResponseWriter, r *http.Request) {
	match, ok := matching(w, r, nameFilter)
	if !ok {
		return
	}
	all, ok := f.offers(w, r)
	if !ok {
		return
	}
	var rows []row
	seen := map[string]bool{}
	for _, o := range all {
		machine, kind, _, added := split(o.Pool.InstanceType)
		key := o.Pool.Zone + "/" + machine
		if seen[key] || !match(machine) && !f.cfg.Unheeded {
			continue
		}
		seen[key] = true
		item := map[string]any{"kind": "compute#machineType", "name": machine, "zone": o.Pool.Zone, "guestCpus": o.VCPU, "memoryMb": o.RAMMiB}
		if !added && kind != "" {
			item["accelerators"] = []any{map[string]any{"guestAcceleratorType": kind, "guestAcceleratorCount": o.GPU.Count}}
		}
		rows = append(rows, row{o.Pool.Zone, machine, item})
	}
	f.aggregate(w, r, "machineTypes", sorted(rows), true)
}

func (f *Fake) listAcceleratorTypes(w http.ResponseWriter, r *http.Request) {
	match, ok := matching(w, r, nameFilter)
	if !ok {
		return
	}
	all, ok := f.offers(w, r)
	if !ok {
		return
	}
	var rows []row
	seen := map[string]bool{}
	for _, o := range all {
		_, kind, _, added := split(o.Pool.InstanceType)
		key := o.Pool.Zone + "/" + kind
		if !added || seen[key] || !match(kind) && !f.cfg.Unheeded {
			continue
		}
		seen[key] = true
		rows = append(rows, row{o.Pool.Zone, kind, map[string]any{"kind": "compute#acceleratorType", "name": kind, "zone": o.Pool.Zone}})
	}
	f.aggregate(w, r, "acceleratorTypes", sorted(rows), true)
}
