package azure

import (
	"strings"

	"github.com/spotferry/spotferry/bidder/provider/gpu"
	"github.com/spotferry/spotferry/events"
)

// size is a size of machine, with GPUs. Azure says how many there are, and which
// they are only in the size's name.
type size struct {
	name   string
	vcpu   int
	ramGiB int
	gpus   int
	model  string
	form   string
	memGiB int    // of one, or of one part
	pct    int    // of a whole GPU; 0 is all
	link   string // between several
}

// sizes are those that are known. A part of an A10 is a third of one, or near it.
var sizes = []size{
	{"Standard_NC6s_v3", 6, 112, 1, "V100", "", 16, 0, ""},
	{"Standard_NC12s_v3", 12, 224, 2, "V100", "", 16, 0, "none"},
	{"Standard_NC24s_v3", 24, 448, 4, "V100", "", 16, 0, "none"},
	{"Standard_NC24rs_v3", 24, 448, 4, "V100", "", 16, 0, "none"},
	{"Standard_ND40rs_v2", 40, 672, 8, "V100", "", 32, 0, "nvlink"},
	{"Standard_NC4as_T4_v3", 4, 28, 1, "T4", "", 16, 0, ""},
	{"Standard_NC8as_T4_v3", 8, 56, 1, "T4", "", 16, 0, ""},
	{"Standard_NC16as_T4_v3", 16, 110, 1, "T4", "", 16, 0, ""},
	{"Standard_NC64as_T4_v3", 64, 440, 4, "T4", "", 16, 0, "none"},
	{"Standard_NV6ads_A10_v5", 6, 55, 1, "A10", "", 4, 17, ""},
	{"Standard_NV12ads_A10_v5", 12, 110, 1, "A10", "", 8, 33, ""},
	{"Standard_NV18ads_A10_v5", 18, 220, 1, "A10", "", 12, 50, ""},
	{"Standard_NV36ads_A10_v5", 36, 440, 1, "A10", "", 24, 0, ""},
	{"Standard_NV36adms_A10_v5", 36, 880, 1, "A10", "", 24, 0, ""},
	{"Standard_NV72ads_A10_v5", 72, 880, 2, "A10", "", 24, 0, "none"},
	{"Standard_NC8ads_A10_v4", 8, 55, 1, "A10", "", 8, 33, ""},
	{"Standard_NC16ads_A10_v4", 16, 110, 1, "A10", "", 24, 0, ""},
	{"Standard_NC32ads_A10_v4", 32, 220, 2, "A10", "", 24, 0, "none"},
	{"Standard_NC24ads_A100_v4", 24, 220, 1, "A100", "PCIE", 80, 0, ""},
	{"Standard_NC48ads_A100_v4", 48, 440, 2, "A100", "PCIE", 80, 0, "nvlink"},
	{"Standard_NC96ads_A100_v4", 96, 880, 4, "A100", "PCIE", 80, 0, "nvlink"},
	{"Standard_ND96asr_v4", 96, 900, 8, "A100", "SXM", 40, 0, "nvlink"},
	{"Standard_ND96amsr_A100_v4", 96, 1900, 8, "A100", "SXM", 80, 0, "nvlink"},
	{"Standard_NC40ads_H100_v5", 40, 320, 1, "H100", "NVL", 94, 0, ""},
	{"Standard_NC80adis_H100_v5", 80, 640, 2, "H100", "NVL", 94, 0, "nvlink"},
	{"Standard_ND96is_H100_v5", 96, 1900, 8, "H100", "SXM", 80, 0, "nvlink"},
	{"Standard_ND96isr_H100_v5", 96, 1900, 8, "H100", "SXM", 80, 0, "nvlink"},
	{"Standard_ND96is_H200_v5", 96, 1850, 8, "H200", "SXM", 141, 0, "nvlink"},
	{"Standard_ND96isr_H200_v5", 96, 1850, 8, "H200", "SXM", 141, 0, "nvlink"},
	{"Standard_ND96is_MI300X_v5", 96, 1850, 8, "MI300X", "", 192, 0, ""},
	{"Standard_ND96isr_MI300X_v5", 96, 1850, 8, "MI300X", "", 192, 0, ""},
}

// sizeOf is the size of a name, which has no case.
func sizeOf(name string) (size, bool) {
	for _, s := range sizes {
		if strings.EqualFold(s.name, name) {
			return s, true
		}
	}
	return size{}, false
}

// identify is what the GPUs of a size are.
func (s size) identify() events.GPU {
	whole := s.memGiB
	if s.pct > 0 {
		whole = 24 // only A10s are sold in parts
	}
	g := gpu.Identify(s.model, s.form, whole<<10)
	g.Count, g.MemoryMiB, g.FractionPct = s.gpus, s.memGiB<<10, s.pct
	if g.Interconnect = s.link; s.gpus == 1 {
		g.Interconnect = "none"
	}
	return g
}

// isolation is what stands between a machine and its host's others.
func (s size) isolation() events.Isolation {
	if s.pct > 0 {
		return events.VGPU
	}
	return events.Passthrough
}

// countries are where regions are. Of a region that is missing the country is not known.
var countries = map[string]string{
	"eastus": "US", "eastus2": "US", "centralus": "US", "northcentralus": "US", "southcentralus": "US",
	"westcentralus": "US", "westus": "US", "westus2": "US", "westus3": "US",
	"canadacentral": "CA", "canadaeast": "CA", "mexicocentral": "MX", "brazilsouth": "BR", "brazilsoutheast": "BR", "chilecentral": "CL",
	"northeurope": "IE", "westeurope": "NL", "uksouth": "GB", "ukwest": "GB", "francecentral": "FR", "francesouth": "FR",
	"germanywestcentral": "DE", "germanynorth": "DE", "switzerlandnorth": "CH", "switzerlandwest": "CH",
	"norwayeast": "NO", "norwaywest": "NO", "swedencentral": "SE", "swedensouth": "SE", "polandcentral": "PL",
	"italynorth": "IT", "spaincentral": "ES", "austriaeast": "AT", "belgiumcentral": "BE",
	"uaenorth": "AE", "uaecentral": "AE", "qatarcentral": "QA", "israelcentral": "IL", "southafricanorth": "ZA", "southafricawest": "ZA",
	"centralindia": "IN", "southindia": "IN", "westindia": "IN", "jioindiawest": "IN", "jioindiacentral": "IN",
	"eastasia": "HK", "southeastasia": "SG", "japaneast": "JP", "japanwest": "JP", "koreacentral": "KR", "koreasouth": "KR",
	"australiaeast": "AU", "australiasoutheast": "AU", "australiacentral": "AU", "australiacentral2": "AU",
	"newzealandnorth": "NZ", "indonesiacentral": "ID", "malaysiawest": "MY", "taiwannorth": "TW",
}
