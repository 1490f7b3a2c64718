package jobfile

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/events"
)

const (
	maxSecrets     = 100
	maxSecretBytes = 256 << 10 // of all values: sealed they travel in one message
)

// readSecrets reads names with or without values, or a list of names. A value
// becomes an events.Secret at once, and nothing here quotes one.
func (r *reader) readSecrets(path string, n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for _, p := range r.pairs(path, n) {
			if isNull(p.val) {
				r.secrets[p.name] = secret{at: placeOf(p.key)}
				continue
			}
			if value, ok := r.text(join(path, printable(p.name)), p.val); ok {
				r.secrets[p.name] = secret{placeOf(p.key), events.NewSecret(value), true}
				if value != "" {
					r.warn(placeOf(p.key), path, "write "+printable(p.name)+": null and give it with --secret "+printable(p.name),
						"secret %s stands in the file itself", quoted(p.name))
				}
			}
		}
	case yaml.SequenceNode:
		for _, item := range r.items(n) {
			if name, ok := r.text(path, item); ok {
				r.secrets[name] = secret{at: placeOf(item)}
			}
		}
	default:
		r.refuse(placeOf(n), path, "write NAME: null below it, or a list of names", "secrets is %s", kindOf(n))
	}
}

// secret is a variable that nobody may see.
type secret struct {
	at    place
	value events.Secret
	given bool
}

// sealed joins the file's secrets with the command line's and checks both. One
// from the command line takes the place of a variable of that name: many files
// leave a token empty below envs, to be given at submission.
func (r *reader) sealed() {
	for name, value := range r.opt.Secrets {
		at := r.secrets[name].at
		if v, plain := r.envs[name]; plain {
			at = v.at
			delete(r.envs, name)
		}
		r.secrets[name] = secret{at, value, true}
	}
	out, size := map[string]events.Secret{}, 0
	for _, name := range slices.Sorted(maps.Keys(r.secrets)) {
		s := r.secrets[name]
		_, inFile := r.envs[name]
		_, onLine := r.opt.Env[name]
		wrong, remedy := checkVariable(name, s.value.Reveal())
		switch {
		case wrong != "":
		case inFile || onLine:
			wrong, remedy = "is an environment variable too", "keep it among the secrets only"
		case !s.given:
			wrong, remedy = "has no value", "give it on the command line: --secret "+name+" takes this shell's, --secret "+name+"=... another"
		}
		if wrong != "" {
			r.refuse(s.at, "secrets", remedy, "secret %s %s", quoted(name), wrong)
			continue
		}
		out[name] = s.value
		size += len(name) + len(s.value.Reveal())
	}
	if len(out) > maxSecrets || size > maxSecretBytes {
		r.refuse(r.at["secrets"], "secrets", "let setup fetch files from where the machine may read them", "there are %d secrets of %d bytes; at most %d of %d fit", len(out), size, maxSecrets, maxSecretBytes)
		return
	}
	if len(out) > 0 {
		r.job.Secrets, r.job.Spec.Secrets = out, slices.Sorted(maps.Keys(out))
	}
}
