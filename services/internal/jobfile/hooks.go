package jobfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/events"
)

// maxHooks bounds what a notice, which may be 30 seconds long, is spent on.
const maxHooks = 8

// readHooks reads SkyPilot's lifecycle hooks. Of its events only preemption
// exists here: a job's machine is not stopped to be started again.
func (r *reader) readHooks(path string, n *yaml.Node) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = r.items(n)
	}
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if item.Kind != yaml.MappingNode {
			r.refuse(placeOf(item), path, "write {run: ..., events: [preemption]}", "%s is %s", at, kindOf(item))
			continue
		}
		r.hook(at, item)
	}
	if len(r.job.Spec.OnNotice) > maxHooks {
		r.refuse(placeOf(n), path, "join them into one script", "there are %d hooks on a preemption; at most %d fit", len(r.job.Spec.OnNotice), maxHooks)
	}
}

func (r *reader) hook(path string, n *yaml.Node) {
	h := events.Hook{}
	on := []string{"stop", "preemption", "down"}
	good := true
	for _, p := range r.pairs(path, n) {
		full := join(path, printable(p.name))
		switch p.name {
		case "run":
			h.Run, _ = r.commands(full, p.val)
		case "events":
			on, good = r.hookEvents(full, p.val)
		case "timeout":
			h.TimeoutS, good = r.whole(full, p.val, 1, 24*3600)
		default:
			r.refuse(placeOf(p.key), full, "the keys here are run, events, timeout", "there is no key %s in %s", quoted(p.name), path)
			good = false
		}
		if !good {
			return
		}
	}
	switch {
	case strings.TrimSpace(h.Run) == "":
		r.refuse(placeOf(n), path, "write run: with the commands", "%s has no run", path)
	case !slices.Contains(on, "preemption"):
		r.warn(placeOf(n), path, "add preemption to its events, or leave it out", "%s never runs: a machine here ends with the job, or is taken", path)
	default:
		r.job.Spec.OnNotice = append(r.job.Spec.OnNotice, h)
		if len(on) > 1 {
			r.note(placeOf(n), path, "%s runs when the seller gives notice, and at no other end of a machine; it gets what is left of the notice", path)
		}
	}
}

func (r *reader) hookEvents(path string, n *yaml.Node) (out []string, good bool) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = r.items(n)
	}
	for _, item := range list {
		s, ok := r.choice(path, item, "stop", "preemption", "down")
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, len(out) > 0
}
