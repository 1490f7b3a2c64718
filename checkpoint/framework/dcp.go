package framework

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// dcp is torch.distributed.checkpoint: a directory with a file for each rank and
// writer thread, __R_k.distcp, and .metadata, which the coordinator writes when
// all ranks have finished and, since torch 2.2, renames into place. Read in
// torch/distributed/checkpoint/filesystem.py. The step is the last number of the
// directory's name, for only the script knows it.
func dcp() layout {
	return layout{
		name: "dcp",
		find: findDCP,
		claims: func(root *os.Root, _ []string, found []Candidate) bool {
			return slices.ContainsFunc(found, func(c Candidate) bool {
				inner, err := readNames(root, c.Name)
				return err == nil && len(inner) > 0
			})
		},
		check: func(s *sight) (string, error) { return s.wantMetadata("") },
		once:  regexp.MustCompile(`\.(distcp|safetensors)$`),
		mute:  "torch.distributed.checkpoint has no signal of its own",
	}
}

var shardName = regexp.MustCompile(`__\d+_\d+\.distcp`)

func findDCP(_ *adapter, root *os.Root, names []string) ([]Candidate, error) {
	var cs []Candidate
	for _, name := range names {
		step, ok := lastNumber(name)
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		if info, err := root.Lstat(name); err != nil || !info.IsDir() {
			continue
		}
		inner, err := readNames(root, name)
		if err == nil && (len(inner) == 0 || slices.ContainsFunc(inner, func(n string) bool {
			return n == ".metadata" || n == ".metadata.tmp" || shardName.MatchString(n)
		})) { // an empty one has been begun
			cs = append(cs, Candidate{Name: name, Step: step})
		}
	}
	return cs, nil
}

func (s *sight) wantMetadata(dir string) (string, error) {
	name := path.Join(dir, ".metadata")
	if _, ok := s.file(name); !ok {
		return fmt.Sprintf("%q is not there yet", path.Join(s.in, name)), nil
	}
	return "", nil
}

// shards checks every tree of torch's in a candidate: shards have metadata
// beside them, and what the metadata names is there.
func (s *sight) shards() (string, error) {
	for _, e := range s.entries {
		base := path.Base(e.path)
		switch {
		case !e.mode.IsRegular():
		case strings.HasSuffix(base, ".distcp"):
			if _, ok := find(s.entries, path.Dir(e.path)+"/.metadata"); !ok {
				return fmt.Sprintf("%q has no .metadata beside it yet", e.path), nil
			}
		case base == ".metadata":
			if why, err := s.metadata(e); why != "" || err != nil {
				return why, err
			}
		}
	}
	return "", nil
}

// metadata looks into the pickle that lists a tree's shards. Versions before
// torch 2.2 write it under its own name, so it may be cut short.
func (s *sight) metadata(e entry) (string, error) {
	b, err := readFile(s.root, e)
	if err != nil {
		return "", err
	}
	if len(b) < 2 || b[0] != 0x80 || b[len(b)-1] != '.' {
		return fmt.Sprintf("%q is cut short", e.path), nil
	}
	for _, name := range shardName.FindAll(b, -1) {
		if _, ok := find(s.entries, path.Join(path.Dir(e.path), string(name))); !ok {
			return fmt.Sprintf("%q names %q, which is not there", e.path, name), nil
		}
	}
	return "", nil
}
