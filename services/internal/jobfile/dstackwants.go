package jobfile

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// wants reads dstack's resources. A range becomes its lower bound, since ours
// are all at least; the upper one is said to be lost.
func (d *dstack) wants(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.refuse(placeOf(n), "resources", "write gpu, cpu and memory below it", "resources is %s", kindOf(n))
		return
	}
	for _, p := range d.pairs("resources", n) {
		full := pair{p.key, "resources." + p.name, p.val}
		if asksNothing(p.val) {
			continue
		}
		switch p.name {
		case "gpu":
			d.gpu(full)
		case "cpu":
			d.atLeastOf(full, "cpus", cpuRange)
		case "memory":
			d.atLeastOf(full, "memory", sizeRange)
		case "disk":
			d.disk(full)
		case "shm_size":
			d.without(full, "commands run on the machine itself, with all of its shared memory")
		default:
			d.without(full, "it is not known here")
		}
	}
}

var (
	cpuRange  = regexp.MustCompile(`^(?:(?:x86|arm):)?([0-9]+)(\.\.)?([0-9]*)$`)
	sizeRange = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?(?:GB|MB|TB)?)(\.\.)?([0-9.]*(?:GB|MB|TB)?)$`)
)

func (d *dstack) atLeastOf(p pair, as string, shape *regexp.Regexp) {
	s, ok := d.text(p.name, p.val)
	if !ok {
		return
	}
	m := shape.FindStringSubmatch(s)
	if m == nil {
		d.without(p, "write resources."+as+" with the least that is enough")
		return
	}
	if m[3] != "" && m[3] != m[1] {
		d.without(pair{p.key, p.name + " up to " + m[3], p.val}, "machines are asked for with at least so much, and the price decides")
	}
	d.resources = append(d.resources, assignment{as, m[1] + "+"})
}

func (d *dstack) disk(p pair) {
	if p.val.Kind == yaml.MappingNode {
		for _, q := range d.pairs(p.name, p.val) {
			if q.name == "size" {
				d.disk(pair{q.key, p.name + ".size", q.val})
			}
		}
		return
	}
	s, ok := d.text(p.name, p.val)
	if m := sizeRange.FindStringSubmatch(s); ok && m != nil {
		d.resources = append(d.resources, assignment{"disk_size", m[1]})
	} else if ok {
		d.without(p, "write resources.disk_size with the least that is enough")
	}
}

// gpu reads dstack's GPU: vendor, models, memory and count in any order, apart by
// colons; or the same as a mapping.
func (d *dstack) gpu(p pair) {
	spec := ""
	if p.val.Kind == yaml.MappingNode {
		parts := map[string]string{}
		for _, q := range d.pairs(p.name, p.val) {
			switch q.name {
			case "name", "count", "memory":
				parts[q.name] = strings.Join(d.list(q.val), ",")
			case "vendor":
			default:
				d.without(pair{q.key, p.name + "." + q.name, q.val}, "name the models that are good enough")
			}
		}
		for _, part := range []string{parts["name"], parts["memory"], parts["count"]} {
			if part != "" {
				spec += ":" + part
			}
		}
	} else {
		spec = strings.Join(d.list(p.val), ",")
	}
	models, memory, counts := splitGPU(spec)
	if len(models) == 0 {
		d.warn(placeOf(p.key), p.name, "write accelerators: MODEL:COUNT in place of the ?", "%s names no model, and a job file must", quoted(spec))
		d.gpus = append(d.gpus, "?")
		return
	}
	for _, m := range models {
		d.gpus = append(d.gpus, d.named(p, m, memory, counts)...)
	}
}

var (
	gpuMemory = regexp.MustCompile(`^[0-9.]*(GB|TB)?(\.\.)?[0-9.]*(GB|TB)$|^[0-9]+GB\.\.$`)
	gpuCount  = regexp.MustCompile(`^([0-9]+)(\.\.)?([0-9]*)$`)
)

func splitGPU(spec string) (models []string, memory, counts string) {
	for part := range strings.SplitSeq(spec, ":") {
		switch {
		case part == "", strings.EqualFold(part, "nvidia"), strings.EqualFold(part, "amd"):
		case gpuCount.MatchString(part):
			counts = part
		case gpuMemory.MatchString(part):
			memory = part
		default:
			models = append(models, strings.Split(part, ",")...)
		}
	}
	return models, memory, counts
}

// named is a model in SkyPilot's words, once for each count that is asked for.
func (d *dstack) named(p pair, model, memory, counts string) (out []string) {
	switch {
	case memory == "80GB" && model == "A100", memory == "32GB" && model == "V100":
		model += "-" + memory
	case memory != "":
		d.without(pair{p.key, p.name + " with " + memory, p.val}, "a model's name says its memory")
	}
	least, most := 1, 1
	if m := gpuCount.FindStringSubmatch(counts); m != nil {
		least, _ = strconv.Atoi(m[1])
		most = least
		if m[3] != "" {
			most, _ = strconv.Atoi(m[3])
		} else if m[2] != "" {
			d.without(pair{p.key, p.name + " count " + counts, p.val}, "the least is asked for; list the other counts that are good")
		}
	}
	for n := least; n <= min(most, least+7); n++ {
		out = append(out, model+":"+strconv.Itoa(n))
	}
	return out
}
