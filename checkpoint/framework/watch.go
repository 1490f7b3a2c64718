package framework

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// watch remembers what candidates looked like and for how long.
type watch struct {
	cfg    Config
	reused *regexp.Regexp // of files to copy when held

	mu    sync.Mutex
	seen  map[string]look      // by candidate
	ready map[string]readiness // by path
}

// look is one state of a candidate.
type look struct {
	entries []entry
	outside []entry // what lies beside the candidate and says something of it
	since   time.Time
	judged  bool   // why is the verdict on these entries
	why     string // why they are not complete; empty if they are
	leaving string // a file that was deleted after it had been found complete
}

// forget drops what is no longer there, so that a long run does not fill memory.
func (w *watch) forget(present []Candidate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.seen {
		if !slices.ContainsFunc(present, func(c Candidate) bool { return c.Name == name }) {
			delete(w.seen, name)
		}
	}
	for name, r := range w.ready {
		if !slices.ContainsFunc(present, func(c Candidate) bool { return c.Name == r.of }) {
			delete(w.ready, name)
		}
	}
}

// complete takes a look at c and judges it by check once it has been still for
// long enough. check is asked once for each state of c and of the paths beside
// it, which need not be there.
func (w *watch) complete(root *os.Root, c Candidate, beside []string, check func([]entry) (string, error)) (bool, string, error) {
	entries, err := list(root, c)
	if err != nil {
		return false, "", fmt.Errorf("looking at %q: %w", c.Name, err)
	}
	var outside []entry
	for _, name := range beside {
		if e, err := stat(root, name); err == nil {
			outside = append(outside, e)
		}
	}
	seen, why := w.settled(c, entries, outside)
	if why != "" {
		return false, why, nil
	}
	file, err := w.busy(root, c)
	if err != nil {
		return false, "", err
	}
	if file != "" {
		return false, fmt.Sprintf("%q is open for writing", file), nil
	}
	if !seen.judged {
		if seen.why, err = check(entries); err != nil {
			return false, "", fmt.Errorf("checking %q: %w", c.Name, gone(err))
		}
		seen.judged = true
		w.mu.Lock()
		w.seen[c.Name] = seen
		w.mu.Unlock()
	}
	return seen.why == "", seen.why, nil
}

// busy returns a file of c that is open for writing, or "".
func (w *watch) busy(root *os.Root, c Candidate) (string, error) {
	var file string
	var err error
	switch {
	case w.cfg.Writing != nil:
		var all []string
		all, err = w.cfg.Writing(root)
		for _, p := range all {
			if c.has(p) {
				file = p
			}
		}
	case w.cfg.Busy != nil:
		file, err = w.cfg.Busy(root, c)
	}
	if err != nil {
		return "", fmt.Errorf("looking for writers of %q: %w", c.Name, err)
	}
	return file, nil
}

// has reports whether a path below the root belongs to c.
func (c Candidate) has(p string) bool {
	in := func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
	if c.Files == nil {
		return in(c.Name)
	}
	return slices.ContainsFunc(c.Files, in)
}

// settled compares with the last look and says why c is not still yet, if so.
func (w *watch) settled(c Candidate, entries, outside []entry) (look, string) {
	now := w.cfg.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, ok := w.seen[c.Name]
	if !ok || !slices.Equal(seen.entries, entries) || !slices.Equal(seen.outside, outside) {
		w.seen[c.Name] = look{entries: entries, outside: outside, since: now, leaving: seen.lost(entries)}
		if !ok {
			return look{}, "seen for the first time"
		}
		return look{}, "changed since the last look"
	}
	if seen.leaving != "" {
		return look{}, fmt.Sprintf("%q was deleted, the rest may follow", seen.leaving)
	}
	if still := now.Sub(seen.since); still < w.cfg.Quiet {
		return look{}, fmt.Sprintf("still for %v of %v", still, w.cfg.Quiet)
	}
	return seen, ""
}

// lost returns a file that was part of a complete candidate and is there no
// more: a trainer that deletes old checkpoints does it file by file.
func (l look) lost(now []entry) string {
	if l.leaving != "" || !l.judged || l.why != "" {
		return l.leaving
	}
	for _, e := range l.entries {
		if _, ok := find(now, e.path); !ok {
			return e.path
		}
	}
	return ""
}

// approved returns the entries of c as they were when it was found complete.
func (w *watch) approved(c Candidate) ([]entry, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen[c.Name]
	return seen.entries, seen.judged && seen.why == ""
}
