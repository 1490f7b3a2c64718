// Package gpu knows which accelerators there are: one table by which every
// seller's name for one becomes the same vendor, model, form and memory.
//
// Names alone do not tell: A100 is two products, and an RTX 4090 may have been
// given 48 GB. So memory decides with the name, within a twentieth and a little,
// since drivers report less than the label says, and in other units.
package gpu

import (
	"slices"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// Kind is one product.
type Kind struct {
	Vendor     string
	Model      string // as job files say it
	Form       string // "" where there is only one
	MemoryMiB  int    // by its label
	Capability int    // CUDA's, times ten
	// names are further spellings, as tokens: see words.
	names []string
}

// tolerance is how far what a seller reports of the memory may lie from the
// label: 81559 MiB are sold as 80 GB, 22888 as 24 GiB.
const tolerance = 0.07

// Table returns every product that is known, in a fixed order.
func Table() []Kind { return slices.Clone(table) }

var table = []Kind{
	{"nvidia", "T4", "", 16 << 10, 75, nil},
	{"nvidia", "P100", "", 16 << 10, 60, nil},
	{"nvidia", "V100", "", 16 << 10, 70, nil},
	{"nvidia", "V100-32GB", "", 32 << 10, 70, []string{"v100"}},
	{"nvidia", "L4", "", 24 << 10, 89, nil},
	{"nvidia", "A10", "", 24 << 10, 86, nil},
	{"nvidia", "A10G", "", 24 << 10, 86, nil},
	{"nvidia", "L40", "", 48 << 10, 89, nil},
	{"nvidia", "L40S", "", 48 << 10, 89, nil},
	{"nvidia", "A40", "", 48 << 10, 86, nil},
	{"nvidia", "RTXA6000", "", 48 << 10, 86, []string{"a6000", "rtx a6000"}},
	{"nvidia", "A100", "SXM", 40 << 10, 80, []string{"a100 sxm", "a100 sxm4", "a100 sxm4 40gb"}},
	{"nvidia", "A100", "PCIE", 40 << 10, 80, []string{"a100 pcie"}},
	{"nvidia", "A100-80GB", "SXM", 80 << 10, 80, []string{"a100", "a100 sxm", "a100 sxm4", "a100 sxm4 80gb", "a100 80gb sxm4"}},
	{"nvidia", "A100-80GB", "PCIE", 80 << 10, 80, []string{"a100 pcie", "a100 80gb pcie"}},
	{"nvidia", "H100", "SXM", 80 << 10, 90, []string{"h100 sxm", "h100 sxm5", "h100 80gb", "h100 80gb hbm3"}},
	{"nvidia", "H100", "PCIE", 80 << 10, 90, []string{"h100 pcie"}},
	{"nvidia", "H100", "NVL", 94 << 10, 90, []string{"h100 nvl"}},
	{"nvidia", "GH200", "", 96 << 10, 90, nil},
	{"nvidia", "H200", "SXM", 141 << 10, 90, []string{"h200 sxm", "h200 sxm5", "h200 141gb"}},
	{"nvidia", "H200", "NVL", 141 << 10, 90, []string{"h200 nvl"}},
	{"nvidia", "B200", "", 180 << 10, 100, []string{"b200 sxm"}},
	{"nvidia", "RTX3090", "", 24 << 10, 86, []string{"rtx 3090", "geforce rtx 3090"}},
	{"nvidia", "RTX4090", "", 24 << 10, 89, []string{"rtx 4090", "geforce rtx 4090"}},
	{"nvidia", "RTX4090-48GB", "", 48 << 10, 89, []string{"rtx 4090", "geforce rtx 4090"}},
	{"nvidia", "RTX5090", "", 32 << 10, 120, []string{"rtx 5090", "geforce rtx 5090"}},
	{"amd", "MI250", "", 128 << 10, 0, []string{"mi250x", "instinct mi250"}},
	{"amd", "MI300X", "", 192 << 10, 0, []string{"instinct mi300x"}},
	{"huawei", "Ascend910B", "", 64 << 10, 0, []string{"ascend 910b", "910b"}},
}

// Identify returns the accelerator that a seller calls name and says to have so
// much memory each; 0 is not known. The form may stand in the name or in form. One
// that is not in the table has no vendor, and its seller's name as Model.
//
// Without the memory the name has to mean one product only, but for its form.
func Identify(name, form string, memoryMiB int) events.GPU {
	var fits []Kind
	n, f := words(name), words(form)
	for _, k := range spelled[n] {
		if k.formed(n, f) && k.holds(memoryMiB) {
			fits = append(fits, k)
		}
	}
	if len(fits) == 0 || slices.ContainsFunc(fits, func(k Kind) bool { return k.Model != fits[0].Model }) {
		return events.GPU{Model: name, Form: form, MemoryMiB: memoryMiB}
	}
	k := fits[0]
	g := events.GPU{Vendor: k.Vendor, Model: k.Model, Form: k.Form, MemoryMiB: k.MemoryMiB, Capability: k.Capability}
	if len(fits) > 1 { // its form is not told
		g.Form = ""
	}
	if memoryMiB > 0 {
		g.MemoryMiB = memoryMiB
	}
	return g
}

func (k Kind) holds(memoryMiB int) bool {
	label := float64(k.MemoryMiB)
	diff := float64(memoryMiB) - label
	return memoryMiB == 0 || diff < label*tolerance && -diff < label*tolerance
}

// spelled has the products by every way to call them, as words.
var spelled = spell(table)

func spell(all []Kind) map[string][]Kind {
	out := map[string][]Kind{}
	for _, k := range all {
		own := words(k.Model)
		names := append([]string{own, strings.TrimSuffix(own, " 80gb")}, k.names...)
		slices.Sort(names)
		for _, n := range slices.Compact(names) {
			out[n] = append(out[n], k)
		}
	}
	return out
}

// formed says whether the words of a seller's name, and of what else it says of
// the form, can be of this product's form.
func (k Kind) formed(name, form string) bool {
	if k.Form == "" {
		return true
	}
	if form != "" && !strings.HasPrefix(form, strings.ToLower(k.Form)) {
		return false
	}
	for _, f := range []string{"sxm", "pcie", "nvl"} {
		if k.Form != strings.ToUpper(f) && strings.Contains(" "+name, " "+f) {
			return false
		}
	}
	return true
}

// words is a name without its maker, in lower case, its parts one blank apart:
// "NVIDIA H100 80GB HBM3", "nvidia-tesla-a100" and "A100_PCIE" alike.
func words(name string) string {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ' ' || r == '-' || r == '_' || r == '/' })
	return strings.Join(slices.DeleteFunc(parts, func(w string) bool { return w == "nvidia" || w == "tesla" || w == "amd" || w == "huawei" }), " ")
}
