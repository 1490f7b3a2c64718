package framework

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// nemo is what NeMo's ModelCheckpoint writes: directories, or .ckpt files, in
// the older form one for each model-parallel rank, with step=N in their names;
// and beside each, from before its first byte until after its last, a marker
// with the ending -unfinished. Read in nemo/lightning/pytorch/callbacks/
// model_checkpoint.py and nemo/utils/callbacks/nemo_model_checkpoint.py.
//
// At its start NeMo deletes what has a marker, so a restore takes it away.
func nemo() layout {
	return layout{
		name:   "nemo",
		find:   findNeMo,
		claims: claimsNeMo,
		check: func(s *sight) (string, error) {
			if own, _ := find(s.entries, s.in); own.mode.IsDir() && len(s.entries) < 2 {
				return fmt.Sprintf("%q is empty", s.in), nil
			}
			return "", nil
		},
		once: writtenOnce,
		finish: func(a *adapter, root *os.Root, name string) (string, error) {
			at, err := a.where(root, name, nemoName)
			if err != nil {
				return "", err
			}
			for _, marker := range unfinishedMarkers(at) {
				if err := remove(root, marker); err != nil {
					return "", err
				}
			}
			return at, nil
		},
		signal: func(a *adapter) (string, string) {
			if strings.Contains(strings.ToLower(a.cfg.Run), "preemption") {
				return "SIGTERM", "NeMo's PreemptionCallback saves on SIGTERM"
			}
			return "", "NeMo saves on SIGTERM only with its PreemptionCallback; if the script has it, say signal: SIGTERM in the job file"
		},
	}
}

var (
	nemoName = regexp.MustCompile(`[^a-z]step=\d+`)
	nemoOwn  = regexp.MustCompile(`--.*[^a-z]step=\d+|[^a-z]step=\d+.*consumed_samples`)
	nemoRank = regexp.MustCompile(`^(mp|tp)_rank_\d+(_pp_rank_\d+)?$`)
	shortEnd = regexp.MustCompile(`(-EMA)?\.(ckpt|nemo)$|-EMA$`)
)

const unfinished = "-unfinished"

// unfinishedMarkers returns where NeMo puts the marker of a checkpoint's member.
func unfinishedMarkers(member string) []string {
	plain := shortEnd.ReplaceAllString(member, "") + unfinished
	if dir := path.Dir(plain); nemoRank.MatchString(path.Base(dir)) {
		return []string{plain, path.Join(path.Dir(dir), path.Base(plain))}
	}
	return []string{plain}
}

func claimsNeMo(root *os.Root, _ []string, found []Candidate) bool {
	if slices.ContainsFunc(found, func(c Candidate) bool { return nemoOwn.MatchString(c.Name) }) {
		return true
	}
	marked := false
	_ = besides(root, func(at string, _ fs.DirEntry) {
		marked = marked || strings.HasSuffix(at, unfinished) && nemoName.MatchString(at)
	})
	return marked
}

func findNeMo(_ *adapter, root *os.Root, _ []string) ([]Candidate, error) {
	members := map[string][]string{}
	add := func(at string, d fs.DirEntry) {
		base := d.Name()
		if !nemoName.MatchString("-"+base) || strings.HasSuffix(base, unfinished) || strings.HasPrefix(base, ".") {
			return
		}
		if d.IsDir() || d.Type().IsRegular() && strings.HasSuffix(base, ".ckpt") {
			name := strings.TrimSuffix(base, ".ckpt")
			members[name] = append(members[name], at)
		}
	}
	err := besides(root, func(at string, d fs.DirEntry) {
		add(at, d)
		if d.IsDir() && nemoRank.MatchString(d.Name()) {
			inner, err := fs.ReadDir(root.FS(), at)
			if err != nil {
				return // it is gone, or will be seen the next time
			}
			for _, file := range inner {
				add(path.Join(at, file.Name()), file)
			}
		}
	})
	var cs []Candidate
	for name, at := range members {
		m := ckptStep.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		c := Candidate{Name: name, Step: number(m[1]), Files: at}
		if len(at) == 1 && at[0] == name {
			c.Files = nil
		}
		slices.Sort(c.Files)
		cs = append(cs, c)
	}
	return cs, err
}
