package awsfake

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/events"
)

type gpuXML struct {
	Name         string  `xml:"name"`
	Manufacturer string  `xml:"manufacturer"`
	Count        int     `xml:"count"`
	Memory       int     `xml:"memoryInfo>sizeInMiB"`
	Part         float64 `xml:"gpuPartitionSize"`
	Logical      int     `xml:"logicalGpuCount"`
}

type hardware struct {
	Type  string   `xml:"instanceType"`
	VCPU  int      `xml:"vCpuInfo>defaultVCpus"`
	RAM   int      `xml:"memoryInfo>sizeInMiB"`
	Arch  []string `xml:"processorInfo>supportedArchitectures>item"`
	GPUs  []gpuXML `xml:"gpuInfo>gpus>item,omitempty"`
	Total int      `xml:"gpuInfo>totalGpuMemoryInMiB,omitempty"`
}

func (s *Server) describeInstanceTypes(ctx context.Context, q query) (any, error) {
	if ids := q.list("InstanceType"); len(ids) > 100 {
		return nil, &fault{http.StatusBadRequest, "InvalidParameterValue", "at most 100 instance types a call"}
	}
	offers, err := s.offers(ctx)
	if err != nil {
		return nil, err
	}
	only, filtered := q.filters()["instance-type"]
	kinds := []hardware{{Type: "m5.large", VCPU: 2, RAM: 8192, Arch: []string{"x86_64"}}}
	for _, o := range offers {
		if o.Pool.Region == q.region && !slices.ContainsFunc(kinds, func(h hardware) bool { return h.Type == o.Pool.InstanceType }) {
			kinds = append(kinds, describe(o))
		}
	}
	ids := q.list("InstanceType")
	for _, id := range ids {
		if !slices.ContainsFunc(kinds, func(h hardware) bool { return h.Type == id }) {
			return nil, &fault{http.StatusBadRequest, "InvalidInstanceType", fmt.Sprintf("The following supplied instance types do not exist: [%s]", id)}
		}
	}
	kinds = slices.DeleteFunc(kinds, func(h hardware) bool {
		return filtered && !slices.Contains(only, h.Type) || len(ids) > 0 && !slices.Contains(ids, h.Type)
	})
	from, to, next, err := q.page(len(kinds), min(s.cfg.Page, 100))
	return struct {
		XMLName xml.Name   `xml:"answer"`
		Types   []hardware `xml:"instanceTypeSet>item"`
		Next    string     `xml:"nextToken"`
	}{Types: kinds[from:to], Next: next}, err
}

// describe is a type as EC2 describes it: A100 is one name, and the memory tells
// which. An L4 has a gigabyte too little.
func describe(o events.Offer) hardware {
	g := o.GPU
	name, _, _ := strings.Cut(g.Model, "-")
	part := 1.0
	if g.FractionPct > 0 && g.FractionPct < 100 {
		part = float64(g.FractionPct) / 100
	}
	memory := g.MemoryMiB
	if name == "L4" && part == 1 {
		memory = 22888
	}
	return hardware{
		Type: o.Pool.InstanceType, VCPU: o.VCPU, RAM: o.RAMMiB, Arch: []string{"x86_64"},
		GPUs:  []gpuXML{{name, strings.ToUpper(g.Vendor), g.Count, memory, part, g.Count}},
		Total: g.Count * memory,
	}
}

func (s *Server) describeInstanceTypeOfferings(ctx context.Context, q query) (any, error) {
	offers, err := s.offers(ctx)
	if err != nil {
		return nil, err
	}
	type offering struct {
		Type     string `xml:"instanceType"`
		Kind     string `xml:"locationType"`
		Location string `xml:"location"`
	}
	var all []offering
	for _, o := range offers {
		one := offering{o.Pool.InstanceType, q.get("LocationType"), o.Pool.Zone}
		if o.Pool.Region == q.region && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	from, to, next, err := q.page(len(all), s.cfg.Page)
	return struct {
		XMLName   xml.Name   `xml:"answer"`
		Offerings []offering `xml:"instanceTypeOfferingSet>item"`
		Next      string     `xml:"nextToken"`
	}{Offerings: all[from:to], Next: next}, err
}

func (s *Server) getSpotPlacementScores(ctx context.Context, q query) (any, error) {
	offers, err := s.offers(ctx)
	if err != nil {
		return nil, err
	}
	kinds := q.list("InstanceType")
	type score struct {
		Region string `xml:"region"`
		Zone   string `xml:"availabilityZoneId"`
		Score  int    `xml:"score"`
	}
	answer := struct {
		XMLName xml.Name `xml:"answer"`
		Scores  []score  `xml:"spotPlacementScoreSet>item"`
	}{}
	for _, o := range offers {
		one := score{o.Pool.Region, o.Pool.Zone, 9}
		if len(kinds) < 3 || !o.Available() {
			one.Score = 1
		}
		listed := slices.ContainsFunc(answer.Scores, func(x score) bool { return x.Zone == one.Zone })
		if slices.Contains(q.list("RegionName"), o.Pool.Region) && slices.Contains(kinds, o.Pool.InstanceType) && !listed {
			answer.Scores = append(answer.Scores, one)
		}
	}
	return answer, nil
}
