// Package framework knows how training frameworks lay out their checkpoints:
// which directories are checkpoints, of which step, and when one is finished.
//
// No framework says reliably when it is finished, so an Adapter combines what
// the framework does leave behind with stillness: a candidate is complete when
// everything it should have is there and parses, nothing says that it is being
// written, and it has looked the same for a while. That is still a judgement;
// what makes a checkpoint is the manifest and its commit.
//
// Trainers delete old checkpoints, some before the new one is written. Hold
// keeps a complete one alive under a name of ours while it is uploaded, and
// deletions are never mirrored.
//
// An adapter is made for polling: a look at a candidate that has not changed
// costs one stat per file and reads nothing.
package framework

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Candidate is something that looks like a checkpoint and may not be finished.
type Candidate struct {
	// Name is a directory in the root or, when Files is set, what the names of
	// a set of files have in common.
	Name string
	Step int64
	// Files are the files of a set, in the root; nil for a directory. A set has
	// to be held before it can be saved, since only a directory can.
	Files []string
}

// Adapter is what is known of one framework. It remembers what it has seen, so
// one adapter serves one directory; it is safe for concurrent use.
type Adapter interface {
	// Name is what manifests call the framework.
	Name() string

	// Candidates lists what looks like a checkpoint in the job's directory,
	// highest step first. The newest complete one is the one to save; an older
	// one may be about to be deleted.
	Candidates(root *os.Root) ([]Candidate, error)

	// Complete reports whether c is finished and, if not, why not, in words for
	// a person. It takes two looks at least. An error that is
	// checkpoint.ErrVanished means that c was deleted: take the next.
	Complete(root *os.Root, c Candidate) (bool, string, error)

	// Hold makes a directory, at the path into below root, with hard links to
	// the files of c, which must be as it was when Complete approved it:
	// otherwise checkpoint.ErrVanished or checkpoint.ErrChanged. What was at
	// into is removed first. Directories of the copy are writable for their
	// owner. A file system without hard links is errors.ErrUnsupported. Release
	// removes it.
	//
	// A link shares the content: a trainer that rewrites a file in place changes
	// the held one too, which the save notices.
	Hold(root *os.Root, c Candidate, into string) error
}

// Config says how to judge.
type Config struct {
	// Quiet is how long a candidate must have looked the same to be complete. 0
	// means two looks, however close. Two seconds suit real trainers.
	Quiet time.Duration
	Now   func() time.Time // the machine's clock; nil means time.Now

	// Busy returns a path of c that some process of the job has open for
	// writing, or "". nil means that this is not looked at.
	Busy func(root *os.Root, c Candidate) (string, error)

	// Marker is for "plain": the name of the file that, when it is in a
	// directory, says that the directory is finished, such as "DONE"; or, with a
	// leading star as in "*.done", the ending of the file that says so of the
	// files in the root that share the rest of its name.
	Marker string
}

// Validate reports what is out of range.
func (c Config) Validate() error {
	if c.Quiet < 0 {
		return fmt.Errorf("framework: quiet time of %v is negative", c.Quiet)
	}
	m := strings.TrimPrefix(c.Marker, "*")
	if c.Marker != "" && (m == "" || m == "." || m == ".." || strings.ContainsAny(m, "*/\\\x00")) {
		return fmt.Errorf("framework: marker %q is not a file's name", c.Marker)
	}
	return nil
}

// New returns the adapter called "hf" or "plain".
func New(name string, cfg Config) (Adapter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	w := &watch{cfg: cfg, seen: map[string]look{}}
	switch name {
	case "hf":
		return &hf{watch: w}, nil
	case "plain":
		if cfg.Marker == "" {
			return nil, errors.New(`framework: "plain" needs a marker`)
		}
		return &plain{watch: w, marker: cfg.Marker}, nil
	}
	return nil, fmt.Errorf("framework: unknown framework %q, want hf or plain", name)
}

// Detect returns the adapter for what is in a job's directory, or nil when
// nothing in it is recognised, as before the first checkpoint: ask again. A
// configured marker means plain.
func Detect(root *os.Root, cfg Config) (Adapter, error) {
	name := "hf"
	if cfg.Marker != "" {
		name = "plain"
	}
	a, err := New(name, cfg)
	if err != nil {
		return nil, err
	}
	found, err := a.Candidates(root)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return a, nil
}

// newestFirst orders candidates by falling step and then by name.
func newestFirst(cs []Candidate) {
	slices.SortFunc(cs, func(a, b Candidate) int {
		if a.Step != b.Step {
			if a.Step > b.Step {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}
