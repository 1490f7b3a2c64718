package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// jobFile writes a job file and returns its path.
func jobFile(t *testing.T, src string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// alone is a command line with no system to ask.
func alone(t *testing.T) *rig {
	r := newRig(t, answers{})
	r.setAway(true)
	return r
}

func TestSpecValidateSaysEverythingAboutEveryFile(t *testing.T) {
	t.Parallel()
	good := jobFile(t, "run: train\nresources: {priority: 5}\npolicy: {budget: 1, deadline: 1999-01-01T00:00:00Z}\n")
	bad := jobFile(t, "run: train\nnmae: x\nresources: {ports: 80, autostop: 5}\n")
	r := alone(t)
	if got := r.run("spec", "validate", good); got.code != 0 || got.err != "" || !strings.Contains(got.out, good+": ok, 1 remark") || strings.Contains(got.out, "note:") {
		t.Errorf("a good file: exit %d\n%s%s", got.code, got.out, got.err)
	}
	if got := r.run("spec", "validate", good, "-o", "wide"); got.code != 0 || !strings.Contains(got.out, "note:") {
		t.Errorf("a good file, wide: exit %d\n%s%s", got.code, got.out, got.err)
	}
	got := r.run("spec", "validate", good, bad, "no-such.yaml")
	if got.code != 2 {
		t.Errorf("exit %d", got.code)
	}
	for _, says := range []string{
		good + ": ok", bad + ":1:1: policy.budget is missing", bad + ":2:1: there is no key \"nmae\" in a job file\n  nmae: x\n  ^\n  did you mean name?",
		bad + ":3:13: resources.ports is not done here", bad + ":3:24: warning: resources.autostop changes nothing", "no-such.yaml: ",
	} {
		if !strings.Contains(got.out, says) {
			t.Errorf("does not say %q:\n%s", says, got.out)
		}
	}
	if !strings.Contains(got.err, "2 of 3 job files would be refused") {
		t.Errorf("sums up: %s", got.err)
	}
	var doc struct {
		SchemaVersion int `json:"schema_version"`
		Items         []struct {
			File     string
			Valid    bool
			Problems []struct {
				Line, Col        int
				Message, Remedy  string
				Severity, Source string
			}
		}
	}
	got = r.run("spec", "validate", good, bad, "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || got.code != 2 || got.err != "" {
		t.Fatalf("as JSON: exit %d, %v\n%s%s", got.code, err, got.out, got.err)
	}
	if len(doc.Items) != 2 || !doc.Items[0].Valid || doc.Items[1].Valid || len(doc.Items[1].Problems) != 7 || doc.Items[1].Problems[4].Source != "nmae: x" {
		t.Errorf("as JSON: %+v", doc)
	}
	if got := r.run("spec", "validate"); got.code != 2 || !strings.Contains(got.err, "needs FILE") {
		t.Errorf("no file: exit %d, %s", got.code, got.err)
	}
}

func TestSpecValidateTakesWhatRunWouldBeGiven(t *testing.T) {
	t.Parallel()
	file := jobFile(t, "run: train\nenvs: {HF_TOKEN: }\nsecrets: [WANDB_API_KEY]\n")
	r := alone(t)
	r.env = func(k string) string { return map[string]string{"HF_TOKEN": "c4nary-1", "HOME": "/home/ann"}[k] }
	got := r.run("spec", "validate", file, "--budget", "$20", "--secret", "HF_TOKEN", "--secret", "WANDB_API_KEY=c4nary-2", "-o", "json")
	if got.code != 0 || strings.Contains(got.out+got.err, "c4nary") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	got = r.run("spec", "validate", file, "--budget", "€20", "--secret", "NOWHERE")
	if got.code != 2 || !strings.Contains(got.err, "--secret NOWHERE: this shell has no such variable") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
}

func TestSpecSchemaIsASchema(t *testing.T) {
	t.Parallel()
	got := alone(t).run("spec", "schema")
	var doc map[string]any
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || got.code != 0 || doc["$schema"] == nil || doc["properties"] == nil {
		t.Errorf("exit %d, %v: %.200s", got.code, err, got.out)
	}
}

func TestSpecConvertWritesAJobFile(t *testing.T) {
	t.Parallel()
	r := alone(t)
	task := jobFile(t, "type: task\nname: n\npython: 3.12\ncommands: [train]\nmax_price: 2\nmax_duration: 5h\n")
	got := r.run("spec", "convert", "--from", "dstack", task)
	if got.code != 0 || !strings.Contains(got.err, `warning: "python" has no counterpart`) {
		t.Fatalf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if back := r.run("spec", "validate", jobFile(t, got.out)); back.code != 0 {
		t.Errorf("what was written is refused:\n%s\n%s", got.out, back.out)
	}
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{task}, "give --from dstack"},
		{[]string{"--from", "slurm", task}, `--from is "slurm"`},
		{[]string{"--from", "dstack", "no-such.yml"}, "no-such.yml"},
		{[]string{"--from", "dstack", jobFile(t, "type: service\ncommands: [x]\n")}, "cannot be converted"},
	} {
		if got := r.run(append([]string{"spec", "convert"}, tc.args...)...); got.code != 2 || !strings.Contains(got.err, tc.says) || got.out != "" {
			t.Errorf("%v: exit %d, %s%s, want %q", tc.args, got.code, got.out, got.err, tc.says)
		}
	}
}
