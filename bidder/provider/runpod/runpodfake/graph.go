package runpodfake

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// asked finds the prices that a query asks for, with the names it gives them.
func asked(query string) [][]string {
	return regexp.MustCompile(`(\w+)\s*:\s*lowestPrice\(input:\s*\{\s*gpuCount:\s*(\d+),\s*secureCloud:\s*true,\s*dataCenterId:\s*"([^"]*)"\s*\}\)`).FindAllStringSubmatch(query, -1)
}

// graph answers a GraphQL request: the price list, or an interruptible pod.
func (f *Fake) graph(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Query     string `json:"query"`
		Variables struct {
			Input rental `json:"input"`
		} `json:"variables"`
	}
	if !decode(w, r, &q) {
		return
	}
	switch {
	case strings.Contains(q.Query, "podRentInterruptable"):
		f.rent(w, r, q.Variables.Input)
	case strings.Contains(q.Query, "gpuTypes"):
		f.types(w, r, asked(q.Query))
	default:
		fail(w, "GRAPHQL_VALIDATION_FAILED", "Cannot query field.")
	}
}

// fail answers an error as GraphQL does: with status 200.
func fail(w http.ResponseWriter, code, message string) {
	tell(w, http.StatusOK, map[string]any{"data": nil, "errors": []any{map[string]any{"message": message, "extensions": map[string]any{"code": code}}}})
}

// deny puts a backend's refusal into the words of the GraphQL API.
func deny(w http.ResponseWriter, err error) {
	e, ended := unheard(w, err)
	if ended {
		return
	}
	switch e.Kind {
	case provider.NoCapacity, provider.OfferGone, provider.PriceTooLow:
		fail(w, "RUNPOD", "There are no longer any instances available with the requested specifications. Please refresh and try again.")
	case provider.Auth:
		fail(w, "UNAUTHENTICATED", "Unauthorized")
	case provider.Invalid:
		fail(w, "BAD_USER_INPUT", e.Message)
	case provider.Throttled:
		refuse(w, err)
	default:
		fail(w, "INTERNAL_SERVER_ERROR", "Something went wrong.")
	}
}

// idOf is what RunPod calls a GPU.
func idOf(g events.GPU) string {
	name := strings.TrimSuffix(g.Model, "-80GB")
	switch {
	case strings.HasPrefix(name, "RTX"):
		return "NVIDIA GeForce RTX " + strings.TrimPrefix(name, "RTX")
	case name == "H100" && g.Form == "SXM":
		return "NVIDIA H100 80GB HBM3"
	case name == "A100" && g.MemoryMiB > 60<<10 && g.Form == "PCIE":
		return "NVIDIA A100 80GB PCIe"
	case name == "V100" || name == "T4":
		return "Tesla " + name
	case g.Form == "" || name == "P100":
		return "NVIDIA " + name
	}
	return "NVIDIA " + name + " " + g.Form
}

// types answers with every GPU type of the backend, and for each price that was asked
// for what it is, or null.
func (f *Fake) types(w http.ResponseWriter, r *http.Request, wanted [][]string) {
	offers, err := f.cfg.Backend.Offers(r.Context())
	if err != nil {
		deny(w, err)
		return
	}
	var rows []map[string]any
	byID := map[string]map[string]any{}
	for _, o := range offers {
		id := idOf(o.GPU)
		if byID[id] == nil {
			byID[id] = map[string]any{"id": id, "displayName": o.GPU.Model, "memoryInGb": (o.GPU.MemoryMiB + 512) >> 10, "secureCloud": true}
			rows = append(rows, byID[id])
			for _, a := range wanted {
				byID[id][a[1]] = map[string]any{"minimumBidPrice": nil, "uninterruptablePrice": nil, "stockStatus": nil}
			}
		}
		for _, a := range wanted {
			if n, _ := strconv.Atoi(a[2]); n == o.GPU.Count && a[3] == o.Pool.Zone {
				fill(byID[id][a[1]].(map[string]any), o)
			}
		}
	}
	tell(w, http.StatusOK, map[string]any{"data": map[string]any{"gpuTypes": rows}})
}

// fill puts an offer into a price.
func fill(price map[string]any, o events.Offer) {
	field := "uninterruptablePrice"
	if o.Pool.Capacity.Reclaimable() {
		field = "minimumBidPrice"
	}
	price[field] = json.Number(o.Price.PerGPU(o.GPU.Count).String())
	price["stockStatus"], price["minVcpu"], price["minMemory"] = "High", o.VCPU, o.RAMMiB>>10
	if !o.Available() {
		price["stockStatus"] = "None"
	}
}

// rental is the input of an interruptible pod.
type rental struct {
	Bid   json.Number `json:"bidPerGpu"`
	Count int         `json:"gpuCount"`
	GPU   string      `json:"gpuTypeId"`
	Place string      `json:"dataCenterId"`
	Name  string      `json:"name"`
	Image string      `json:"imageName"`
	Env   []struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	} `json:"env"`
}

func (f *Fake) rent(w http.ResponseWriter, r *http.Request, in rental) {
	bid, err := events.ParsePerInstanceHour(in.Bid.String())
	if err != nil || in.Count < 1 || in.Image == "" {
		deny(w, &provider.Error{Kind: provider.Invalid, Message: "bidPerGpu, gpuCount and imageName are wanted"})
		return
	}
	env := map[string]string{}
	for _, e := range in.Env {
		env[e.Key] = e.Value
	}
	id, err := f.make(r.Context(), order{in.Name, in.GPU, in.Count, in.Place, true, events.PerGPUHour(bid).PerInstance(in.Count), env})
	if err != nil {
		deny(w, err)
		return
	}
	tell(w, http.StatusOK, map[string]any{"data": map[string]any{"podRentInterruptable": map[string]any{"id": id}}})
}

// anyPrice is what a buyer on demand agrees to: whatever the list says.
const anyPrice = events.PerInstanceHour(math.MaxInt64)
