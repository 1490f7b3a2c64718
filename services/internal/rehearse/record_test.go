package rehearse

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/events"
)

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	path := Beside(filepath.Join(t.TempDir(), "train.yaml"))
	if !strings.HasSuffix(path, "/train.rehearsal.json") {
		t.Error(path)
	}
	n := int64(1234)
	want := Record{Format: 1, At: began, Version: "v1", Job: "j", Key: "k", Machine: Machine{CPU: "x", CPUs: 2, GPUs: []string{"V100"}}, Verdict: Resumes, Figures: Figures{SetupMS: &n}}
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := want.Save(filepath.Join(t.TempDir(), "none", "x.json")); err == nil {
		t.Error("a record was kept in a directory that is not there")
	}
}

func TestARecordThatCannotBeReadSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tc := range []struct{ name, content, says string }{
		{"not JSON", "steps: 5", "rehearse again"},
		{"of no format", `{"at": "2026-01-01T00:00:00Z"}`, "format 0"},
		{"of a newer program", `{"format": 9, "version": "v9.0"}`, "v9.0"},
	} {
		path := filepath.Join(dir, tc.name)
		if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || errors.Is(err, ErrNoRecord) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := Load(dir); err == nil || errors.Is(err, ErrNoRecord) {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "absent")); !errors.Is(err, ErrNoRecord) {
		t.Errorf("absent: %v", err)
	}
}

func TestTheKeyIsOfWhatChangesFigures(t *testing.T) {
	t.Parallel()
	base := events.JobSpec{Name: "j", Run: "train", Setup: "pip", Envs: map[string]string{"A": "1", "B": "2"}, Policy: events.Policy{Budget: 1}}
	for _, tc := range []struct {
		name string
		with func(*events.JobSpec)
		same bool
	}{
		{"another budget", func(s *events.JobSpec) { s.Policy.Budget = 2 }, true},
		{"another machine", func(s *events.JobSpec) { s.Resources.VCPU = 8 }, true},
		{"another name", func(s *events.JobSpec) { s.Name = "k" }, true},
		{"another script", func(s *events.JobSpec) { s.Run = "train2" }, false},
		{"another setup", func(s *events.JobSpec) { s.Setup = "conda" }, false},
		{"another variable", func(s *events.JobSpec) { s.Envs = map[string]string{"A": "1", "B": "3"} }, false},
		{"another way of saving", func(s *events.JobSpec) { s.Policy.Checkpoint.Signal = "SIGUSR1" }, false},
	} {
		s := base
		tc.with(&s)
		if (Key(s) == Key(base)) != tc.same {
			t.Errorf("%s: %s and %s", tc.name, Key(s), Key(base))
		}
	}
}
