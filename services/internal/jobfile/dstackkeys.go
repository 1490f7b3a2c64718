package jobfile

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// env reads NAME=VALUE, or NAME for one that the command line must give. What
// may be a credential becomes a secret, and its value is left out.
func (d *dstack) env(n *yaml.Node) {
	one := func(at *yaml.Node, name, value string, given bool) {
		switch {
		case isSecret(name, value) || !given && soundsSecret(name):
			if given {
				d.warn(placeOf(at), "env", "give it with --secret "+printable(name), "the value of %s is left out: it looks like a credential", quoted(name))
			}
			d.secrets = append(d.secrets, name)
		case !given:
			d.envs = append(d.envs, assignment{name, "\x00"})
		default:
			d.envs = append(d.envs, assignment{name, value})
		}
	}
	if n.Kind == yaml.MappingNode {
		for _, p := range d.pairs("env", n) {
			if isNull(p.val) {
				one(p.key, p.name, "", false)
			} else if s, ok := d.text("env", p.val); ok {
				one(p.key, p.name, s, true)
			}
		}
		return
	}
	for _, item := range d.items(n) {
		if s, ok := d.text("env", item); ok {
			name, value, given := strings.Cut(s, "=")
			one(item, name, value, given)
		}
	}
}

func (d *dstack) instanceTypes(p pair) {
	types := d.list(p.val)
	if len(types) == 1 {
		d.resources = append(d.resources, assignment{"instance_type", types[0]})
		return
	}
	d.without(p, "one instance_type can be asked for, not several; accelerators, cpus and memory say what is good enough")
}

var dstackSpan = regexp.MustCompile(`^([0-9]+)(s|m|h|d|w)?$`)

func (d *dstack) duration(n *yaml.Node) {
	s, ok := d.text("max_duration", n)
	if !ok || s == "off" || s == "-1" || s == "false" {
		return
	}
	m := dstackSpan.FindStringSubmatch(s)
	if m == nil {
		d.warn(placeOf(n), "max_duration", "write policy.max_duration", "max_duration %s is not understood", quoted(s))
		return
	}
	v, _ := strconv.ParseInt(m[1], 10, 32)
	d.maxSeconds = v * map[string]int64{"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[m[2]]
}

func (d *dstack) retry(p pair) {
	if p.val.Kind != yaml.MappingNode {
		if v, ok := d.yesNo("retry", p.val); ok && v {
			d.recovery = true
		}
		return
	}
	for _, q := range d.pairs("retry", p.val) {
		switch q.name {
		case "on_events":
			d.recovery = d.recovery || slices.Contains(d.list(q.val), "error")
		default:
			d.without(pair{q.key, "retry." + q.name, q.val}, "a job that has no machine waits for one as long as its budget and deadline allow")
		}
	}
}

// files maps local paths to paths on the machine; where one is not below the
// job's own directories the reader will say so.
func (d *dstack) files(p pair) {
	for _, item := range d.items(p.val) {
		from, to := "", ""
		if item.Kind == yaml.MappingNode {
			for _, a := range d.assignments(item) {
				switch a.name {
				case "local_path":
					from = a.value
				case "path":
					to = a.value
				}
			}
		} else if s, ok := d.text("files", item); ok {
			from, to, _ = strings.Cut(s, ":")
		}
		if to == "" {
			to = path.Base(path.Clean(from))
		}
		if from != "" {
			d.mounts = append(d.mounts, assignment{strings.Replace(to, "/root/", "~/", 1), from})
		}
	}
}

func (d *dstack) repos(p pair) {
	list := []*yaml.Node{p.val}
	if p.val.Kind == yaml.SequenceNode {
		list = d.items(p.val)
	}
	if len(list) != 1 {
		d.without(p, "one working directory travels with a job")
		return
	}
	if list[0].Kind != yaml.MappingNode {
		if s, ok := d.text("repos", list[0]); ok {
			from, _, _ := strings.Cut(s, ":")
			if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "git@") {
				d.workdir = []string{"workdir:", "  url: " + quote(s)}
				return
			}
			d.workdir = []string{"workdir: " + quote(from)}
		}
		return
	}
	var url, ref string
	for _, a := range d.assignments(list[0]) {
		switch a.name {
		case "url":
			url = a.value
		case "branch", "hash":
			ref = a.value
		case "local_path":
			d.workdir = []string{"workdir: " + quote(a.value)}
		}
	}
	if url != "" {
		d.workdir = []string{"workdir:", "  url: " + quote(url)}
		if ref != "" {
			d.workdir = append(d.workdir, "  ref: "+quote(ref))
		}
	}
}
