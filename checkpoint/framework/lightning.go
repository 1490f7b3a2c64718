package framework

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// lightning is what Lightning's ModelCheckpoint writes: one archive by torch,
// epoch=E-step=S.ckpt unless the script names it otherwise, last.ckpt beside it
// or instead of it, and hpc_ckpt_k.ckpt on Slurm; in the root or in a directory
// "checkpoints" below it. With a sharding strategy the .ckpt is a directory.
//
// The archive is staged in $TMPDIR and moved, which on another device is a copy
// under the final name (lightning/fabric/utilities/cloud_io.py, fsspec's local
// file system). Its end comes last either way. A name without a step has it
// looked up in the archive.
func lightning() layout {
	return layout{
		name:   "lightning",
		find:   findLightning,
		check:  checkLightning,
		reused: regexp.MustCompile(`(^|/)last[^/]*\.ckpt$`),
		once:   regexp.MustCompile(`(^|/)[^/]*step=\d+[^/]*\.ckpt$|\.distcp$|_states\.pt$`),
		finish: finishLightning,
		signal: func(a *adapter) (string, string) {
			if strings.Contains(a.cfg.Run, "SLURM_") || strings.Contains(a.cfg.Run, "SLURMEnvironment") {
				return "SIGUSR1", "Lightning on Slurm saves on SIGUSR1"
			}
			return "", "outside Slurm, Lightning saves on no signal"
		},
	}
}

var (
	ckptStep     = regexp.MustCompile(`(?:^|[^a-z])step=?(\d+)`)
	strategyTree = regexp.MustCompile(`^checkpoint$`)
	ckptName     = regexp.MustCompile(`\.ckpt$`)
)

// maxDirs bounds the search for directories called checkpoints.
const maxDirs = 2000

// besides lists the entries, by path, of the root and of directories called
// "checkpoints" at most four levels down, where loggers put them.
func besides(root *os.Root, each func(at string, d fs.DirEntry)) error {
	dirs := 0
	err := fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) || p == ".":
			return nil
		case err != nil:
			return err
		}
		if in := path.Dir(p); in == "." || path.Base(in) == "checkpoints" {
			each(p, d)
		}
		if !d.IsDir() {
			return nil
		}
		if dirs++; dirs > maxDirs || strings.HasPrefix(d.Name(), ".") || ckptName.MatchString(p) ||
			path.Base(path.Dir(p)) == "checkpoints" || strings.Count(p, "/") >= 4 {
			return fs.SkipDir
		}
		return nil
	})
	return gone(err)
}

func findLightning(a *adapter, root *os.Root, _ []string) ([]Candidate, error) {
	newest := map[string]entry{} // by candidate; versions of a run may repeat a name
	err := besides(root, func(at string, d fs.DirEntry) {
		base, ok := strings.CutSuffix(d.Name(), ".ckpt")
		if !ok || base == "" || strings.HasPrefix(base, ".") || !d.IsDir() && !d.Type().IsRegular() {
			return
		}
		e, err := stat(root, at)
		if err == nil && (newest[base].path == "" || e.mtime > newest[base].mtime) {
			newest[base] = e
		}
	})
	if err != nil {
		return nil, err
	}
	var cs []Candidate
	for base, e := range newest {
		if step, ok := a.ckptStep(root, base, e); ok {
			cs = append(cs, Candidate{Name: base, Step: step, Files: []string{e.path}})
		}
	}
	return withoutTwins(a, cs), nil
}

// withoutTwins drops a last.ckpt beside the same save under a name of its own,
// which can be held without a copy.
func withoutTwins(a *adapter, cs []Candidate) []Candidate {
	named := map[int64]bool{}
	for _, c := range cs {
		named[c.Step] = named[c.Step] || !a.reused.MatchString(place(c))
	}
	return slices.DeleteFunc(cs, func(c Candidate) bool { return named[c.Step] && a.reused.MatchString(place(c)) })
}

// ckptStep returns the step of a .ckpt, once it can be told.
func (a *adapter) ckptStep(root *os.Root, base string, e entry) (int64, bool) {
	if m := ckptStep.FindStringSubmatch(base); m != nil {
		return number(m[1]), true
	}
	if e.mode.IsDir() { // a sharding strategy keeps it in a file of its own
		meta, err := stat(root, e.path+"/meta.pt")
		if err != nil {
			return 0, false
		}
		e = meta
	}
	return a.remembered(e, func() (int64, bool) { return pickled(pickle(root, e), "global_step") })
}

func checkLightning(s *sight) (string, error) {
	own, _ := find(s.entries, s.in)
	if !own.mode.IsDir() {
		return "", nil // the archive's end is checked for every file
	}
	for _, dir := range s.dirs(strategyTree) { // DeepSpeed's strategy
		return s.zero(dir, "latest")
	}
	if why, err := s.wantMetadata(""); why != "" || err != nil {
		return why, err
	}
	if _, ok := s.file("meta.pt"); !ok { // rank 0 writes it after the shards
		return fmt.Sprintf("%q is not there yet", s.in+"/meta.pt"), nil
	}
	return "", nil
}

// finishLightning also makes last.ckpt, which ckpt_path="last" looks for, point
// to what was restored, unless that is the last.ckpt of its own.
func finishLightning(a *adapter, root *os.Root, name string) (string, error) {
	at, err := a.where(root, name, ckptName)
	if err != nil {
		return "", err
	}
	base := path.Base(at)
	if strings.HasPrefix(base, "last") {
		return at, nil
	}
	last := path.Join(path.Dir(at), "last.ckpt")
	if info, err := root.Lstat(last); err == nil && info.Mode().Type() != fs.ModeSymlink {
		return at, nil // the trainer's own, which was not set aside
	}
	if err := remove(root, last); err != nil {
		return "", err
	}
	return at, root.Symlink(base, last)
}
