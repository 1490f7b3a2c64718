package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Schema is the version of the manifest this package writes, and the newest it
// reads. A field that is added raises it. Schema 1, of whole files, is still
// read and no longer written.
const Schema = 2

// MaxManifest is the largest manifest in bytes: some 300,000 files, or five
// terabytes in chunks of 4 MiB. It bounds what a reader has to hold.
const MaxManifest = 128 << 20

// Manifest describes one checkpoint completely: with the objects it names, it
// is enough to restore.
type Manifest struct {
	Schema int    `json:"schema"`
	Tenant string `json:"tenant"`
	Job    string `json:"job"`
	Epoch  int    `json:"epoch"`
	Step   int64  `json:"step"`
	// Framework is the adapter that judged the tree complete; empty if none did.
	Framework string `json:"framework,omitempty"`
	// Dir is the last part of the name the tree had, such as "checkpoint-500",
	// and the name it has again after a restore.
	Dir     string    `json:"dir"`
	Created time.Time `json:"created"` // when the manifest was made, UTC, to the microsecond
	// Save is how long the trainer stood still for this checkpoint; zero when
	// that is not known.
	Save time.Duration `json:"save_ns,omitempty"`
	// Key tells which key the chunks are sealed with, without giving it away;
	// empty: none.
	Key string `json:"key,omitempty"`
	// Files has every directory, file and link of the tree in the order of
	// their paths. The first is the tree itself, ".".
	Files []File `json:"files"`
	// Packs are the objects that the files' small chunks lie in together, by
	// epoch and hash.
	Packs []Pack `json:"packs,omitempty"`
}

// Pack is one object of several chunks.
type Pack struct {
	Hash  string `json:"hash"` // of its bytes as they are stored
	Size  int64  `json:"size"`
	Epoch int    `json:"epoch,omitempty"` // as of a Chunk
}

// Kind is what a File is.
type Kind string

const (
	Regular   Kind = "file"
	Directory Kind = "dir"
	Symlink   Kind = "link"
)

// File is one entry of a tree.
type File struct {
	Path string `json:"path"` // relative to the tree, with slashes, clean
	Kind Kind   `json:"kind"`
	Mode uint32 `json:"mode"` // permission bits, 0 to 0o777; zero for a link
	Size int64  `json:"size,omitempty"`
	Hash string `json:"hash,omitempty"` // schema 1, regular files: BLAKE3-256 in hex
	Link string `json:"link,omitempty"` // the text of a link, which never leaves the tree
	// Chunks are the file's bytes in order; their sizes add up to Size. Schema 1
	// has none: its files are objects of their own, called by Hash.
	Chunks []Chunk `json:"chunks,omitempty"`
}

// Chunk is a run of a file's bytes and where they are stored.
type Chunk struct {
	Hash string `json:"hash,omitempty"` // of the plain bytes, see package chunk; empty: all of them are zero, and stored nowhere
	Size int64  `json:"size"`
	// Epoch is the one whose agent stored it, when that is not the manifest's.
	Epoch int `json:"epoch,omitempty"`
	// Pack is the object that holds it, at Off, together with other small ones;
	// empty: it is an object of its own.
	Pack   string `json:"pack,omitempty"`
	Off    int64  `json:"off,omitempty"`
	Codec  string `json:"codec,omitempty"`  // see package chunk
	Stored int64  `json:"stored,omitempty"` // its size as stored, when that is not Size
}

// stored returns how many bytes of the store the chunk takes.
func (c Chunk) stored() int64 { return cmp.Or(c.Stored, c.Size) }

// epochOf returns whose object one is that says epoch.
func (m Manifest) epochOf(epoch int) int { return cmp.Or(epoch, m.Epoch) }

// Objects returns the objects that m needs, each once, sorted by name.
func (m Manifest) Objects() []Object {
	size := map[string]int64{}
	for _, f := range m.Files {
		if f.Kind == Regular && f.Hash != "" {
			size[fileName(m.Tenant, f.Hash)] = f.Size
		}
		for _, c := range f.Chunks {
			if c.Hash != "" && c.Pack == "" {
				size[dataName(m.Tenant, m.Job, m.epochOf(c.Epoch), c.Hash)] = c.stored()
			}
		}
	}
	for _, p := range m.Packs {
		size[dataName(m.Tenant, m.Job, m.epochOf(p.Epoch), p.Hash)] = p.Size
	}
	out := make([]Object, 0, len(size))
	for _, name := range slices.Sorted(maps.Keys(size)) {
		out = append(out, Object{name, size[name]})
	}
	return out
}

// Totals returns how many regular files there are and how large they are
// together.
func (m Manifest) Totals() (files int, size int64) {
	for _, f := range m.Files {
		if f.Kind == Regular {
			files++
			size += f.Size
		}
	}
	return files, size
}

// ref returns the name of the checkpoint whose manifest, m, encodes to data.
func (m Manifest) ref(data []byte) Ref {
	d := digest(data)
	files, size := m.Totals()
	return Ref{Name: refName(m.Epoch, m.Step, d), Epoch: m.Epoch, Step: m.Step, Digest: d, Bytes: size, Files: files}
}

// comparePaths orders a tree: itself first, and a directory before what is in it.
func comparePaths(a, b string) int {
	if a == "." || b == "." {
		return cmp.Compare(len(strings.TrimPrefix(a, ".")), len(strings.TrimPrefix(b, ".")))
	}
	return strings.Compare(a, b)
}

func comparePacks(a, b Pack) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), strings.Compare(a.Hash, b.Hash))
}

// Encode returns the one spelling of m: JSON without white space, fields in
// declared order, files sorted by path and packs by epoch and hash, ending in a
// newline. Equal manifests have equal bytes.
func (m Manifest) Encode() ([]byte, error) {
	m.Files = slices.Clone(m.Files)
	slices.SortFunc(m.Files, func(a, b File) int { return comparePaths(a.Path, b.Path) })
	m.Packs = slices.Clone(m.Packs)
	slices.SortFunc(m.Packs, comparePacks)
	m.Created = m.Created.UTC().Truncate(time.Microsecond)
	if err := m.Validate(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if b.Len() > MaxManifest {
		return nil, fmt.Errorf("%w: manifest of %d bytes for %d files, limit %d", ErrTooLarge, b.Len(), len(m.Files), MaxManifest)
	}
	return b.Bytes(), nil
}

// Decode reads what Encode wrote and nothing else: another spelling of the same
// content, an unknown field, a repeated key or anything after the end is
// ErrManifest, and so is every manifest that Validate refuses. A newer schema
// is ErrSchema.
func Decode(data []byte) (Manifest, error) {
	if len(data) > MaxManifest {
		return Manifest{}, fmt.Errorf("%w: %d bytes, limit %d", ErrManifest, len(data), MaxManifest)
	}
	if err := readable(data); err != nil {
		return Manifest{}, err
	}
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	again, err := m.Encode()
	if err != nil {
		return Manifest{}, err
	}
	if !bytes.Equal(again, data) {
		return Manifest{}, fmt.Errorf("%w: not in the one spelling manifests have", ErrManifest)
	}
	return m, nil
}

// readable looks at the schema alone, since a newer one may not parse at all.
func readable(data []byte) error {
	var v struct {
		Schema *int `json:"schema"`
	}
	err := json.NewDecoder(bytes.NewReader(data)).Decode(&v)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: cut short at %d bytes", ErrManifest, len(data))
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrManifest, err)
	case v.Schema == nil || *v.Schema < 1:
		return fmt.Errorf("%w: no schema", ErrManifest)
	case *v.Schema > Schema:
		return fmt.Errorf("%w: %d, this version reads up to %d", ErrSchema, *v.Schema, Schema)
	}
	return nil
}
