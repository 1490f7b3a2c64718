package framework

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// watch remembers what candidates looked like and for how long.
type watch struct {
	cfg Config

	mu   sync.Mutex
	seen map[string]look // by candidate
}

// look is one state of a candidate.
type look struct {
	entries []entry
	since   time.Time
	judged  bool   // why is the verdict on these entries
	why     string // why they are not complete; empty if they are
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
}

// complete takes a look at c and judges it by check once it has been still for
// long enough. check is asked once for each state.
func (w *watch) complete(root *os.Root, c Candidate, check func([]entry) (string, error)) (bool, string, error) {
	entries, err := list(root, c)
	if err != nil {
		return false, "", fmt.Errorf("looking at %q: %w", c.Name, err)
	}
	seen, why := w.settled(c, entries)
	if why != "" {
		return false, why, nil
	}
	if w.cfg.Busy != nil {
		file, err := w.cfg.Busy(root, c)
		if err != nil {
			return false, "", fmt.Errorf("looking for writers of %q: %w", c.Name, err)
		}
		if file != "" {
			return false, fmt.Sprintf("%q is open for writing", file), nil
		}
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

// settled compares with the last look and says why c is not still yet, if so.
func (w *watch) settled(c Candidate, entries []entry) (look, string) {
	now := w.cfg.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, ok := w.seen[c.Name]
	if !ok || !slices.Equal(seen.entries, entries) {
		w.seen[c.Name] = look{entries: entries, since: now}
		if !ok {
			return look{}, "seen for the first time"
		}
		return look{}, "changed since the last look"
	}
	if still := now.Sub(seen.since); still < w.cfg.Quiet {
		return look{}, fmt.Sprintf("still for %v of %v", still, w.cfg.Quiet)
	}
	return seen, ""
}

// approved returns the entries of c as they were when it was found complete.
func (w *watch) approved(c Candidate) ([]entry, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen[c.Name]
	return seen.entries, seen.judged && seen.why == ""
}
