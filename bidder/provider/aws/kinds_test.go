package aws

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/spotferry/spotferry/events"
)

func TestGPUsAreWhatEC2MeansByTheirNames(t *testing.T) {
	t.Parallel()
	device := func(name, maker string, count, memory int32, part float64, logical int32) types.GpuDeviceInfo {
		return types.GpuDeviceInfo{
			Name: &name, Manufacturer: &maker, Count: &count, MemoryInfo: &types.GpuDeviceMemoryInfo{SizeInMiB: &memory},
			GpuPartitionSize: &part, LogicalGpuCount: &logical,
		}
	}
	for _, tc := range []struct {
		instanceType string
		device       types.GpuDeviceInfo
		want         events.GPU
	}{
		{"p3.2xlarge", device("V100", "NVIDIA", 1, 16384, 1, 1), events.GPU{Vendor: "nvidia", Model: "V100", Count: 1, MemoryMiB: 16384, Capability: 70}},
		{"p3dn.24xlarge", device("V100", "NVIDIA", 8, 32768, 0, 0), events.GPU{Vendor: "nvidia", Model: "V100-32GB", Count: 8, MemoryMiB: 32768, Capability: 70}},
		{"p4d.24xlarge", device("A100", "NVIDIA", 8, 40960, 1, 8), events.GPU{Vendor: "nvidia", Model: "A100", Form: "SXM", Count: 8, MemoryMiB: 40960, Capability: 80}},
		{"p4de.24xlarge", device("A100", "NVIDIA", 8, 81920, 1, 8), events.GPU{Vendor: "nvidia", Model: "A100-80GB", Form: "SXM", Count: 8, MemoryMiB: 81920, Capability: 80}},
		{"p5.48xlarge", device("H100", "NVIDIA", 8, 81920, 1, 8), events.GPU{Vendor: "nvidia", Model: "H100", Form: "SXM", Count: 8, MemoryMiB: 81920, Capability: 90}},
		{"g6.xlarge", device("L4", "NVIDIA", 1, 22888, 1, 1), events.GPU{Vendor: "nvidia", Model: "L4", Count: 1, MemoryMiB: 24576, Capability: 89}},
		{"g6f.large", device("L4", "NVIDIA", 1, 2861, 0.125, 1), events.GPU{Vendor: "nvidia", Model: "L4", Count: 1, MemoryMiB: 2861, FractionPct: 13, Capability: 89}},
		{"g4dn.xlarge", device("T4", "NVIDIA", 1, 16384, 1, 1), events.GPU{Vendor: "nvidia", Model: "T4", Count: 1, MemoryMiB: 16384, Capability: 75}},
		{"g4ad.xlarge", device("Radeon Pro V520", "AMD", 1, 8192, 1, 1), events.GPU{Model: "Radeon Pro V520", Count: 1, MemoryMiB: 8192}},
		{"dl1.24xlarge", device("Gaudi HL-205", "Habana", 8, 32768, 1, 8), events.GPU{Model: "Gaudi HL-205", Count: 8, MemoryMiB: 32768}},
	} {
		t.Run(tc.instanceType, func(t *testing.T) {
			t.Parallel()
			if got := identify(tc.instanceType, tc.device); got != tc.want {
				t.Errorf("identify = %+v, want %+v", got, tc.want)
			}
		})
	}
	if _, ok := read(types.InstanceTypeInfo{InstanceType: "g5g.xlarge", GpuInfo: &types.GpuInfo{Gpus: []types.GpuDeviceInfo{device("T4g", "NVIDIA", 1, 16384, 1, 1)}},
		ProcessorInfo: &types.ProcessorInfo{SupportedArchitectures: []types.ArchitectureType{"arm64"}}}, "x86_64"); ok {
		t.Error("a type that cannot run the image is offered")
	}
}
