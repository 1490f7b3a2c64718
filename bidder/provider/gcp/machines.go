package gcp

import (
	"strings"

	"github.com/spotferry/spotferry/bidder/provider/gpu"
	"github.com/spotferry/spotferry/events"
)

// shape is a machine type, with its GPUs.
type shape struct {
	name     string // of the machine type
	suffix   string // what tells it from the same type with other GPUs
	vcpu     int
	ramMiB   int
	ssdGiB   int // that come with it, whether wanted or not
	gpu      string
	gpus     int
	attached bool // the GPUs are not the type's own
}

// instanceType is its name in pools.
func (s shape) instanceType() string { return s.name + s.suffix }

// sane says whether there can be such a machine.
func (s shape) sane() bool {
	return s.name != "" && s.gpus > 0 && s.gpus <= 64 && s.vcpu > 0 && s.vcpu <= 1<<12 && s.ramMiB > 0 && s.ramMiB <= 1<<26 && s.ssdGiB >= 0 && s.ssdGiB <= 1<<20
}

// accelerator is a GPU in Google's words.
type accelerator struct {
	kind      string   // its accelerator type
	prices    []string // what it is called in prices, in lower case
	model     string
	form      string
	memoryMiB int
	link      string // between several of them
}

// accelerators are those whose prices can be told apart. A100 is two of them, and
// an H100 that is called Mega or Plus is another price than one that is not.
var accelerators = []accelerator{
	{"nvidia-tesla-t4", []string{"tesla t4", "t4"}, "T4", "", 16 << 10, "none"},
	{"nvidia-tesla-v100", []string{"tesla v100", "v100"}, "V100", "", 16 << 10, "nvlink"},
	{"nvidia-l4", []string{"l4"}, "L4", "", 24 << 10, "none"},
	{"nvidia-tesla-a100", []string{"tesla a100", "a100"}, "A100", "SXM", 40 << 10, "nvlink"},
	{"nvidia-a100-80gb", []string{"tesla a100 80gb", "a100 80gb"}, "A100", "SXM", 80 << 10, "nvlink"},
	{"nvidia-h100-80gb", []string{"h100 80gb"}, "H100", "SXM", 80 << 10, "nvlink"},
	{"nvidia-h100-mega-80gb", []string{"h100 80gb mega", "h100 mega 80gb", "h100 80gb plus"}, "H100", "SXM", 80 << 10, "nvlink"},
	{"nvidia-h200-141gb", []string{"h200 141gb", "h200"}, "H200", "SXM", 141 << 10, "nvlink"},
	{"nvidia-b200", []string{"b200"}, "B200", "", 180 << 10, "nvlink"},
}

// acceleratorOf is a GPU by its type. One unheard of keeps its name, and is priced
// by it if that can be done.
func acceleratorOf(kind string) accelerator {
	for _, a := range accelerators {
		if a.kind == kind {
			return a
		}
	}
	plain := strings.ReplaceAll(strings.TrimPrefix(kind, "nvidia-"), "-", " ")
	return accelerator{kind: kind, prices: []string{plain}, model: kind}
}

// identify is what the GPUs of a shape are.
func (s shape) identify() events.GPU {
	a := acceleratorOf(s.gpu)
	g := gpu.Identify(a.model, a.form, a.memoryMiB)
	g.Count = s.gpus
	if g.Interconnect = a.link; s.gpus == 1 {
		g.Interconnect = "none"
	}
	return g
}

// family is what the machine type's own parts are called in prices.
func (s shape) family() string {
	switch {
	case strings.HasPrefix(s.name, "a3-megagpu-"):
		return "a3plus"
	case strings.HasPrefix(s.name, "a3-ultragpu-"):
		return "a3ultra"
	case strings.HasPrefix(s.name, "n1-"):
		return "n1 predefined"
	}
	f, _, _ := strings.Cut(s.name, "-")
	return f
}

// onDemand says whether the type is sold plainly to whoever asks, and not only as
// spot or by reservation.
func (s shape) onDemand() bool {
	switch f, _, _ := strings.Cut(s.name, "-"); f {
	case "a4", "a4x":
		return false
	}
	return !strings.HasPrefix(s.name, "a3-ultragpu-") && (!strings.HasPrefix(s.name, "a3-highgpu-") || s.gpus >= 8)
}

// Filters for the types that are looked at, as regular expressions.
const (
	machineFilter     = `name eq "(a2|a3|a4|a4x|g2|n1)-.*"`
	acceleratorFilter = `name eq "nvidia-tesla-(t4|v100)"`
)

// withGPU are the types that GPUs are attached to.
var withGPU = []struct {
	machine, gpu, suffix string
	gpus                 int
}{
	{"n1-standard-4", "nvidia-tesla-t4", "+1xt4", 1},
	{"n1-standard-8", "nvidia-tesla-t4", "+1xt4", 1},
	{"n1-standard-16", "nvidia-tesla-t4", "+2xt4", 2},
	{"n1-standard-32", "nvidia-tesla-t4", "+4xt4", 4},
	{"n1-standard-8", "nvidia-tesla-v100", "+1xv100", 1},
	{"n1-standard-16", "nvidia-tesla-v100", "+2xv100", 2},
	{"n1-standard-32", "nvidia-tesla-v100", "+4xv100", 4},
	{"n1-standard-64", "nvidia-tesla-v100", "+8xv100", 8},
}
