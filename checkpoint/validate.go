package checkpoint

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Validate reports whether m can be restored safely: every path is clean,
// relative and unique and lies in a directory of the manifest, every link stays
// in the tree however it is followed, sizes are sums that fit. Its error wraps
// ErrManifest and names the file.
func (m Manifest) Validate() error {
	if err := m.validateHead(); err != nil {
		return fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if err := validateTree(m.Files); err != nil {
		return fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if err := m.validateData(); err != nil {
		return fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return nil
}

func (m Manifest) validateHead() error {
	if err := token("tenant", m.Tenant); err != nil {
		return err
	}
	if err := token("job", m.Job); err != nil {
		return err
	}
	switch {
	case m.Schema < 1 || m.Schema > Schema:
		return fmt.Errorf("schema %d, want 1 to %d", m.Schema, Schema)
	case m.Epoch < 0 || int64(m.Epoch) > maxEpoch:
		return fmt.Errorf("epoch %d out of range", m.Epoch)
	case m.Step < 0:
		return fmt.Errorf("step %d is negative", m.Step)
	case m.Save < 0:
		return fmt.Errorf("save of %v is negative", m.Save)
	case m.Created.Year() < 0 || m.Created.Year() > 9999:
		return fmt.Errorf("created in the year %d", m.Created.Year())
	case !m.Created.Equal(m.Created.Truncate(time.Microsecond)) || m.Created.Location() != time.UTC:
		return fmt.Errorf("created %v, want UTC to the microsecond", m.Created)
	case len(m.Framework) > 64 || strings.ContainsFunc(m.Framework, unprintable) || !utf8.ValidString(m.Framework):
		return fmt.Errorf("framework %s", quote(m.Framework))
	case m.Key != "" && (m.Schema < 2 || len(m.Key) != shortHash || strings.Trim(m.Key, "0123456789abcdef") != ""):
		return fmt.Errorf("key %s", quote(m.Key))
	}
	return treeName(m.Dir)
}

// treeName checks the name of a tree: one visible path part. A leading dot is
// refused because that is how unfinished restores are told from trees.
func treeName(s string) error {
	if err := cleanPath(s); err != nil {
		return err
	}
	if s[0] == '.' || strings.Contains(s, "/") {
		return fmt.Errorf("%s cannot be the name of a tree", quote(s))
	}
	return nil
}

// validateTree checks entries that are sorted by path.
func validateTree(files []File) error {
	if len(files) == 0 || files[0].Path != "." || files[0].Kind != Directory {
		return fmt.Errorf("the tree has no directory of its own")
	}
	var sum int64
	seen := tree{}
	for i, f := range files {
		if i > 0 && comparePaths(files[i-1].Path, f.Path) >= 0 {
			return fmt.Errorf("%s: repeated or out of order", quote(f.Path))
		}
		if err := f.validate(); err != nil {
			return fmt.Errorf("%s: %w", quote(f.Path), err)
		}
		if dir := path.Dir(f.Path); i > 0 && seen[dir].Kind != Directory {
			return fmt.Errorf("%s: lies in no directory of the manifest", quote(f.Path))
		}
		if f.Size > math.MaxInt64-sum {
			return fmt.Errorf("%s: sizes add up to more than there are bytes", quote(f.Path))
		}
		sum += f.Size
		seen[f.Path] = f
	}
	return seen.contained(files)
}

func (f File) validate() error {
	if err := cleanPath(f.Path); err != nil {
		return err
	}
	if f.Mode&^uint32(fs.ModePerm) != 0 {
		return fmt.Errorf("mode %o has more than permission bits", f.Mode)
	}
	switch f.Kind {
	case Regular:
		if f.Size < 0 || f.Link != "" {
			return fmt.Errorf("a file of size %d with link %s", f.Size, quote(f.Link))
		}
	case Directory:
		if f.Size != 0 || f.Hash != "" || f.Link != "" || f.Chunks != nil {
			return fmt.Errorf("a directory with content")
		}
	case Symlink:
		if f.Size != 0 || f.Hash != "" || f.Mode != 0 || f.Chunks != nil {
			return fmt.Errorf("a link with content")
		}
		return linkText(f.Link)
	default:
		return fmt.Errorf("unknown kind %s", quote(string(f.Kind)))
	}
	return nil
}

// cleanPath checks a slash-separated path below a tree. The lengths are Linux's:
// 4096 bytes for a path and 255 for a part of it.
func cleanPath(p string) error {
	switch {
	case !fs.ValidPath(p): // also absolute, "..", empty parts, not UTF-8
		return fmt.Errorf("not a clean relative path in UTF-8")
	case strings.ContainsAny(p, "\\\x00"):
		return fmt.Errorf("backslash or NUL in a path")
	case len(p) >= 4096 || slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return len(s) > 255 }):
		return fmt.Errorf("path is too long")
	}
	return nil
}

func linkText(s string) error {
	if s == "" || len(s) >= 4096 || strings.HasPrefix(s, "/") || !utf8.ValidString(s) || strings.ContainsAny(s, "\\\x00") {
		return fmt.Errorf("link to %s", quote(s))
	}
	return nil
}
