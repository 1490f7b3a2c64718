package checkpoint

import (
	"fmt"
	"path"
	"strings"
)

// tree is a manifest by path, used to follow links without a file system.
type tree map[string]File

// maxLinks is how many links one path may pass through, as in Linux.
const maxLinks = 40

// contained checks that no link of the tree leads out of it. Comparing texts is
// not enough: "a" -> "b/../.." looks harmless when b is a directory and leaves
// the tree when b is itself a link to its root. So each link is followed as the
// kernel would.
//
// The steps taken together are limited, or a small manifest of long links
// through each other would take minutes to refuse.
func (t tree) contained(files []File) error {
	steps := 100_000 + 10*len(files)
	for _, f := range files {
		if f.Kind != Symlink {
			continue
		}
		if err := t.follow(path.Dir(f.Path), f.Link, &steps); err != nil {
			return fmt.Errorf("%s: link to %s %w", quote(f.Path), quote(f.Link), err)
		}
	}
	return nil
}

// follow walks text from the directory at. What it meets that is not in the
// tree is taken for a directory, so that a file made there later cannot turn a
// dangling link into a way out.
func (t tree) follow(at, text string, steps *int) error {
	todo := strings.Split(text, "/")
	for links := 1; len(todo) > 0; *steps-- {
		if *steps <= 0 {
			return fmt.Errorf("takes too long to follow")
		}
		part := todo[0]
		todo = todo[1:]
		if part == ".." && at == "." {
			return fmt.Errorf("leaves the tree")
		}
		next := path.Join(at, part) // an empty part and "." stay, ".." goes up
		if f := t[next]; f.Kind != Symlink {
			at = next
			continue
		} else if links++; links > maxLinks {
			return fmt.Errorf("passes through more than %d links", maxLinks)
		} else {
			todo = append(strings.Split(f.Link, "/"), todo...)
		}
	}
	return nil
}
