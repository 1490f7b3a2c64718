package jobfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (r *reader) readName(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	if wrong := checkName(s); wrong != "" {
		r.refuse(placeOf(n), path, "write a name that people can read, up to 128 characters", "name is %s: %s", quoted(s), wrong)
		return
	}
	r.job.Spec.Name = s
}

func (r *reader) readRun(path string, n *yaml.Node) {
	s, ok := r.commands(path, n)
	if ok && strings.TrimSpace(s) == "" {
		r.refuse(placeOf(n), path, "write the command that trains", "run is empty: the job would do nothing")
		return
	}
	r.job.Spec.Run = s
}

func (r *reader) readNodes(path string, n *yaml.Node) {
	if v, ok := r.whole(path, n, 1, 10_000); ok && v > 1 {
		r.refuse(placeOf(n), path, "set num_nodes: 1, or leave it out", "num_nodes is %d: machines are not bought in gangs yet", v)
	}
}

func (r *reader) readWorkdir(path string, n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		r.mapping(path, n)
		return
	}
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	dir, wrong := r.resolve(s)
	if wrong != "" {
		r.refuse(placeOf(n), path, "give a directory, such as workdir: .", "workdir is %s: %s", quoted(s), wrong)
		return
	}
	r.job.Workdir = dir
	if r.opt.Stat == nil {
		return
	}
	switch info, err := r.opt.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		r.refuse(placeOf(n), path, "give a directory that is there", "workdir is %s, and there is no %s", quoted(s), quoted(dir))
	case err != nil:
		r.refuse(placeOf(n), path, "give a directory that can be read", "workdir is %s: %s", quoted(s), printable(err.Error()))
	case !info.IsDir():
		r.refuse(placeOf(n), path, "give the directory it stands in", "workdir is %s, which is a file", quoted(s))
	}
}

// resolve turns what the file says into a path; wrong says why it cannot.
func (r *reader) resolve(s string) (dir, wrong string) {
	switch {
	case s == "":
		return "", "it is empty"
	case strings.ContainsRune(s, 0):
		return "", "it has a NUL"
	case strings.Contains(s, "$"):
		return "", "variables are not filled in"
	case strings.Contains(s, "://"):
		return "", "addresses are not read yet"
	case s == "~" || strings.HasPrefix(s, "~/"):
		if r.opt.Home == "" {
			return "", "there is no home directory here"
		}
		return filepath.Join(r.opt.Home, s[1:]), ""
	case filepath.IsAbs(s):
		return filepath.Clean(s), ""
	}
	return filepath.Join(r.opt.Dir, s), ""
}
