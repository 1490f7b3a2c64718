package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/spotferry/spotferry/deploy/examples"
)

func TestUnpackWritesEveryFileAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "examples")
	for range 2 {
		jobs, err := examples.Unpack(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range jobs {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
	}
	err := fs.WalkDir(examples.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, err := fs.ReadFile(examples.FS(), name)
		if err != nil {
			return err
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s is not as it was embedded: %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestUnpackWritesNothingThroughALink(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	if err := os.Symlink(outside, filepath.Join(dir, "finetune.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := examples.Unpack(dir); err == nil {
		t.Error("unpacked through a link that leads outside")
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("wrote outside the directory")
	}
}
