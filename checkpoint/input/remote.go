package input

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// File is one file of a source.
type File struct {
	Path string // below the mount; "": the mount is this file
	Size int64  // -1: the source does not say
	// Key names the content, as far as the source tells one content from another:
	// the same key is the same bytes. "": it does not, and the file is fetched anew.
	Key string
	// Sum is what the content must have: "sha256:", "blake3:" or "git:" (the
	// SHA-1 of a Git object) and hex; "": nobody said.
	Sum   string
	Whole bool // it cannot be read in parts
	Near  bool // its source is as near as a cache: it is not kept

	name string // at the source
	mark string // that the answer must have, such as an ETag
}

// Remote is an open source. It repeats nothing. An error that stays is a *Refusal.
type Remote interface {
	// List returns the files that there are now: at least one, none twice.
	List(ctx context.Context) ([]File, error)
	// Open opens n bytes of a file from off for reading; n is -1 for all of one of
	// unknown size. The reader gives exactly those, or fails.
	Open(ctx context.Context, f File, off, n int64) (io.ReadCloser, error)
}

// OpenConfig says who asks, and how.
type OpenConfig struct {
	Getenv    func(name string) string // the job's variables and secrets
	Transport http.RoundTripper        // nil: wire.Transport's
	Stall     time.Duration            // how long a transfer may stand still; 0: wire.Stall
}

// Open opens a source. It asks nothing yet.
func Open(s Source, cfg OpenConfig) (Remote, error) {
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	if cfg.Transport == nil {
		cfg.Transport = wire.Transport()
	}
	if cfg.Stall == 0 {
		cfg.Stall = wire.Stall
	}
	switch s.Scheme {
	case "s3", "gs":
		return openBucket(s, cfg)
	case "http", "https":
		return &page{source: s, client: newClient(cfg)}, nil
	case "hf":
		return openHub(s, cfg)
	}
	return nil, refusal("use a newer agent", "this agent fetches nothing from %.40s://", s.Scheme)
}

// check says why files cannot stand below one directory, or nil.
func check(files []File) error {
	names := make(map[string]bool, len(files))
	for _, f := range files {
		if f.Path == "" && len(files) == 1 {
			return nil
		}
		if why := unfit(f.Path); why != "" {
			return refusal("rename it, or mount only what is beside it", "%.300q %s", f.Path, why)
		}
		if names[f.Path] {
			return refusal("rename one of them", "%.300q is there twice", f.Path)
		}
		names[f.Path] = true
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if names[dir] {
				return refusal("rename one of them, or mount only one", "%.300q is a file and a directory with %.300q in it", dir, f.Path)
			}
		}
	}
	return nil
}

func unfit(name string) string {
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) {
		return "is no name that a file can have"
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 240 {
			return "has a part that is too long for a file's name"
		}
	}
	if len(name) > 3000 {
		return "is too long for a file's name"
	}
	return ""
}

// below lists the part of a source's names below what was asked for: all that
// stand below it as a directory, or else the one that it is.
func below(asked string, names []string) (rel []string) {
	dir := strings.TrimSuffix(asked, "/") + "/"
	if asked == "" {
		dir = ""
	}
	rel = make([]string, len(names))
	found := false
	for i, n := range names {
		if r, ok := strings.CutPrefix(n, dir); ok && r != "" {
			rel[i], found = r, true
		}
	}
	if found {
		return rel
	}
	if i := slices.Index(names, asked); i >= 0 && asked != "" {
		rel[i] = thisFile
		return rel
	}
	return nil
}

// thisFile stands in an answer of below for the file itself.
const thisFile = "."

func listed(what string, asked string, names []string, file func(i int) File) ([]File, error) {
	rel := below(asked, names)
	var files []File
	for i, r := range rel {
		if r == "" || strings.HasSuffix(r, "/") { // elsewhere, or what stands for a directory
			continue
		}
		f := file(i)
		f.name = names[i]
		if f.Path = r; r == thisFile {
			f.Path = ""
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, refusal("correct the name, or put the files there first", "%s: there is nothing", what)
	}
	return files, nil
}

func span(off, n int64) string { return fmt.Sprintf("bytes=%d-%d", off, off+n-1) }
