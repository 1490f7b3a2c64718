package checkpoint

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"time"
)

// Store is where objects live: a flat set of immutable objects with names like
// "v1/acme/files/ab/ab12…". Every implementation passes package storetest.
//
// A name is one or more parts separated by single slashes; see [ObjectName].
// Implementations are safe for concurrent use and do not retry: that is a
// wrapper's work.
type Store interface {
	// Put writes an object if there is none of that name, and returns when it is
	// durable. Of any number of concurrent Puts of one name exactly one succeeds
	// and the others return ErrExists; r may then be unread. Unless Put succeeds
	// it leaves nothing visible: not when r fails (its error is returned), not
	// when r does not give exactly size bytes (ErrSize), not when the store is
	// full (ErrNoSpace). A lost answer is the exception any network makes: the
	// object may be there, whole.
	Put(ctx context.Context, name string, r io.Reader, size int64) error

	// Get opens an object for reading, or returns ErrNotFound. A medium that
	// cannot give the bytes back is ErrCorrupt, here or from Read. The reader is
	// the caller's to close, and fails once ctx ends.
	Get(ctx context.Context, name string) (io.ReadCloser, error)

	// Range is Get of n bytes from off, n > 0: a reader of exactly those. An
	// object that ends before is ErrCorrupt, here or from Read.
	Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)

	// Stat returns the size of an object in bytes, or ErrNotFound.
	Stat(ctx context.Context, name string) (int64, error)

	// List returns the objects whose names begin with prefix, sorted by name; any
	// string is a prefix, the empty one lists everything. It may be late: an
	// object just put may be missing and one just deleted present. It serves
	// collection and never decides what exists.
	List(ctx context.Context, prefix string) ([]Object, error)

	// Delete removes an object. One that is not there is no error.
	Delete(ctx context.Context, name string) error
}

// Object is what a list tells of one object.
type Object struct {
	Name string
	Size int64
}

// Verb is what an [Access] allows.
type Verb string

const (
	VerbPut  Verb = "put"  // as Store.Put: only if there is none of that name
	VerbGet  Verb = "get"  // with or without a Range header
	VerbHead Verb = "head" // an object's size
)

// Access is a plain HTTP request that does one thing with one object until a
// time, by whoever has it: a presigned URL. A machine that is not ours gets
// these and never a key.
type Access struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Header map[string]string `json:"header,omitempty"` // to be sent as it is; part of what is signed
	Until  time.Time         `json:"until"`            // the signer's wall clock
}

// Signer makes Accesses. A Store whose service knows presigned URLs is one too.
// The answer to a put of a name that is taken is 409 or 412.
type Signer interface {
	Sign(ctx context.Context, verb Verb, name string, size int64, life time.Duration) (Access, error)
}

// Committer makes a checkpoint true. It is the gateway's append to the job's
// record, seen from the engine.
type Committer interface {
	// Commit records ref as the job's newest checkpoint. It is idempotent by
	// ref, so that it can be repeated when the answer was lost, and returns
	// ErrFenced when ref.Epoch is no longer the job's epoch.
	Commit(ctx context.Context, ref Ref) error
}

// ObjectName reports whether name can name an object: a clean relative path of
// at most 512 bytes, without backslash or control characters, and with no part
// that begins with a dot (stores keep unfinished work under such names).
func ObjectName(name string) bool {
	if name == "." || len(name) > 512 || !fs.ValidPath(name) || strings.ContainsFunc(name, unprintable) {
		return false
	}
	return name[0] != '.' && !strings.Contains(name, "/.")
}

func unprintable(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
