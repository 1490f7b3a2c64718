package jobfile

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const maxCaches = 16

// readCaches reads the directories that outlive a machine on its host.
func (r *reader) readCaches(field string, n *yaml.Node) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = r.items(n)
	}
	const remedy = "write directories of the home directory, such as [~/.cache/huggingface]"
	var out []string
	for _, item := range list {
		s, ok := r.text(field, item)
		if !ok {
			continue
		}
		rest, below := strings.CutPrefix(s, "~/")
		clean := path.Clean(rest)
		switch why := checkPath(s); {
		case why != "":
			r.refuse(placeOf(item), field, remedy, "a cache is %s: %s", quoted(s), why)
		case !below || strings.ContainsAny(s, "\\$") || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || path.IsAbs(clean):
			r.refuse(placeOf(item), field, remedy, "the cache %s is not below the home directory", quoted(s))
		case !slices.Contains(out, "~/"+clean):
			out = append(out, "~/"+clean)
		}
	}
	if len(out) > maxCaches {
		r.refuse(placeOf(n), field, "name what is above them", "there are %d caches; at most %d fit", len(out), maxCaches)
	}
	r.job.Spec.Caches = out
}
