package gpu_test

import (
	"testing"

	"github.com/spotferry/spotferry/bidder/provider/gpu"
)

// TestIdentify: what sellers call a GPU, and what they say of its memory, is one
// product or none.
func TestIdentify(t *testing.T) {
	for _, tc := range []struct {
		says, form string
		memory     int
		model      string // "" : in no table
		wantForm   string
	}{
		{"A100", "", 40960, "A100", ""},
		{"A100", "", 81920, "A100-80GB", ""},
		{"A100", "", 81559, "A100-80GB", ""},
		{"nvidia-tesla-a100", "", 0, "", ""}, // two products, and nothing that tells which
		{"nvidia-tesla-a100", "", 40960, "A100", ""},
		{"nvidia-a100-80gb", "", 0, "A100-80GB", ""},
		{"A100 SXM4", "", 40536, "A100", "SXM"},
		{"A100 SXM4", "", 81920, "A100-80GB", "SXM"},
		{"A100 PCIE", "", 81920, "A100-80GB", "PCIE"},
		{"A100_PCIE", "", 40960, "A100", "PCIE"},
		{"NVIDIA A100-SXM4-80GB", "", 81920, "A100-80GB", "SXM"},
		{"H100 SXM", "", 81559, "H100", "SXM"},
		{"NVIDIA H100 80GB HBM3", "", 81559, "H100", "SXM"},
		{"H100 PCIE", "", 81559, "H100", "PCIE"},
		{"H100 NVL", "", 95830, "H100", "NVL"},
		{"H100", "", 95830, "H100", "NVL"}, // by its memory
		{"H100", "SXM5", 81920, "H100", "SXM"},
		{"H100", "", 81920, "H100", ""}, // of either form
		{"H200", "", 144384, "H200", ""},
		{"B200", "", 183359, "B200", ""},
		{"RTX 4090", "", 24564, "RTX4090", ""},
		{"RTX 4090", "", 49140, "RTX4090-48GB", ""},
		{"RTX_4090", "", 0, "", ""},
		{"NVIDIA GeForce RTX 5090", "", 32607, "RTX5090", ""},
		{"RTX 3090", "", 24576, "RTX3090", ""},
		{"L4", "", 22888, "L4", ""}, // misreported by a seller: 24 GiB
		{"L40S", "", 46068, "L40S", ""},
		{"T4", "", 15360, "T4", ""},
		{"Tesla T4", "", 16384, "T4", ""},
		{"Tesla V100", "", 16384, "V100", ""},
		{"V100", "", 32768, "V100-32GB", ""},
		{"A10G", "", 24576, "A10G", ""},
		{"A10", "", 24576, "A10", ""},
		{"AMD Instinct MI300X", "", 196608, "MI300X", ""},
		{"MI250", "", 131072, "MI250", ""},
		{"Huawei Ascend 910B", "", 65536, "Ascend910B", ""},
		{"A100", "", 24576, "", ""}, // no such product
		{"Radeon Pro V520", "", 8192, "", ""},
		{"", "", 0, "", ""},
		{"A100; DROP TABLE", "", 40960, "", ""},
	} {
		g := gpu.Identify(tc.says, tc.form, tc.memory)
		if g.Known() != (tc.model != "") || g.Known() && (g.Model != tc.model || g.Form != tc.wantForm) {
			t.Errorf("%q %q with %d MiB is %+v, want %q %q", tc.says, tc.form, tc.memory, g, tc.model, tc.wantForm)
		}
		if !g.Known() && (g.Model != tc.says || g.MemoryMiB != tc.memory) {
			t.Errorf("%q is not known and comes back as %+v, want its seller's words", tc.says, g)
		}
	}
}

// TestTable: every product is found by its own name, and has what buying needs.
func TestTable(t *testing.T) {
	for _, k := range gpu.Table() {
		g := gpu.Identify(k.Model, k.Form, k.MemoryMiB)
		if g.Model != k.Model || g.Form != k.Form || g.Vendor != k.Vendor {
			t.Errorf("%+v is found as %+v", k, g)
		}
		if k.Vendor == "" || k.MemoryMiB < 1<<10 || k.Vendor == "nvidia" && k.Capability < 60 {
			t.Errorf("%+v lacks its vendor, memory or compute capability", k)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	f.Add("A100 SXM4", "", 40960)
	f.Add("\xff\x00", "sxm", -1)
	f.Fuzz(func(t *testing.T, name, form string, memory int) {
		if g := gpu.Identify(name, form, memory); !g.Known() && g.Model != name {
			t.Errorf("%q became %q", name, g.Model)
		}
	})
}
