// Package framework knows how training frameworks lay out their checkpoints:
// which directories and files are checkpoints, of which step, when one is
// finished, what of it matters first, and what has to lie beside it for the
// framework to find it again.
//
// No framework says reliably when it is finished, so an Adapter combines what
// the framework does leave behind with stillness: a candidate is complete when
// everything it should have is there and parses, nothing says that it is being
// written, and it has looked the same for a while. That is still a judgement;
// what makes a checkpoint is the manifest and its commit.
//
// Trainers delete old checkpoints, some before the new one is written, and some
// write the new one over the old. Hold keeps a complete one alive under a name
// of ours while it is uploaded, and deletions are never mirrored.
//
// Nothing is ever unpickled: a pickle is a program. Where one says what no other
// file does, constant bytes are looked for in it, and an integer after them.
//
// An adapter is made for polling: a look at a candidate that has not changed
// costs one stat per file and reads nothing.
package framework

import (
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

	// Step is the training step, as the layout tells it. It rises from save to save.
	Step int64
	// Ordinal: the layout tells no step, so Step is only an order, such as the
	// number of the save. It must not be compared with steps of the trainer.
	Ordinal bool

	// Files are the files of a set, or one directory further down, in the root;
	// nil for a directory in the root. A set has to be held before it can be
	// saved, since only a directory can, and Finish puts it back where it lay.
	Files []string
}

// Adapter is what is known of one framework. It remembers what it has seen, so
// one adapter serves one directory and one start of the trainer; it is safe for
// concurrent use.
type Adapter interface {
	// Name is what manifests call the framework; New takes it.
	Name() string

	// Candidates lists what looks like a checkpoint in the job's directory,
	// highest step first. The newest complete one is the one to save; an older
	// one may be about to be deleted.
	Candidates(root *os.Root) ([]Candidate, error)

	// Complete reports whether c is finished and, if not, why not, in words for
	// a person. It takes two looks at least. An error that is
	// checkpoint.ErrVanished means that c was deleted: take the next.
	Complete(root *os.Root, c Candidate) (bool, string, error)

	// Ready lists the files of c, below the root, that are finished although c
	// is not, what matters most first: they parse to their end, have been still
	// for as long as Complete asks, are not open for writing, and are of a kind
	// that the framework writes once. Uploading them ahead wastes nothing but
	// bandwidth if the save is given up; only Complete allows a commit.
	Ready(root *os.Root, c Candidate) ([]string, error)

	// Rank orders the files of a checkpoint for a link that may not carry all of
	// them: RankState, which is small and without which nothing resumes, before
	// RankWeights, RankOptimizer, RankDerivable and RankLogs. name is below the
	// root or below the checkpoint.
	Rank(name string) int

	// Hold makes a directory, at the path into below root, with hard links to
	// the files of c, which must be as it was when Complete approved it:
	// otherwise checkpoint.ErrVanished or checkpoint.ErrChanged. What was at
	// into is removed first. Directories of the copy are writable for their
	// owner. A file system without hard links is errors.ErrUnsupported. Release
	// removes it.
	//
	// A link shares the content. Files that the framework is known to write over
	// in place are therefore copied. Another that is rewritten in place all the
	// same changes the held one too, which the save notices.
	Hold(root *os.Root, c Candidate, into string) error

	// Finish makes the framework's own resume find a restored checkpoint. The
	// tree called name, as the save called it, has been restored into the root
	// and the others have been set aside. It puts a set's files back where they
	// lay, and writes last what points at them: DeepSpeed's latest, Megatron's
	// tracker, Lightning's last.ckpt, Orbax's marker. It returns the path below
	// the root to resume from. It may be repeated.
	Finish(root *os.Root, name string) (resume string, err error)

	// Signal names the signal that makes the trainer save and stop, such as
	// "SIGTERM", or is empty when none does; why is for a person. It goes to the
	// process group of the launcher.
	Signal() (name, why string)
}

// Config says how to judge. What is nil is not looked at.
type Config struct {
	// Quiet is how long a candidate must have looked the same to be complete. 0
	// means two looks, however close. Two seconds suit real trainers.
	Quiet time.Duration
	Now   func() time.Time // the machine's clock; nil means time.Now

	// Busy returns a path of c that some process of the job has open for
	// writing, or "".
	Busy func(root *os.Root, c Candidate) (string, error)
	// Writing returns every path below the root that some process of the job has
	// open for writing. It is asked instead of Busy, also for sets.
	Writing func(root *os.Root) ([]string, error)

	// Ranks returns how many processes the trainer runs in, as in WORLD_SIZE, or
	// 0. Without it the files of each rank are counted in the first checkpoint,
	// and a first checkpoint that lacks a rank's can pass for whole.
	Ranks func() int
	// Cut reports that the trainer was killed or crashed. Stillness proves
	// nothing then: what nothing else proves finished is not complete.
	Cut func() bool

	// Run is the job's script, which may tell more than files do.
	Run string

	// Marker is for "plain": the name of the file that, when it is in a
	// directory, says that the directory is finished, such as "DONE"; or, with a
	// leading star as in "*.done", the ending of the file that says so of the
	// files in the root that share the rest of its name. For "orbax" it can be
	// "commit_success.txt", when the directory is a mounted bucket.
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

func (c Config) ranks() int {
	if c.Ranks == nil {
		return 0
	}
	return c.Ranks()
}

func (c Config) cut() bool { return c.Cut != nil && c.Cut() }

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
