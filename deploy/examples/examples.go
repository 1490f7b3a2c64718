// Package examples holds job files that run on one machine, and the working
// directory of one of them: what the demonstration runs, and a first thing to
// copy from.
package examples

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
)

//go:embed finetune.yaml sweep-b.yaml script.yaml skypilot.yaml script
var files embed.FS

// FS holds the job files and what they refer to.
func FS() fs.FS { return files }

// Unpack writes the examples below dir, over what is there of them, and returns
// the names of the job files within it, in the order in which they are meant to be
// read. SkyPilot's own kind of file, skypilot.yaml, is not among them: it has no budget.
func Unpack(dir string) (jobs []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("unpacking the examples: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("unpacking the examples: %w", err)
	}
	defer root.Close()
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return root.MkdirAll(name, 0o755)
		}
		b, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if path.Ext(name) == ".sh" {
			mode = 0o755 // embedding forgets who may run a file
		}
		return root.WriteFile(name, b, mode)
	})
	if err != nil {
		return nil, fmt.Errorf("unpacking the examples: %w", err)
	}
	return []string{"finetune.yaml", "sweep-b.yaml", "script.yaml"}, nil
}
