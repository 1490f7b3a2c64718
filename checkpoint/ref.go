package checkpoint

import "fmt"

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
