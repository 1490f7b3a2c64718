package framework

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// plain is for trainers of the user's own: a checkpoint is finished when a file
// of an agreed name says so, and its step is the last number in its name.
func plain(marker string) layout {
	return layout{
		name: "plain",
		bare: true,
		find: func(_ *adapter, root *os.Root, names []string) ([]Candidate, error) {
			var cs []Candidate
			for _, name := range names {
				if c, ok := plainCandidate(root, marker, name, names); ok {
					cs = append(cs, c)
				}
			}
			return cs, nil
		},
		check: func(s *sight) (string, error) {
			file := path.Join(s.c.Name, marker)
			if end, set := strings.CutPrefix(marker, "*"); set {
				file = s.c.Name + end
			}
			if e, ok := find(s.entries, file); !ok || !e.mode.IsRegular() {
				return fmt.Sprintf("marker %q is not there yet", file), nil
			}
			return "", nil
		},
		mute: "only you know what your trainer does on a signal; say it in the job file",
	}
}

// plainCandidate returns the candidate that a name in the root stands for: a
// directory or, for sets of files, the marker.
func plainCandidate(root *os.Root, marker, name string, names []string) (Candidate, bool) {
	c := Candidate{Name: name}
	end, set := strings.CutPrefix(marker, "*")
	if set {
		var ok bool
		if c.Name, ok = strings.CutSuffix(name, end); !ok {
			return c, false
		}
		for _, n := range names {
			if strings.HasPrefix(n, c.Name+".") || n == name {
				c.Files = append(c.Files, n)
			}
		}
		slices.Sort(c.Files)
	}
	step, ok := lastNumber(c.Name)
	if !ok || strings.HasPrefix(name, ".") {
		return c, false
	}
	c.Step = step
	info, err := root.Lstat(name)
	return c, err == nil && info.IsDir() != set
}

// lastNumber returns the last run of digits in a name.
func lastNumber(s string) (int64, bool) {
	const digits = "0123456789"
	s = s[:strings.LastIndexAny(s, digits)+1]
	n, err := strconv.ParseInt(s[len(strings.TrimRight(s, digits)):], 10, 64)
	return n, err == nil
}
