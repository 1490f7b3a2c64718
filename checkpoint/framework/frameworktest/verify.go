package frameworktest

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Verify compares the checkpoint of a step below dir, file by file, with what
// Write writes. A file too many in it is an error as well.
func (l Layout) Verify(dir string, step int64, seed uint64) error {
	want := l.Files(step, seed)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want[name]) {
			return fmt.Errorf("%s has %d bytes that are not those of step %d", name, len(got), step)
		}
	}
	own := l.own(step)
	if !strings.HasSuffix(own, "/") {
		return nil
	}
	return filepath.WalkDir(filepath.Join(dir, own), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if _, ok := want[filepath.ToSlash(rel)]; !ok && err == nil {
			err = fmt.Errorf("%s is none of the files of step %d", rel, step)
		}
		return err
	})
}

// Resume is what a trainer does that was restored into dir: it finds its
// checkpoint as the framework does, and compares all of it. from is what it was
// told to resume from, empty for a fresh start, which is step 0.
func (l Layout) Resume(dir, from string, seed uint64) (int64, error) {
	if from == "" {
		return 0, nil
	}
	if l.Adapter == "plain" && !strings.HasSuffix(l.own(0), "/") {
		dir = from // a set of files is restored as a directory
	}
	step, err := l.Newest(dir)
	if err == nil {
		err = l.Verify(dir, step, seed)
	}
	if err != nil {
		return 0, fmt.Errorf("resuming %s: %w", l.Name, err)
	}
	return step, nil
}

// Writing returns the paths below dir that this process has open for writing,
// as an agent sees them of the trainer. It needs /proc.
func Writing(dir string) ([]string, error) {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	var open []string
	for _, fd := range fds {
		file, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil {
			continue
		}
		rel, ok := strings.CutPrefix(file, dir+"/")
		if !ok {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + fd.Name())
		if err == nil && written(string(info)) {
			open = append(open, rel)
		}
	}
	slices.Sort(open)
	return open, nil
}

// written reports whether an fdinfo is of a file open for writing: the last
// octal digit of its flags is the mode.
func written(info string) bool {
	_, rest, _ := strings.Cut(info, "flags:")
	line, _, _ := strings.Cut(rest, "\n")
	line = strings.TrimSpace(line)
	return line != "" && (line[len(line)-1]-'0')&3 != 0
}
