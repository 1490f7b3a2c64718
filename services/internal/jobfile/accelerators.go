package jobfile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/events"
)

var acceleratorName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`)

const maxGPUs = 64 // in one machine

// readAccelerators reads "V100:1"; a list, which is in order of preference for
// SkyPilot and any-of here; and a mapping or set, which is any-of for both.
func (r *reader) readAccelerators(path string, n *yaml.Node) {
	found := r.accelerators(path, n)
	if n.Kind == yaml.SequenceNode && len(found) > 1 {
		r.note(placeOf(n), path, "the order of accelerators is no preference: the one that is cheapest to finish on is taken")
	}
	r.job.Spec.Resources.Accelerators = found
}

func (r *reader) accelerators(path string, n *yaml.Node) []events.Accelerator {
	var out []events.Accelerator
	add := func(at *yaml.Node, text string) {
		a, ok := r.accelerator(path, at, text)
		if ok && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range r.items(n) {
			if s, ok := r.text(path, item); ok {
				add(item, s)
			}
		}
	case yaml.MappingNode:
		for _, p := range r.pairs(path, n) {
			text := p.name
			if !isNull(p.val) {
				count, ok := r.text(path, p.val)
				if !ok {
					continue
				}
				text += ":" + count
			}
			add(p.key, text)
		}
	default:
		if s, ok := r.text(path, n); ok {
			add(n, s)
		}
	}
	return out
}

func (r *reader) accelerator(path string, n *yaml.Node, text string) (events.Accelerator, bool) {
	model, count, counted := strings.Cut(text, ":")
	model = strings.TrimSpace(model)
	a := events.Accelerator{Model: model, Count: 1}
	if counted {
		v, err := strconv.Atoi(strings.TrimSpace(count))
		if err != nil || v < 1 || v > maxGPUs {
			r.refuse(placeOf(n), path, "write a model and a whole number from 1 to 64, such as V100:1", "accelerator %s has no usable count", quoted(text))
			return a, false
		}
		a.Count = v
	}
	switch {
	case !acceleratorName.MatchString(model):
		r.refuse(placeOf(n), path, "write a model and how many, such as V100:1", "accelerator %s is not a model's name", quoted(text))
		return a, false
	case strings.HasPrefix(strings.ToLower(model), "tpu-"):
		r.refuse(placeOf(n), path, "ask for a GPU", "accelerator %s is a TPU, which no seller here has", quoted(text))
		return a, false
	}
	return a, true
}
