package framework

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
)

// readiness is what is known of one file of a candidate that is not complete.
type readiness struct {
	of     string // candidate
	entry  entry
	since  time.Time
	judged bool
	whole  bool
}

// Ready implements Adapter.
func (a *adapter) Ready(root *os.Root, c Candidate) ([]string, error) {
	if a.layout.once == nil {
		return nil, nil
	}
	entries, err := list(root, c)
	if err != nil {
		return nil, fmt.Errorf("looking at %q: %w", c.Name, err)
	}
	open, known, err := a.openIn(root, c)
	if err != nil {
		return nil, err
	}
	s := a.see(root, c, entries)
	var got []string
	for _, e := range entries {
		if !e.mode.IsRegular() || !a.layout.once.MatchString(s.rel(e)) || slices.Contains(open, e.path) {
			continue
		}
		whole, err := a.whole(root, c, e, known)
		if err != nil {
			return nil, fmt.Errorf("checking %q: %w", e.path, err)
		}
		if whole {
			got = append(got, e.path)
		}
	}
	slices.SortFunc(got, func(x, y string) int {
		return cmp.Or(cmp.Compare(a.Rank(x), a.Rank(y)), strings.Compare(x, y))
	})
	return got, nil
}

// openIn returns the files of c that are open for writing, and whether that can
// be known at all. Whoever can name only one of them says of all that they are.
func (a *adapter) openIn(root *os.Root, c Candidate) (open []string, known bool, err error) {
	switch {
	case a.cfg.Writing != nil:
		open, err = a.cfg.Writing(root)
	case a.cfg.Busy != nil && c.Files == nil:
		var one string
		if one, err = a.cfg.Busy(root, c); one != "" {
			entries, err := list(root, c)
			for _, e := range entries {
				open = append(open, e.path)
			}
			return open, true, err
		}
	default:
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("looking for writers of %q: %w", c.Name, err)
	}
	return open, true, nil
}

// whole takes a look at one file. A format without an end of its own is whole
// only if it is known that nobody writes to it.
func (a *adapter) whole(root *os.Root, c Candidate, e entry, known bool) (bool, error) {
	now := a.cfg.Now()
	a.watch.mu.Lock()
	r, ok := a.ready[e.path]
	if !ok || r.entry != e {
		r = readiness{of: c.Name, entry: e, since: now}
		a.ready[e.path] = r
		ok = false
	}
	a.watch.mu.Unlock()
	if !ok || now.Sub(r.since) < a.cfg.Quiet || !known && !selfEnding(e.path) {
		return false, nil
	}
	if !r.judged {
		why, err := checkFile(root, e, nil)
		if errors.Is(err, checkpoint.ErrVanished) || errors.Is(err, checkpoint.ErrChanged) {
			return false, nil // of this file only
		}
		if err != nil {
			return false, err
		}
		r.judged, r.whole = true, why == ""
		a.watch.mu.Lock()
		a.ready[e.path] = r
		a.watch.mu.Unlock()
	}
	return r.whole, nil
}

// selfEnding reports whether a file's format says where it ends.
func selfEnding(name string) bool {
	return strings.HasSuffix(name, ".safetensors") || torchFile.MatchString(name[strings.LastIndex(name, "/")+1:])
}
