package checkpoint

import (
	"errors"
	"io"
	"io/fs"
)

// The errors of this package, by what a caller can do about them. They are
// wrapped with the object or file concerned; test with errors.Is.
var (
	// ErrExists: an object of that name is already there, and was left alone.
	ErrExists = errors.New("object already exists")
	// ErrNotFound: the store has no such object.
	ErrNotFound = errors.New("object not found")
	// ErrCorrupt: the object is there, but not with the bytes it should have, or
	// the medium cannot give them back. It is proof that a checkpoint is bad.
	ErrCorrupt = errors.New("object is corrupt")
	// ErrNoSpace: the store or the disk is full. Free space and repeat; what was
	// committed before is untouched.
	ErrNoSpace = errors.New("no space left")
	// ErrSize: a reader gave more or fewer bytes than were announced.
	ErrSize = errors.New("size differs from the one announced")

	// ErrFenced: the epoch is no longer current. Never repeat; another machine
	// has the job.
	ErrFenced = errors.New("epoch is no longer current")
	// ErrVanished: part of the tree was deleted during the save, as trainers do
	// when they rotate. Leave this candidate, take the next.
	ErrVanished = errors.New("file vanished during the save")
	// ErrChanged: part of the tree was written during the save. It was not
	// finished; look again later.
	ErrChanged = errors.New("file changed during the save")
	// ErrUnsafe: a path, link or kind of file that is not carried. Repeating
	// does not help; the job has to stop writing it.
	ErrUnsafe = errors.New("cannot be kept in a checkpoint")
	// ErrTooLarge: a configured limit was exceeded.
	ErrTooLarge = errors.New("too large")

	// ErrManifest: the manifest is not one, or is not the one it claims to be.
	// It is proof that a checkpoint is bad.
	ErrManifest = errors.New("manifest is not valid")
	// ErrSchema: the manifest was written by a newer version. Upgrade and
	// repeat; it is not proof of anything.
	ErrSchema = errors.New("manifest is of a newer schema")
	// ErrKey: the checkpoint is sealed with another key than the engine has. It
	// is not proof of anything.
	ErrKey = errors.New("checkpoint is sealed with another key")
	// ErrNoneRestorable: checkpoints were committed and every one of them is
	// bad. A person decides; training must not begin again by itself.
	ErrNoneRestorable = errors.New("none of the committed checkpoints can be restored")
	// ErrNoRefs: nothing was ever committed, so there is nothing to restore.
	ErrNoRefs = errors.New("no checkpoint was committed")
	// ErrNoRate: no reclaim rate is known, so no interval follows from it.
	ErrNoRate = errors.New("no reclaim rate")
)

// Rejection says why one checkpoint could not be used.
type Rejection struct {
	Ref  Ref
	Path string // the file of the tree that is bad; empty when it is the manifest
	Err  error
}

func (r *Rejection) Error() string {
	if r.Path == "" {
		return "checkpoint " + r.Ref.Name + ": manifest: " + r.Err.Error()
	}
	return "checkpoint " + r.Ref.Name + ": " + quote(r.Path) + ": " + r.Err.Error()
}

func (r *Rejection) Unwrap() error { return r.Err }

// proves reports whether err shows that a checkpoint is bad, rather than that
// the store could not be asked.
func proves(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrManifest)
}

// saving turns what the file system says about a tree being rotated or rewritten
// into what that means for the save.
func saving(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wrap(ErrVanished, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return wrap(ErrChanged, err)
	}
	return err
}
