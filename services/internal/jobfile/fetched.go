package jobfile

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/checkpoint/input"
)

var scheme = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*)://`)

func remote(s string) bool { return scheme.MatchString(s) }

// there returns n when s is a path on this machine, or what machines can fetch
// by themselves, and refuses it otherwise.
func (r *reader) there(field, s string, n *yaml.Node) *yaml.Node {
	m := scheme.FindStringSubmatch(s)
	if m == nil {
		return n
	}
	if strings.Contains(s, "$") {
		r.refuse(placeOf(n), field, "write it out", "%s is %s: variables are not filled in", field, quoted(s))
		return nil
	}
	_, err := input.Parse(s)
	if err == nil {
		return n
	}
	kind := strings.ToLower(m[1])
	if !slices.Contains([]string{"s3", "gs", "http", "https", "hf"}, kind) {
		r.refuse(placeOf(n), field, "write s3:// with AWS_ENDPOINT_URL for what speaks its protocol, or fetch it in setup: "+fetchCommand(kind), "%s comes from %s://, which machines do not fetch by themselves", field, kind)
		return nil
	}
	why, remedy := err.Error(), "write it as its own tools do"
	if refused, ok := errors.AsType[*input.Refusal](err); ok {
		why, remedy = refused.What, refused.Remedy
	}
	r.refuse(placeOf(n), field, remedy, "%s: %s", field, printable(why))
	return nil
}

// fetched is a mount that machines fetch. An address has one file, which keeps
// its name in a directory.
func (r *reader) fetched(p pair, to, from string) Mount {
	m := Mount{Path: to, Source: from}
	source, err := input.Parse(from)
	if err == nil && strings.HasPrefix(source.Scheme, "http") && (strings.HasSuffix(p.name, "/") || to == "~" || to == ".") {
		m.Path = path.Join(to, source.Base())
	}
	r.at["file_mounts "+from] = placeOf(p.key)
	return m
}

// keysOfMounts says which buckets are read without keys, as nobody gave any.
func (r *reader) keysOfMounts() {
	for _, m := range r.job.Mounts {
		source, err := input.Parse(m.Source)
		if m.Source == "" || err != nil {
			continue
		}
		for _, name := range source.KeyVariables() {
			_, env := r.job.Spec.Envs[name]
			if env || slices.Contains(r.job.Spec.Secrets, name) {
				return
			}
		}
		if keys := source.KeyVariables(); len(keys) > 0 {
			r.note(r.at["file_mounts "+m.Source], "file_mounts", "%s is read without keys, as a public bucket; for another give the job %s as secrets", printable(m.Source), strings.Join(keys, " and "))
		}
	}
}

// fetchCommand is how a script fetches from a kind of store.
func fetchCommand(kind string) string {
	switch kind {
	case "az", "azure":
		return "azcopy copy https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH DIR --recursive"
	case "git", "ssh":
		return "git clone URL DIR"
	}
	return "rclone copy REMOTE:BUCKET/PATH DIR"
}
