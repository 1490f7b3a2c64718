package jobfile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// draft is a YAML file being written, line by line.
type draft struct{ b strings.Builder }

func (w *draft) line(depth int, format string, args ...any) {
	w.b.WriteString(strings.Repeat("  ", depth) + fmt.Sprintf(format, args...) + "\n")
}

// quote is a text as a YAML value that reads as that text.
func quote(s string) string {
	b, err := yaml.Marshal(s)
	if err != nil || strings.Contains(strings.TrimRight(string(b), "\n"), "\n") {
		return fmt.Sprintf("%q", s)
	}
	return strings.TrimRight(string(b), "\n")
}

func (w *draft) assignments(depth int, list []assignment) {
	for _, a := range list {
		if a.value == "\x00" {
			w.line(depth, "%s: # to be given with --env", quote(a.name))
			continue
		}
		w.line(depth, "%s: %s", quote(a.name), quote(a.value))
	}
}

func (w *draft) block(key, text string) {
	w.line(0, "\n%s: |", key)
	for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		w.line(0, "%s", strings.TrimRight("  "+l, " "))
	}
}

func (d *dstack) write() string {
	w := &draft{}
	w.line(0, "# Converted from dstack. Look at every ?, which must be filled in, and at these:")
	for _, l := range d.lost {
		w.line(0, "#   %s", l)
	}
	if len(d.lost) == 0 {
		w.line(0, "#   (everything else has a counterpart)")
	}
	w.line(0, "")
	if d.name != "" {
		w.line(0, "name: %s", quote(d.name))
	}
	for _, l := range d.workdir {
		w.line(0, "%s", l)
	}
	if d.nodes != "" {
		w.line(0, "num_nodes: %s", quote(d.nodes))
	}
	d.writeGiven(w)
	w.block("run", d.run)
	d.writeResources(w)
	d.writePolicy(w)
	return w.b.String()
}

func (d *dstack) writeGiven(w *draft) {
	if len(d.envs) > 0 {
		w.line(0, "\nenvs:")
		w.assignments(1, d.envs)
	}
	if len(d.secrets) > 0 {
		w.line(0, "\nsecrets:")
		for _, name := range d.secrets {
			w.line(1, "%s: null # to be given with --secret", quote(name))
		}
	}
	if len(d.mounts) > 0 {
		w.line(0, "\nfile_mounts:")
		w.assignments(1, d.mounts)
	}
}

func (d *dstack) writeResources(w *draft) {
	places := d.places()
	if len(d.gpus)+len(d.resources)+len(places)+len(d.labels) == 0 && !d.recovery {
		return
	}
	w.line(0, "\nresources:")
	switch len(d.gpus) {
	case 0:
	case 1:
		w.line(1, "accelerators: %s", quote(d.gpus[0]))
	default:
		w.line(1, "accelerators: # any of them")
		for _, g := range d.gpus {
			w.line(2, "- %s", quote(g))
		}
	}
	w.assignments(1, d.resources)
	switch len(places) {
	case 0:
	case 1:
		w.line(1, "infra: %s", quote(places[0]))
	default:
		w.line(1, "any_of:")
		for _, p := range places {
			w.line(2, "- infra: %s", quote(p))
		}
	}
	if d.recovery {
		w.line(1, "job_recovery:")
		w.line(2, "max_restarts_on_errors: 3 # dstack would go on for as long as retry.duration")
	}
	if len(d.labels) > 0 {
		w.line(1, "labels:")
		w.assignments(2, d.labels)
	}
}

// places are every backend with every region and zone that was named.
func (d *dstack) places() (out []string) {
	any := func(list []string) []string {
		if len(list) == 0 {
			return []string{"*"}
		}
		return list
	}
	for _, b := range any(d.backends) {
		for _, r := range any(d.regions) {
			for _, z := range any(d.zones) {
				p := strings.TrimRight(strings.Join([]string{b, r, z}, "/"), "/*")
				if p != "" && !slices.Contains(out, p) {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

func (d *dstack) writePolicy(w *draft) {
	w.line(0, "\npolicy:")
	if b, ok := d.budget(); ok {
		w.line(1, "budget: %s # max_price for all of max_duration: the most it could have cost", quote("$"+b))
	} else {
		w.line(1, "budget: \"?\" # the most the job may ever cost: nothing is bought without a limit")
	}
	if d.maxPrice != "" {
		w.line(1, "max_price: %s", quote(d.maxPrice))
	}
	if d.maxSeconds > 0 {
		w.line(1, "max_duration: %s", spanText(time.Duration(d.maxSeconds)*time.Second))
	}
	if d.spot != "" {
		w.line(1, "spot: {policy: %s}", d.spot)
	} else {
		w.line(1, "spot: {policy: on-demand} # dstack's default; auto takes spot where that pays")
	}
}
