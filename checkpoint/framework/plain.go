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
type plain struct {
	*watch
	marker string
}

func (*plain) Name() string { return "plain" }

// Candidates implements Adapter.
func (p *plain) Candidates(root *os.Root) ([]Candidate, error) {
	names, err := readNames(root, ".")
	if err != nil {
		return nil, fmt.Errorf("looking for checkpoints: %w", err)
	}
	var cs []Candidate
	for _, name := range names {
		if c, ok := p.candidate(root, name, names); ok {
			cs = append(cs, c)
		}
	}
	newestFirst(cs)
	p.forget(cs)
	return cs, nil
}

// candidate returns the candidate that a name in the root stands for: a
// directory or, for sets of files, the marker.
func (p *plain) candidate(root *os.Root, name string, names []string) (Candidate, bool) {
	c := Candidate{Name: name}
	end, set := strings.CutPrefix(p.marker, "*")
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

// Complete implements Adapter.
func (p *plain) Complete(root *os.Root, c Candidate) (bool, string, error) {
	return p.complete(root, c, func(entries []entry) (string, error) {
		marker := path.Join(c.Name, p.marker)
		if end, set := strings.CutPrefix(p.marker, "*"); set {
			marker = c.Name + end
		}
		if e, ok := find(entries, marker); !ok || !e.mode.IsRegular() {
			return fmt.Sprintf("marker %q is not there yet", marker), nil
		}
		return "", nil
	})
}

// lastNumber returns the last run of digits in a name.
func lastNumber(s string) (int64, bool) {
	const digits = "0123456789"
	s = s[:strings.LastIndexAny(s, digits)+1]
	n, err := strconv.ParseInt(s[len(strings.TrimRight(s, digits)):], 10, 64)
	return n, err == nil
}
