package framework

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
)

// layout is the description of one framework. The machinery around it is the
// same for all: stillness, parsing, counting of ranks, holding.
type layout struct {
	name string

	// find lists candidates, in any order. names are those in the root.
	find func(a *adapter, root *os.Root, names []string) ([]Candidate, error)
	// claims reports whether a directory is this framework's, of which find has
	// listed the candidates; nil: having any is enough. Detect asks it.
	claims func(root *os.Root, names []string, found []Candidate) bool
	// check says what this framework's rule still misses. What holds for every
	// framework is checked beside it.
	check func(s *sight) (string, error)
	// bare: the user's own rule is the whole rule.
	bare bool

	// pointer is the file in the root that names the newest checkpoint, if the
	// check reads it.
	pointer string

	// reused matches files that are written over in place; nil: none are.
	reused *regexp.Regexp
	// once matches files that are written in one go and never again.
	once *regexp.Regexp

	// finish is Adapter's, after the tree has been found; nil: nothing to do.
	finish func(a *adapter, root *os.Root, name string) (string, error)
	// signal is Adapter's; nil: no signal, for the reason in mute.
	signal func(a *adapter) (string, string)
	mute   string
}

// adapter is a layout that looks at one directory.
type adapter struct {
	*watch
	layout layout
	shape  shape

	mu    sync.Mutex
	notes map[string]note // what was read of a file, by path
	flag  *bool           // what a complete checkpoint says of the signal, once one does
	count numbering       // of saves, for those that number them
}

// note is what was read of a file while it looked like entry.
type note struct {
	entry entry
	value int64
	ok    bool
}

func (a *adapter) Name() string { return a.layout.name }

// Candidates implements Adapter.
func (a *adapter) Candidates(root *os.Root) ([]Candidate, error) {
	names, err := readNames(root, ".")
	if err != nil {
		return nil, fmt.Errorf("looking for checkpoints: %w", err)
	}
	cs, err := a.layout.find(a, root, names)
	if err != nil {
		return nil, fmt.Errorf("looking for checkpoints: %w", err)
	}
	newestFirst(cs)
	a.forget(cs)
	return cs, nil
}

// Complete implements Adapter.
func (a *adapter) Complete(root *os.Root, c Candidate) (bool, string, error) {
	return a.complete(root, c, a.beside(c), func(entries []entry) (string, error) {
		s := a.see(root, c, entries)
		why, err := a.judge(s)
		if why == "" && err == nil {
			a.shape.learn(s)
			a.note(s)
		}
		return why, err
	})
}

// beside returns the paths that say something of c and are no part of it.
func (a *adapter) beside(c Candidate) []string {
	if a.layout.bare {
		return nil
	}
	names := []string{"tmp-" + c.Name} // see checkHF
	for _, m := range members(c) {
		names = append(names, unfinishedMarkers(m)...)
	}
	if a.layout.pointer != "" {
		names = append(names, a.layout.pointer)
	}
	return names
}

// judge applies every rule and returns the first that is broken. Those that read
// nothing come first.
func (a *adapter) judge(s *sight) (string, error) {
	if a.layout.bare {
		return a.layout.check(s)
	}
	for _, rule := range []func(*sight) string{(*sight).sentinel, a.shape.missing, a.shape.ranks} {
		if why := rule(s); why != "" {
			return why, nil
		}
	}
	for _, rule := range []func(*sight) (string, error){a.layout.check, (*sight).shards, (*sight).parse} {
		if why, err := rule(s); why != "" || err != nil {
			return why, err
		}
	}
	if s.doubt != "" && a.cfg.cut() {
		return "the trainer was cut off, and " + s.doubt, nil
	}
	return "", nil
}

// sight is one look at a candidate, for a check.
type sight struct {
	*adapter
	root    *os.Root
	c       Candidate
	entries []entry
	in      string // the directory the checkpoint's own names are relative to
	doubt   string // why even a candidate that breaks no rule may lack a file
}

func (a *adapter) see(root *os.Root, c Candidate, entries []entry) *sight {
	s := &sight{adapter: a, root: root, c: c, entries: entries, in: c.Name}
	switch {
	case len(c.Files) == 1:
		s.in = c.Files[0]
	case len(c.Files) > 1:
		s.in = "."
	}
	return s
}

// rel returns what the checkpoint itself calls an entry.
func (s *sight) rel(e entry) string { return strings.TrimPrefix(e.path, s.in+"/") }

// file finds a regular file by the checkpoint's own name for it.
func (s *sight) file(name string) (entry, bool) {
	e, ok := find(s.entries, path.Join(s.in, name))
	return e, ok && e.mode.IsRegular()
}

// files returns the regular files whose own names match.
func (s *sight) files(re *regexp.Regexp) []entry {
	var got []entry
	for _, e := range s.entries {
		if e.mode.IsRegular() && re.MatchString(s.rel(e)) {
			got = append(got, e)
		}
	}
	return got
}

// dirs returns the own names of the directories that match.
func (s *sight) dirs(re *regexp.Regexp) []string {
	var got []string
	for _, e := range s.entries {
		if e.mode.IsDir() && re.MatchString(s.rel(e)) {
			got = append(got, s.rel(e))
		}
	}
	return got
}

// parse checks that every file ends where its format says.
func (s *sight) parse() (string, error) {
	for _, e := range s.entries {
		if !e.mode.IsRegular() {
			continue
		}
		if why, err := checkFile(s.root, e, s.entries); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// remembered returns read(e), or what it returned when the file looked the same.
func (a *adapter) remembered(e entry, read func() (int64, bool)) (int64, bool) {
	a.mu.Lock()
	got, ok := a.notes[e.path]
	a.mu.Unlock()
	if ok && got.entry == e {
		return got.value, got.ok
	}
	got = note{entry: e}
	got.value, got.ok = read()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.notes) >= 1000 { // names of long ago
		clear(a.notes)
	}
	a.notes[e.path] = got
	return got.value, got.ok
}

// Finish implements Adapter.
func (a *adapter) Finish(root *os.Root, name string) (string, error) {
	if a.layout.finish == nil {
		return name, nil
	}
	resume, err := a.layout.finish(a, root, name)
	if err != nil {
		return "", fmt.Errorf("finishing the restore of %q for %s: %w", name, a.layout.name, err)
	}
	return resume, nil
}
