package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// write puts v into a file as JSON, whole or not at all, and on the disk before
// it returns. Files hold user data with tokens: nobody else may read them.
func write(path string, v any) error {
	if err := replace(path, 0o600, func(f *os.File) error { return errors.Join(encode(f, v), f.Sync()) }); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// jot is write for what may be lost with the power.
func jot(path string, v any) error {
	return replace(path, 0o600, func(f *os.File) error { return encode(f, v) })
}

func encode(f *os.File, v any) error {
	e := json.NewEncoder(f)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// replace fills a new file and gives it its name when it is complete.
func replace(path string, mode os.FileMode, fill func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	err = errors.Join(fill(f), f.Chmod(mode))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// KeepExecutable copies the running program into dir and returns the copy's
// path. Machines outlive the program that launched them, whose file may be gone
// by then: `go run` deletes it. A copy from before is replaced; programs that run from it keep it.
func KeepExecutable(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keeping a copy of the program: %w", err)
	}
	self, err := os.Open(selfPath)
	if err != nil {
		return "", fmt.Errorf("keeping a copy of the program: %w", err)
	}
	defer self.Close()
	path := filepath.Join(dir, "spotferry")
	err = replace(path, 0o700, func(f *os.File) error {
		_, err := io.Copy(f, self)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("keeping a copy of the program as %s: %w", path, err)
	}
	return path, nil
}
