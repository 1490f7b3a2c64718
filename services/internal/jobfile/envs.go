package jobfile

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	maxEnvs     = 1000
	maxEnvValue = 128 << 10 // Linux takes no longer string in an environment
)

// variable is an environment variable of the file. One without a value must be
// given on the command line.
type variable struct {
	at    place
	value string
	given bool
}

// ours are the variables that say where a script of SkyPilot's runs; those that
// begin with SPOTFERRY_ are ours too.
var ours = []string{
	"SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS", "SKYPILOT_NUM_NODES", "SKYPILOT_NUM_GPUS_PER_NODE", "SKYPILOT_TASK_ID", "SKYPILOT_JOB_ID",
	"SKYPILOT_SETUP_NODE_RANK", "SKYPILOT_SETUP_NODE_IPS", "SKYPILOT_SETUP_NUM_GPUS_PER_NODE",
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)

func (r *reader) readEnvs(path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.refuse(placeOf(n), path, "write NAME: value below it", "envs is %s", kindOf(n))
		return
	}
	for _, p := range r.pairs(path, n) {
		if isNull(p.val) {
			r.envs[p.name] = variable{at: placeOf(p.key)}
			continue
		}
		if value, ok := r.text(join(path, printable(p.name)), p.val); ok {
			r.envs[p.name] = variable{placeOf(p.key), value, true}
		}
	}
}

// environment joins the file's variables with the command line's and checks
// both. Values are never quoted: they may be what nobody should see.
func (r *reader) environment() {
	for name, value := range r.opt.Env {
		v := r.envs[name]
		r.envs[name] = variable{v.at, value, true}
	}
	if len(r.envs) > maxEnvs {
		r.refuse(r.at["envs"], "envs", "put them into a file of the workdir", "there are %d variables; at most %d fit", len(r.envs), maxEnvs)
		return
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.envs)) {
		v := r.envs[name]
		if wrong, remedy := checkEnv(name, v); wrong != "" {
			r.refuse(v.at, "envs", remedy, "environment variable %s %s", quoted(name), wrong)
			continue
		}
		if soundsSecret(name) && v.value != "" {
			r.warn(v.at, "envs", "if it is a credential, name it below secrets instead", "environment variable %s sounds like a credential; its value is kept in the job's record, in clear", quoted(name))
		}
		out[name] = v.value
	}
	if len(out) > 0 {
		r.job.Spec.Envs = out
	}
}

func checkEnv(name string, v variable) (wrong, remedy string) {
	if wrong, remedy = checkVariable(name, v.value); wrong != "" {
		return wrong, remedy
	}
	switch {
	case !v.given && soundsSecret(name):
		return "has no value", "give it on the command line: --secret " + name + " keeps it out of the job's record"
	case !v.given:
		return "has no value", "give it on the command line (--env " + name + "=...), or write \"\" for an empty one"
	case isSecret(name, v.value):
		return "looks like a credential: " + inClear, "give it with --secret " + name + " instead"
	}
	return "", ""
}

// checkVariable says what no variable may be, secret or not. It quotes no value.
func checkVariable(name, value string) (wrong, remedy string) {
	switch {
	case !envName.MatchString(name):
		return "is not a name", "use letters, digits and _, a letter first, up to 256 characters"
	case strings.HasPrefix(name, "SPOTFERRY_"), slices.Contains(ours, name):
		return "is set by the agent", "choose another name"
	case strings.ContainsRune(value, 0), !utf8.ValidString(value):
		return "has a value that is not text", "leave out the NUL, or what is not UTF-8"
	case len(value) >= maxEnvValue:
		return "has a value too long for an environment", "put it into a file of the workdir"
	}
	return "", ""
}
