package jobfile

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/events"
)

// FromDstack writes a dstack task as a job file. What dstack says and a job file
// cannot is in the comments of the result and among the problems; where a job
// file must say what dstack does not, the result has a ? that Read refuses, so
// that nothing is made up. The error is an *Error when there is no task to convert.
func FromDstack(name string, src []byte) (string, []Problem, error) {
	r := newReader(name, src, Options{})
	d := &dstack{reader: r, drop: dropped()}
	if root := r.document(); root != nil {
		d.read(root)
	}
	if _, err := r.result(); err != nil {
		return "", nil, err
	}
	inOrder(r.found)
	return d.write(), r.found, nil
}

// dstack is a task of dstack's as far as a job file can say it.
type dstack struct {
	*reader
	drop map[string]string // keys without counterpart, and what to do instead

	name, run  string
	workdir    []string // lines
	envs       []assignment
	secrets    []string
	mounts     []assignment
	nodes      string
	gpus       []string
	resources  []assignment
	backends   []string
	regions    []string
	zones      []string
	labels     []assignment
	spot       string
	maxPrice   string
	maxSeconds int64
	recovery   bool // restarts on errors were wanted
	lost       []string
}

type assignment struct{ name, value string }

// dropped are the keys that have no counterpart, with what to do instead.
func dropped() map[string]string {
	const container = "commands run on the machine itself; install what the image held in setup"
	return map[string]string{
		"image": container, "docker": container, "privileged": container, "entrypoint": container, "registry_auth": container, "user": container,
		"home_dir": container, "shell": "scripts are run by bash", "python": "install it in setup: uv venv --python VERSION", "nvcc": "install it in setup",
		"volumes": "what must last belongs below policy.checkpoint.dir", "ports": "nothing reaches a machine from outside",
		"single_branch": "a repository is fetched at one commit", "stop_duration": "how long a save may take is policy.checkpoint.on_notice.grace",
		"utilization_policy": "a job that makes no progress is found by policy.progress_timeout", "idle_duration": "a machine ends with its job",
		"inactivity_duration": "a machine ends with its job", "creation_policy": "machines are bought for each job", "fleets": "machines are bought for each job",
		"reservation": "capacity is bought as it is offered", "priority": "jobs do not queue for machines", "schedule": "submit it when it is to run",
		"startup_order": "there is one node", "stop_criteria": "there is one node", "backend_options": "sellers are asked in one way only",
	}
}

func (d *dstack) read(n *yaml.Node) {
	kind := false
	for _, p := range d.pairs("", n) {
		d.at[p.name] = placeOf(p.val)
		kind = kind || p.name == "type"
		if asksNothing(p.val) {
			continue
		}
		d.key(p)
	}
	switch {
	case !kind:
		d.refuse(place{1, 1}, "type", "convert files with type: task", "this is no configuration of dstack's: type is missing")
	case strings.TrimSpace(d.run) == "":
		d.refuse(place{1, 1}, "commands", "write what the image would run as commands", "commands is missing: what the image runs by itself is not known here")
	}
}

func (d *dstack) key(p pair) {
	switch p.name {
	case "type":
		if s, ok := d.text("type", p.val); ok && s != "task" {
			d.refuse(placeOf(p.val), "type", "only a task comes to an end, as a job does", "type is %s", quoted(s))
		}
	case "name":
		d.name, _ = d.text("name", p.val)
	case "commands":
		d.run = d.script(p.val)
	case "env":
		d.env(p.val)
	case "nodes":
		d.nodes, _ = d.text("nodes", p.val)
	case "resources":
		d.wants(p.val)
	case "backends":
		d.backends = d.list(p.val)
	case "regions":
		d.regions = d.list(p.val)
	case "availability_zones":
		d.zones = d.list(p.val)
	case "instance_types":
		d.instanceTypes(p)
	case "spot_policy":
		d.spot, _ = d.choice("spot_policy", p.val, "spot", "on-demand", "auto")
	case "max_price":
		d.maxPrice, _ = d.text("max_price", p.val)
	case "max_duration":
		d.duration(p.val)
	case "retry":
		d.retry(p)
	case "tags":
		d.labels = d.assignments(p.val)
	case "files":
		d.files(p)
	case "repos":
		d.repos(p)
	case "working_dir":
		d.without(p, "commands begin in the working directory; begin them with cd")
	default:
		instead, known := d.drop[p.name]
		if !known {
			instead = "it is not known here"
		}
		d.without(p, instead)
	}
}

// without notes a key that has no counterpart, in the result and as a warning.
func (d *dstack) without(p pair, instead string) {
	d.warn(placeOf(p.key), printable(p.name), "", "%s has no counterpart: %s", quoted(p.name), instead)
	d.lost = append(d.lost, printable(p.name)+" has no counterpart: "+instead)
}

// script joins commands as dstack does: the first that fails ends them.
func (d *dstack) script(n *yaml.Node) string {
	lines := d.list(n)
	if len(lines) == 0 {
		return ""
	}
	text := strings.Join(lines, "\n")
	var export []string
	for name, value := range map[string]string{
		"DSTACK_GPUS_NUM": "$SKYPILOT_NUM_GPUS_PER_NODE", "DSTACK_GPUS_PER_NODE": "$SKYPILOT_NUM_GPUS_PER_NODE",
		"DSTACK_NODES_NUM": "1", "DSTACK_NODE_RANK": "0", "DSTACK_MASTER_NODE_IP": "127.0.0.1", "DSTACK_NODES_IPS": "127.0.0.1",
		"DSTACK_RUN_NAME": "$SPOTFERRY_JOB_ID", "DSTACK_WORKING_DIR": "$PWD", "DSTACK_REPO_DIR": "$PWD",
	} {
		if strings.Contains(text, name) {
			export = append(export, name+"="+value)
		}
	}
	head := "set -e\n"
	if slices.Sort(export); len(export) > 0 {
		head += "export " + strings.Join(export, " ") + "\n"
	}
	return head + strings.TrimRight(text, "\n") + "\n"
}

func (d *dstack) list(n *yaml.Node) []string {
	if n.Kind != yaml.SequenceNode {
		if s, ok := d.text("a list", n); ok {
			return []string{s}
		}
		return nil
	}
	var out []string
	for _, item := range d.items(n) {
		if s, ok := d.text("an item of a list", item); ok {
			out = append(out, s)
		}
	}
	return out
}

func (d *dstack) assignments(n *yaml.Node) (out []assignment) {
	if n.Kind != yaml.MappingNode {
		d.refuse(placeOf(n), "", "write name: value below it", "a mapping is expected here, not %s", kindOf(n))
		return nil
	}
	for _, p := range d.pairs("", n) {
		if s, ok := d.text(printable(p.name), p.val); ok {
			out = append(out, assignment{p.name, s})
		}
	}
	return out
}

// budget is the most the task could have cost under dstack's own limits, if both were given.
func (d *dstack) budget() (string, bool) {
	price, err := events.ParsePerInstanceHour(d.maxPrice)
	if err != nil || d.maxSeconds == 0 {
		return "", false
	}
	nano := new(big.Int).Mul(big.NewInt(int64(price)), big.NewInt(d.maxSeconds))
	micro := nano.Div(nano, big.NewInt(3600*1000))
	if !micro.IsInt64() || micro.Int64() <= 0 {
		return "", false
	}
	exact := fmt.Sprintf("%d.%06d", micro.Int64()/1_000_000, micro.Int64()%1_000_000)
	return strings.TrimSuffix(strings.TrimRight(exact, "0"), "."), true
}
