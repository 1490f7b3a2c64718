package jobfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// resources.job_recovery, and the older resources.spot_recovery.

// readRecovery reads the name of a strategy, or a mapping of settings.
func (r *reader) readRecovery(path string, n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		r.mapping(path, n)
		return
	}
	r.readStrategy(path, n)
}

func (r *reader) readStrategy(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	switch strings.ToUpper(s) {
	case "NONE":
		r.warn(placeOf(n), path, "cancel the job instead", "strategy none changes nothing: a job that loses its machine is always carried on")
	case "FAILOVER", "EAGER_NEXT_REGION", "EAGER_FAILOVER":
		r.note(placeOf(n), path, "strategy %s is not consulted: a job that loses its machine is carried on wherever it is cheapest to finish", quoted(s))
	default:
		r.refuse(placeOf(n), path, "choose one of FAILOVER, EAGER_NEXT_REGION, or leave it out", "strategy is %s", quoted(s))
	}
}

// readMaxRestarts reads how often a trainer that fails by itself is started
// again. No restarts at all is said as -1, since 0 is what nobody said.
func (r *reader) readMaxRestarts(path string, n *yaml.Node) {
	v, ok := r.whole(path, n, 0, 1000)
	if !ok {
		return
	}
	if v == 0 {
		v = -1
	}
	r.job.Spec.Policy.MaxRestarts = int(v)
}

func (r *reader) readRestartOnExit(path string, n *yaml.Node) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = r.items(n)
	}
	var out []int
	for _, item := range list {
		v, ok := r.whole(path, item, 0, 255)
		switch {
		case !ok:
		case v == 0:
			r.refuse(placeOf(item), path, "list the codes of failures, from 1 to 255", "exit code 0 is success: nothing is started again after it")
		case !slices.Contains(out, int(v)):
			out = append(out, int(v))
		}
	}
	slices.Sort(out)
	r.job.Spec.Policy.RestartOnExit = out
}
