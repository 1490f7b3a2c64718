package jobfile

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/events"
)

var size = regexp.MustCompile(`^([0-9]{1,7}(?:\.[0-9]{1,4})?)\s*([A-Za-z]*)(\+?)$`)

// atLeast reads 8, 8+ or 8GB, in units of one: gigabytes unless a unit is given.
func (r *reader) atLeast(path string, n *yaml.Node, units map[string]float64, example string) (v float64, exact, ok bool) {
	s, ok := r.text(path, n)
	if !ok {
		return 0, false, false
	}
	m := size.FindStringSubmatch(s)
	if m == nil {
		r.refuse(placeOf(n), path, "write "+example, "%s is %s", path, quoted(s))
		return 0, false, false
	}
	factor, known := units[strings.ToLower(m[2])]
	v, err := strconv.ParseFloat(m[1], 64)
	if !known || err != nil || v <= 0 {
		r.refuse(placeOf(n), path, "write "+example, "%s is %s", path, quoted(s))
		return 0, false, false
	}
	return v * factor, m[3] == "", true
}

func (r *reader) readCPUs(path string, n *yaml.Node) {
	v, exact, ok := r.atLeast(path, n, map[string]float64{"": 1}, "how many at least, such as 8+")
	if !ok {
		return
	}
	r.job.Spec.Resources.VCPU = int(math.Ceil(v))
	if exact {
		r.note(placeOf(n), path, "cpus without + is taken as at least: a larger machine may be cheaper")
	}
}

func (r *reader) readMemory(path string, n *yaml.Node) {
	units := map[string]float64{"": 1024, "gb": 1024, "gib": 1024, "g": 1024, "mb": 1, "mib": 1, "m": 1, "tb": 1 << 20, "tib": 1 << 20, "t": 1 << 20}
	v, exact, ok := r.atLeast(path, n, units, "how many GB at least, such as 32+")
	if !ok {
		return
	}
	r.job.Spec.Resources.RAMMiB = int(math.Ceil(v))
	if exact {
		r.note(placeOf(n), path, "memory without + is taken as at least: a larger machine may be cheaper")
	}
}

func (r *reader) readDisk(path string, n *yaml.Node) {
	units := map[string]float64{"": 1, "gb": 1, "gib": 1, "g": 1, "tb": 1024, "tib": 1024, "t": 1024}
	if v, _, ok := r.atLeast(path, n, units, "how many GB at least, such as 256"); ok {
		r.job.Spec.Resources.DiskGB = int(math.Ceil(v))
	}
}

var instanceType = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+:-]{0,127}$`)

func (r *reader) readInstanceType(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	if !instanceType.MatchString(s) {
		r.refuse(placeOf(n), path, "write the seller's name of it, such as p3.2xlarge", "instance_type is %s", quoted(s))
		return
	}
	r.job.Spec.Resources.InstanceType = s
}

func (r *reader) readUseSpot(path string, n *yaml.Node) {
	if v, ok := r.yesNo(path, n); ok {
		r.useSpot = &v
	}
}

const maxLabels = 64

func (r *reader) readLabels(path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.refuse(placeOf(n), path, "write name: value below it", "labels is %s", kindOf(n))
		return
	}
	labels := map[string]string{}
	for _, p := range r.pairs(path, n) {
		value, ok := r.text(join(path, printable(p.name)), p.val)
		if !ok {
			continue
		}
		if wrong := checkName(p.name); wrong != "" {
			r.refuse(placeOf(p.key), path, "write a name that people can read", "label %s: %s", quoted(p.name), wrong)
			continue
		}
		if wrong := checkName(value); value != "" && wrong != "" {
			r.refuse(placeOf(p.val), path, "write a value that people can read", "label %s is %s: %s", quoted(p.name), quoted(value), wrong)
			continue
		}
		labels[p.name] = value
	}
	if len(labels) > maxLabels {
		r.refuse(placeOf(n), path, "keep the ones that reports need", "there are %d labels; at most %d fit", len(labels), maxLabels)
		return
	}
	if len(labels) > 0 {
		r.job.Labels = labels
	}
}

// uncovered returns the models for which work.hours_on says nothing.
func uncovered(spec events.JobSpec) []string {
	var out []string
	for _, a := range spec.Resources.Accelerators {
		if _, ok := spec.Policy.Work.On(a.Model); !ok && !slices.Contains(out, a.Model) {
			out = append(out, a.Model)
		}
	}
	return out
}
