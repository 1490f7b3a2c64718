package framework

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// orbax is what Orbax's CheckpointManager writes: a directory for each step,
// written as N.orbax-checkpoint-tmp… and renamed; or, where directories cannot
// be renamed, under its own name with commit_success.txt last. Read in
// orbax/checkpoint/_src/path/{atomicity,step}.py.
//
// On a disk the name is the proof. In a mounted bucket it is not; there the
// marker is, once one checkpoint has had it or the job file names it.
func orbax() layout {
	return layout{
		name: "orbax",
		find: func(_ *adapter, root *os.Root, names []string) ([]Candidate, error) {
			return numbered(root, ".", names, orbaxStep), nil
		},
		claims: claimsOrbax,
		check:  checkOrbax,
		once:   regexp.MustCompile(`/d/[0-9a-f]{32}$`),
		finish: finishOrbax,
		signal: func(*adapter) (string, string) {
			return "SIGTERM", "JAX saves at its preemption sync point after SIGTERM, if jax.distributed is initialised"
		},
	}
}

const committed = "commit_success.txt"

var (
	anyFile    = regexp.MustCompile(`.`)
	orbaxTimes = regexp.MustCompile(`(^|/)_CHECKPOINT_METADATA$`)
	orbaxStep  = regexp.MustCompile(`^(?:[A-Za-z][\w-]*_)?(\d+)$`)
	orbaxOwn   = regexp.MustCompile(`(^|/)(_CHECKPOINT_METADATA|_METADATA|manifest\.ocdbt|commit_success\.txt)$|\.orbax-checkpoint-tmp|^ocdbt\.process_\d+$`)
)

func claimsOrbax(root *os.Root, names []string, found []Candidate) bool {
	if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, ".orbax-checkpoint-tmp") }) {
		return true
	}
	for _, c := range found {
		inner, err := readNames(root, c.Name)
		if err != nil {
			continue
		}
		for _, n := range inner {
			deeper, err := readNames(root, path.Join(c.Name, n))
			if orbaxOwn.MatchString(n) || err == nil && slices.ContainsFunc(deeper, orbaxOwn.MatchString) {
				return true
			}
		}
	}
	return false
}

func checkOrbax(s *sight) (string, error) {
	if len(s.files(anyFile)) == 0 {
		return "nothing is in it yet", nil
	}
	if e, ok := s.file(committed); s.cfg.Marker == committed && (!ok || e.size == 0) {
		return fmt.Sprintf("%q is not there yet", path.Join(s.in, committed)), nil
	}
	for _, e := range s.files(orbaxTimes) {
		data, err := readFile(s.root, e)
		if err != nil {
			return "", err
		}
		var meta map[string]json.RawMessage
		if err := json.Unmarshal(data, &meta); err != nil {
			return fmt.Sprintf("%q does not parse: %v", e.path, err), nil
		}
		// Both times are written at the beginning, that of the commit as null.
		begun, ended := meta["init_timestamp_nsecs"], meta["commit_timestamp_nsecs"]
		if string(ended) == "null" && len(begun) > 0 && string(begun) != "null" {
			return fmt.Sprintf("%q says that it was not committed", e.path), nil
		}
	}
	return "", nil
}

// finishOrbax gives the marker to a directory that needs it, for Orbax deletes
// there what has none, and takes it from one that does not, where every later
// checkpoint would be held to it.
func finishOrbax(a *adapter, root *os.Root, name string) (string, error) {
	if err := exists(root, name); err != nil {
		return "", err
	}
	marker := path.Join(name, committed)
	if a.cfg.Marker != committed {
		return name, remove(root, marker)
	}
	if _, there, err := readMarker(root, marker); err != nil || there {
		return name, err
	}
	return name, writeMarker(root, marker, "Checkpoint commit was successful to "+name)
}
