package aws

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/spotferry/spotferry/bidder/provider/gpu"
	"github.com/spotferry/spotferry/events"
)

// hardware is what an instance type is made of.
type hardware struct {
	gpu    events.GPU
	vcpu   int
	ramMiB int
	metal  bool
}

// perCall is how many instance types EC2 tells of in one call, or is asked about.
const perCall = 100

// hardwareOf returns the region's instance types that have a GPU and run the image.
func (c *Client) hardwareOf(ctx context.Context, r *region) (map[string]hardware, error) {
	return r.machines.get(ctx, c.cfg.Now().Control, machinesHold, func(ctx context.Context) (map[string]hardware, error) {
		found := map[string]hardware{}
		return found, c.inCalls(c.cfg.Types, func(some []string) error {
			return r.loadHardware(ctx, some, c.cfg.Arch, found)
		})
	})
}

// inCalls makes one call for so many types; none are all, in one call.
func (c *Client) inCalls(all []string, call func([]string) error) error {
	if len(all) == 0 {
		return call(nil)
	}
	for some := range slices.Chunk(all, perCall) {
		if err := call(some); err != nil {
			return err
		}
	}
	return nil
}

// loadHardware asks by a filter and not by ids, since one type that the region
// does not have would fail the call.
func (r *region) loadHardware(ctx context.Context, only []string, arch string, into map[string]hardware) error {
	return pages(func(token *string) (*string, error) {
		out, err := r.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{
			Filters: filters("instance-type", only...), MaxResults: aws.Int32(perCall), NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, t := range out.InstanceTypes {
			if h, ok := read(t, arch); ok {
				into[string(t.InstanceType)] = h
			}
		}
		return out.NextToken, nil
	})
}

// filters is one filter, or none where there is nothing to filter by.
func filters(name string, values ...string) []types.Filter {
	if len(values) == 0 {
		return nil
	}
	return []types.Filter{{Name: &name, Values: values}}
}

// read is an instance type in our terms; false if it has no GPU or cannot run the image.
func read(t types.InstanceTypeInfo, arch string) (hardware, bool) {
	if t.GpuInfo == nil || len(t.GpuInfo.Gpus) == 0 || t.InstanceType == "" {
		return hardware{}, false
	}
	if p := t.ProcessorInfo; p != nil && len(p.SupportedArchitectures) > 0 &&
		!slices.Contains(p.SupportedArchitectures, types.ArchitectureType(arch)) {
		return hardware{}, false
	}
	h := hardware{gpu: identify(string(t.InstanceType), t.GpuInfo.Gpus[0]), metal: aws.ToBool(t.BareMetal)}
	if t.VCpuInfo != nil {
		h.vcpu = int(aws.ToInt32(t.VCpuInfo.DefaultVCpus))
	}
	if t.MemoryInfo != nil {
		h.ramMiB = int(aws.ToInt64(t.MemoryInfo.SizeInMiB))
	}
	return h, h.gpu.Count > 0
}

// identify is a GPU as EC2 describes it. Its memory tells which product a name
// means; for a part of one the whole has to be worked out first.
func identify(instanceType string, g types.GpuDeviceInfo) events.GPU {
	count, memory := int(aws.ToInt32(g.Count)), 0
	if g.MemoryInfo != nil {
		memory = int(aws.ToInt32(g.MemoryInfo.SizeInMiB))
	}
	part := aws.ToFloat64(g.GpuPartitionSize)
	if !(part > 0 && part < 1) { // also where it is no number
		out := gpu.Identify(aws.ToString(g.Name), form(instanceType), memory)
		out.Count = count
		if out.Model == "L4" { // told as 22888 MiB: label and driver say 24 GiB
			out.MemoryMiB = gpu.Identify("L4", "", 0).MemoryMiB
		}
		return out
	}
	out := gpu.Identify(aws.ToString(g.Name), form(instanceType), int(float64(memory)/part))
	out.FractionPct, out.MemoryMiB = int(math.Round(part*100)), memory
	out.Count = max(int(aws.ToInt32(g.LogicalGpuCount)), 1)
	return out
}

// form is what the family says of the GPU's form, which EC2 does not tell: the
// p families have modules on a board.
func form(instanceType string) string {
	family, _, _ := strings.Cut(instanceType, ".")
	if strings.HasPrefix(family, "p") {
		return "SXM"
	}
	return ""
}
