package jobfile

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const maxMounts = 64

// Mount is something to Pack besides the workdir, and where it is unpacked, or
// something that machines fetch by themselves.
type Mount struct {
	Path string // the directory on the machine: below "~", or below the working directory
	From string // what is packed here
	// Source is where machines fetch it from, and then nothing is packed; "": here.
	// Path may be a file's then.
	Source string
	// File, when From is one file, is its name in Path; "": From is a directory.
	File string
}

// readMounts reads file_mounts: what stands on the machine, by where it comes from.
func (r *reader) readMounts(field string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.refuse(placeOf(n), field, "write ~/on/the/machine: ./here below it", "file_mounts is %s", kindOf(n))
		return
	}
	for _, p := range r.pairs(field, n) {
		from, source := r.mountSource(p)
		if source == nil {
			continue
		}
		to, good := r.mountTarget(p)
		if !good {
			continue
		}
		if remote(from) {
			r.job.Mounts = append(r.job.Mounts, r.fetched(p, to, from))
			continue
		}
		if m, ok := r.local(to, from, source); ok {
			r.job.Mounts = append(r.job.Mounts, m)
		}
	}
	if len(r.job.Mounts) > maxMounts {
		r.refuse(placeOf(n), field, "put them into one directory", "there are %d file mounts; at most %d fit", len(r.job.Mounts), maxMounts)
	}
}

// mountTarget cleans a path on the machine. One outside the job's own
// directories is refused: it is the machine's, and on a machine of one's own
// that is the reader's disk.
func (r *reader) mountTarget(p pair) (string, bool) {
	s := p.name
	const field = "file_mounts"
	switch {
	case strings.ContainsAny(s, "\x00\n\\") || strings.Contains(s, "$") || checkPath(s) != "":
		r.refuse(placeOf(p.key), field, "write ~/data, or data for one below the working directory", "%s is no path on the machine", quoted(s))
		return "", false
	case path.IsAbs(s):
		r.refuse(placeOf(p.key), field, "write ~"+printable(path.Clean(s))+" here and in run: the home directory is the job's own", "%s is outside the job's own directories", quoted(s))
		return "", false
	}
	root, rest := "", s
	if s == "~" || strings.HasPrefix(s, "~/") {
		root, rest = "~", strings.TrimLeft(s[1:], "/")
	}
	clean := path.Clean(rest) // without ~, which for path is a name like any other
	if clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean, "~") {
		r.refuse(placeOf(p.key), field, "write ~/data, or data for one below the working directory", "%s leads out of the job's own directories", quoted(s))
		return "", false
	}
	return path.Join(root, clean), true
}

// checkPath says what is wrong with a path that people will read, or "".
func checkPath(s string) string {
	if len(s) > 1024 {
		return "it is too long"
	}
	if strings.ContainsFunc(s, turnsText) {
		return "it has invisible characters"
	}
	if s == "" {
		return "it is empty"
	}
	return ""
}

// mountSource returns what a mount comes from, or a nil node after refusing it.
func (r *reader) mountSource(p pair) (string, *yaml.Node) {
	field := join("file_mounts", printable(p.name))
	if p.val.Kind != yaml.MappingNode {
		s, ok := r.text(field, p.val)
		if !ok {
			return "", nil
		}
		return s, r.there(field, s, p.val)
	}
	var source, mode *yaml.Node
	var bucket []string
	for _, q := range r.pairs(field, p.val) {
		switch q.name {
		case "source":
			source = q.val
		case "mode":
			mode = q.val
		case "name", "store", "persistent", "config", "type":
			bucket = append(bucket, q.name)
		default:
			r.refuse(placeOf(q.key), field, "the keys here are source, mode, name, store, persistent", "there is no key %s in %s", quoted(q.name), field)
			return "", nil
		}
	}
	if source == nil || isNull(source) {
		r.refuse(placeOf(p.key), field, "leave it out, and let the trainer save below $SPOTFERRY_CHECKPOINT_DIR (policy.checkpoint.dir): that travels to every machine",
			"%s mounts a bucket of the job's own, which is not made here", field)
		return "", nil
	}
	s, ok := r.text(field+".source", source)
	if !ok || r.there(field+".source", s, source) == nil || !r.mountMode(field, mode, remote(s)) {
		return "", nil
	}
	if mode == nil || !strings.EqualFold(mode.Value, "COPY") {
		r.warn(placeOf(p.key), field, "save what must last below policy.checkpoint.dir", "%s is copied to the machine: what the job writes there stays there", field)
	}
	if len(bucket) > 0 {
		r.note(placeOf(p.key), field, "%s: no bucket is made of it; its files are copied to each machine, so %s is not consulted", field, strings.Join(bucket, ", "))
	}
	return s, source
}

func (r *reader) mountMode(field string, n *yaml.Node, remote bool) bool {
	if n == nil || isNull(n) {
		return true
	}
	s, ok := r.text(field+".mode", n)
	if ok && !slices.Contains([]string{"COPY", "MOUNT", "MOUNT_CACHED"}, strings.ToUpper(s)) {
		r.refuse(placeOf(n), field+".mode", "choose COPY", "%s.mode is %s", field, quoted(s))
		ok = false
	}
	if ok && remote && !strings.EqualFold(s, "COPY") {
		r.refuse(placeOf(n), field+".mode", "write mode: COPY for what the job reads, and save what it writes below $SPOTFERRY_CHECKPOINT_DIR (policy.checkpoint.dir): that travels to every machine",
			"%s.mode is %s: a bucket is copied to the machine and not mounted on it", field, quoted(s))
		ok = false
	}
	return ok
}

// local finds what is to be packed, so that nothing starts without it.
func (r *reader) local(to, from string, n *yaml.Node) (Mount, bool) {
	const field = "file_mounts"
	full, wrong := r.resolve(from)
	if wrong != "" {
		r.refuse(placeOf(n), field, "give a file or a directory that is here", "the source is %s: %s", quoted(from), wrong)
		return Mount{}, false
	}
	m := Mount{Path: to, From: full}
	if r.opt.Stat == nil {
		return m, true
	}
	switch info, err := r.opt.Stat(full); {
	case errors.Is(err, fs.ErrNotExist):
		r.refuse(placeOf(n), field, "give a file or a directory that is here", "the source is %s, and there is no %s", quoted(from), quoted(full))
		return m, false
	case err != nil:
		r.refuse(placeOf(n), field, "give one that can be read", "the source is %s: %s", quoted(from), printable(err.Error()))
		return m, false
	case info.Mode().IsRegular():
		m.Path, m.File = path.Dir(to), path.Base(to)
		if to == "~" || to == "." {
			m.Path, m.File = to, filepath.Base(full)
		}
	case !info.IsDir():
		r.refuse(placeOf(n), field, "give a file or a directory", "the source is %s, which is neither", quoted(from))
		return m, false
	}
	return m, true
}
