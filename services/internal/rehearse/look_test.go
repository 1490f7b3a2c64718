package rehearse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// disk makes a machine's files; a name with a slash at its end is a directory.
func disk(t *testing.T, files map[string]string) string {
	t.Helper()
	machine := t.TempDir()
	for name, content := range files {
		path := filepath.Join(machine, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The trainer is what began when run.sh was written: before all else.
	if _, ok := files["run.sh"]; ok {
		began := time.Now().Add(-time.Minute)
		if err := os.Chtimes(filepath.Join(machine, "run.sh"), began, began); err != nil {
			t.Fatal(err)
		}
	}
	return machine
}

func TestALookSaysWhereWasLookedAndWhatWasThere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		files  map[string]string
		policy events.CheckpointPolicy
		says   []string
		never  string
	}{
		{"no directory", map[string]string{"run.sh": ""}, events.CheckpointPolicy{}, []string{"checkpoints in the job's own: there is none."}, "elsewhere"},
		{"an empty one, but for ours", map[string]string{"run.sh": "", "work/checkpoints/.spotferry/x": ""}, events.CheckpointPolicy{}, []string{"it is empty."}, ".spotferry"},
		{"one of another name", map[string]string{"run.sh": "", "work/out/a.txt": ""}, events.CheckpointPolicy{Dir: "out"}, []string{"out in the job's own: it has a.txt, none of which"}, "elsewhere"},
		{"a checkpoint that is not whole", map[string]string{"run.sh": "", "work/checkpoints/checkpoint-40/model.safetensors": "x"}, events.CheckpointPolicy{}, []string{`"checkpoint-40":`, "trainer_state.json"}, "elsewhere"},
		{"one without its marker", map[string]string{"run.sh": "", "work/checkpoints/step-7/x": "x"}, events.CheckpointPolicy{Framework: "plain", Marker: "DONE"}, []string{`"step-7": marker "step-7/DONE" is not there yet`}, "elsewhere"},
		{"one elsewhere", map[string]string{"run.sh": "", "work/checkpoints/": "", "work/output/checkpoint-40/x": "x", "work/best.ckpt": ""}, events.CheckpointPolicy{}, []string{"it is empty. What looks like one lies elsewhere", "output/checkpoint-40", "best.ckpt"}, "checkpoint-40/x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := LookAt(disk(t, tc.files), tc.policy)
			for _, want := range tc.says {
				if !strings.Contains(l.words(), want) {
					t.Errorf("does not say %q: %s", want, l.words())
				}
			}
			if strings.Contains(l.words(), tc.never) {
				t.Errorf("says %q: %s", tc.never, l.words())
			}
			if l.Trainer.IsZero() {
				t.Error("run was started")
			}
		})
	}
}

func TestFilesThatCameWithTheJobAreNoCheckpointsOfIt(t *testing.T) {
	t.Parallel()
	machine := disk(t, map[string]string{"work/base/model.safetensors": "x", "run.sh": ""})
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(machine, "work/base/model.safetensors"), old, old); err != nil {
		t.Fatal(err)
	}
	if l := LookAt(machine, events.CheckpointPolicy{}); len(l.Elsewhere) != 0 {
		t.Errorf("elsewhere: %v", l.Elsewhere)
	}
	if l := LookAt(filepath.Join(machine, "none"), events.CheckpointPolicy{}); !l.Trainer.IsZero() || !l.Missing {
		t.Errorf("a machine that is gone: %+v", l)
	}
}
