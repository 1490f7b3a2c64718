package gcpfake

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/spotferry/spotferry/events"
)

// advise says how likely a zone is to have a machine: nine in ten if the seller
// behind says that it has one or does not say, one in ten if it says that it has none.
func (f *Fake) advise(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Size   int `json:"size"`
		Policy struct {
			Selections map[string]struct {
				MachineTypes []string      `json:"machineTypes"`
				Accelerators []accelerator `json:"guestAccelerators"`
			} `json:"instanceSelections"`
		} `json:"instanceFlexibilityPolicy"`
		Distribution struct {
			Zones []struct {
				Zone string `json:"zone"`
			} `json:"zones"`
		} `json:"distributionPolicy"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil || json.Unmarshal(body, &asked) != nil || asked.Size < 1 || len(asked.Policy.Selections) == 0 {
		refuse(w, 400, "invalid", "Invalid value for field 'resource'")
		return
	}
	all, ok := f.offers(w, r)
	if !ok {
		return
	}
	recommendations := []any{}
	for _, s := range asked.Policy.Selections {
		for _, name := range s.MachineTypes {
			for _, z := range asked.Distribution.Zones {
				wanted := instance{MachineType: name, Accelerators: s.Accelerators}.offered()
				if score := chance(all, base(z.Zone), wanted); score > 0 {
					recommendations = append(recommendations, map[string]any{
						"scores": map[string]any{"obtainability": score, "estimatedUptime": "3600s"},
						"shards": []any{map[string]any{"zone": z.Zone, "machineType": name, "instanceCount": asked.Size, "provisioningModel": "SPOT"}},
					})
				}
			}
		}
	}
	reply(w, map[string]any{"recommendations": recommendations})
}

func chance(all []events.Offer, zone, instanceType string) float64 {
	for _, o := range all {
		if o.Pool.Zone == zone && o.Pool.InstanceType == instanceType && o.Pool.Capacity == events.Spot {
			if o.Available() {
				return 0.9
			}
			return 0.1
		}
	}
	return 0
}
