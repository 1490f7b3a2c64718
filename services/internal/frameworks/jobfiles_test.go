package frameworks

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/services/internal/jobfile"
)

// readJob reads a job file of the scripts' directory.
func readJob(t *testing.T, dir, name string) jobfile.Job {
	t.Helper()
	file := filepath.Join(dir, name+".yaml")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	job, err := jobfile.Read(file, src, jobfile.Options{Dir: dir, Stat: os.Stat})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

var scriptName = regexp.MustCompile(`\w+\.py`)

func TestEverySubjectHasAJobFileAndAScript(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) != len(subjects) {
		t.Errorf("%d subjects, job files %v (%v)", len(subjects), files, err)
	}
	for _, s := range subjects {
		job := readJob(t, "testdata", s.name)
		for _, w := range job.Warnings {
			if w.Severity != jobfile.Note {
				t.Errorf("%s: %v", s.name, w)
			}
		}
		script := scriptName.FindString(job.Spec.Run)
		text, err := os.ReadFile(filepath.Join("testdata", script))
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if !strings.Contains(string(text), "machine.RESUME_FROM") || !strings.Contains(string(text), "machine.CHECKPOINTS") {
			t.Errorf("%s: %s does not resume, or saves elsewhere", s.name, script)
		}
	}
}

// What is installed is named by exact versions, and nothing brings more along.
func TestRequirementsArePinned(t *testing.T) {
	text, err := os.ReadFile("requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`^[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+]*$`)
	var names []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		if !pinned.MatchString(line) {
			t.Errorf("%q names no exact version", line)
		}
		name, _, _ := strings.Cut(strings.ToLower(line), "==")
		names = append(names, name)
	}
	for _, want := range []string{"torch", "transformers", "peft", "pytorch-lightning", "deepspeed"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not installed", want)
		}
	}
}
