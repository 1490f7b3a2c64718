package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Ref names a checkpoint that is committed, or about to be.
type Ref struct {
	// Name is the manifest's object name below the job's checkpoint prefix: one
	// path part, "<epoch>-<step>-<hash>.manifest".
	Name  string `json:"name"`
	Epoch int    `json:"epoch"`
	Step  int64  `json:"step"`
	// Digest is the BLAKE3-256 of the manifest's bytes, in lower-case hex.
	Digest string `json:"digest"`
	// Bytes is the size of the content of all regular files; Files counts them.
	Bytes int64 `json:"bytes"`
	Files int   `json:"files"`
}

// shortHash is how much of the digest is in a name: enough that two manifests of
// one epoch and step do not meet, and the digest itself is checked anyway.
const shortHash = 16

// maxEpoch is what fits the name's fixed width, so that names sort by age. Any
// step fits.
const maxEpoch = 9_999_999_999

// refName is the only spelling of a checkpoint's name.
func refName(epoch int, step int64, digest string) string {
	return fmt.Sprintf("%010d-%020d-%s.manifest", epoch, step, digest[:shortHash])
}

// Validate reports whether the fields agree with each other. It says nothing
// about what is in the store. Its error wraps ErrManifest.
func (r Ref) Validate() error {
	switch {
	case r.Epoch < 0 || int64(r.Epoch) > maxEpoch || r.Step < 0:
		return fmt.Errorf("%w: epoch %d, step %d out of range", ErrManifest, r.Epoch, r.Step)
	case !isHash(r.Digest):
		return fmt.Errorf("%w: digest %q", ErrManifest, r.Digest)
	case r.Bytes < 0 || r.Files < 0:
		return fmt.Errorf("%w: %d bytes in %d files", ErrManifest, r.Bytes, r.Files)
	case r.Name != refName(r.Epoch, r.Step, r.Digest):
		return fmt.Errorf("%w: name %q is not the one of epoch %d, step %d", ErrManifest, r.Name, r.Epoch, r.Step)
	}
	return nil
}

// newer orders by what a job would resume from: the later epoch, then the later
// step. An epoch may begin at a lower step than its predecessor reached.
func newer(a, b Ref) int {
	return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(b.Step, a.Step))
}

// Retain returns which of a job's committed checkpoints may be dropped when the
// newest keep are to stay, newest first. Those whose Name is in pinned stay as
// well and do not count. The newest is never dropped, whatever keep says: room
// is made after a commit, never before it. The order of refs does not matter;
// a name that occurs twice is one checkpoint.
func Retain(refs []Ref, keep int, pinned map[string]bool) (drop []Ref) {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b Ref) int { return cmp.Or(newer(a, b), strings.Compare(a.Name, b.Name)) })
	refs = slices.CompactFunc(refs, func(a, b Ref) bool { return a.Name == b.Name })
	kept := 0
	for i, r := range refs {
		switch {
		case i == 0:
			kept++
		case pinned[r.Name]:
		case kept < keep:
			kept++
		default:
			drop = append(drop, r)
		}
	}
	return drop
}
