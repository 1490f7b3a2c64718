package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/services/internal/console"
)

// Every reading command, as people and as programs see it.
func TestReadingCommandsPrintTheSameEveryTime(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"job-ls", []string{"job", "ls"}},
		{"job-show", []string{"job", "show", "llama-7b"}},
		{"job-events", []string{"job", "events", "llama-7b"}},
		{"failover-ls", []string{"failover", "ls"}},
		{"failover-show", []string{"failover", "show", "llama-7b", "1"}},
		{"failover-explain", []string{"failover", "show", "llama-7b", "1", "--explain"}},
		{"failover-stats", []string{"failover", "stats"}},
		{"checkpoint-ls", []string{"checkpoint", "ls", "llama-7b"}},
		{"checkpoint-show", []string{"checkpoint", "show", "llama-7b", "1000"}},
		{"bill-show", []string{"bill", "show"}},
		{"bill-show-job", []string{"bill", "show", "llama-7b"}},
		{"offers", []string{"offers"}},
		{"instance-ls", []string{"instance", "ls"}},
		{"plan", []string{"plan", "testdata/train.yaml"}},
		{"plan-explain", []string{"plan", "testdata/train.yaml", "--explain"}},
		{"events-tail", []string{"events", "tail", "--no-follow", "--last", "3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, system())
			for _, format := range formats() {
				got := r.run(append(tc.args, "--utc", "-o", format)...)
				if got.code != 0 {
					t.Fatalf("-o %s: exit %d: %s", format, got.code, got.err)
				}
				if unsafeIn(got.out) {
					t.Errorf("-o %s would act on a terminal: %q", format, got.out)
				}
				if format != "yaml" {
					golden(t, tc.name+"-"+format, got.out)
				}
			}
		})
	}
}

func TestDocumentsSayTheirVersionAndYAMLSaysTheSameAsJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	for _, args := range [][]string{{"job", "ls"}, {"job", "show", "x"}, {"failover", "show", "x"}, {"bill", "show"}, {"offers"}, {"version"}} {
		var j, y map[string]any
		if err := json.Unmarshal([]byte(r.run(append(args, "-o", "json")...).out), &j); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if err := yaml.Unmarshal([]byte(r.run(append(args, "-o", "yaml")...).out), &y); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if j["schema_version"] != 1.0 || y["schema_version"] != 1 || len(j) != len(y) {
			t.Errorf("%v: versions %v and %v, %d and %d fields", args, j["schema_version"], y["schema_version"], len(j), len(y))
		}
	}
}

func TestEmptyAnswersAreListsInJSONAndWordsInTables(t *testing.T) {
	t.Parallel()
	empty := answers{
		console.GetJobs: always([]console.Job{}), console.GetFailoverList: always(console.FailoverList{Items: []console.Failover{}}), console.GetFailoverStats: always(console.FailoverStats{}), console.GetBill: always([]console.Bill{}),
		console.GetInstances: always([]console.Instance{}), console.GetOffers: always([]console.Offer{}), console.GetCheckpoints: always([]console.Checkpoint{}),
	}
	r := newRig(t, empty)
	for _, args := range [][]string{{"job", "ls"}, {"failover", "ls"}, {"bill", "show"}, {"instance", "ls"}, {"offers"}, {"checkpoint", "ls", "x"}} {
		if got := r.run(append(args, "-o", "json")...); !strings.Contains(got.out, `"items": []`) {
			t.Errorf("%v -o json = %s%s", args, got.out, got.err)
		}
		if got := r.run(args...); strings.Count(got.out, "\n") != 1 || len(got.out) < 8 {
			t.Errorf("%v = %q", args, got.out)
		}
	}
}

func TestOffersAreFilteredHoweverTheyAreSpelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	if got := r.run("offers", "--gpu", "v100", "--region", "NORTH", "-o", "name"); got.out != "local/north-b/v100.1/spot\nlocal/north-a/v100.1/on-demand\n" {
		t.Errorf("offers = %q", got.out)
	}
	if got := r.run("offers", "--gpu", "H100", "-o", "name"); got.out != "" {
		t.Errorf("offers = %q", got.out)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	well := newRig(t, system())
	if got := well.run("doctor", "--state", dir); got.code != 0 || strings.Contains(got.out, "WRONG") {
		t.Errorf("exit %d:\n%s%s", got.code, got.out, got.err)
	}
	ill := system()
	ill[console.GetHealth] = always([]console.Check{{Name: "disk", Detail: "3 MB are left", Remedy: "make room"}})
	if got := newRig(t, ill).run("doctor", "--state", dir); got.code != 1 || !strings.Contains(got.out, "disk: make room") {
		t.Errorf("exit %d:\n%s%s", got.code, got.out, got.err)
	}
	old := system()
	old[console.GetClock] = always(console.Clock{Version: "v0.9.0"})
	if got := newRig(t, old).run("doctor", "--state", dir); got.code != 1 || !strings.Contains(got.out, "the system is v0.9.0") {
		t.Errorf("exit %d:\n%s%s", got.code, got.out, got.err)
	}
	gone := newRig(t, system())
	gone.setAway(true)
	if got := gone.run("doctor", "--state", filepath.Join(dir, "none")); got.code != 4 || !strings.Contains(got.out, "there is no "+dir) {
		t.Errorf("exit %d:\n%s%s", got.code, got.out, got.err)
	}
}

func TestCancelAsksFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	if got := r.run("job", "cancel", "llama-7b", "--reason", "wrong data"); got.code != 2 || !strings.Contains(got.err, "-y") || r.ask(console.DoCancel) != 0 {
		t.Errorf("without anybody to ask: exit %d, %s", got.code, got.err)
	}
	r.tty, r.stdin = true, strings.NewReader("n\n")
	if got := r.run("job", "cancel", "llama-7b", "--reason", "wrong data"); got.code != 103 || r.ask(console.DoCancel) != 0 {
		t.Errorf("answered no: exit %d, %s", got.code, got.err)
	}
	r.stdin = strings.NewReader("y\n")
	if got := r.run("job", "cancel", "llama-7b", "--reason", "wrong data"); got.code != 0 || r.ask(console.DoCancel) != 1 {
		t.Errorf("answered yes: exit %d, %s", got.code, got.err)
	}
	if want := `{"job":"` + string(cannedJob) + `","reason":"wrong data"}`; string(r.sent[console.DoCancel]) != want {
		t.Errorf("asked %s, want %s", r.sent[console.DoCancel], want)
	}
}

// A help page without an example is half a help page.
func TestEveryCommandHasAnExampleAndAShortHelp(t *testing.T) {
	t.Parallel()
	e := newEnvironment(strings.NewReader(""), nil, nil, os.Getenv)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.IsAvailableCommand() && (c.Example == "" || c.Short == "") {
			t.Errorf("%s: example %q, short %q", c.CommandPath(), c.Example, c.Short)
		}
	}
	walk(rootCommand(e))
}

func TestCompletionOffersJobsAndScripts(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	got := r.run("__complete", "job", "show", "")
	if !strings.Contains(got.out, string(cannedJob)+"\tllama-7b, running") || unsafeIn(got.out) {
		t.Errorf("completion = %q", got.out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := r.run("completion", shell); got.code != 0 || len(got.out) < 500 {
			t.Errorf("completion %s: exit %d, %d bytes", shell, got.code, len(got.out))
		}
	}
}

// The trainer's own --output stands where ours does elsewhere.
func TestTheTrainerIsARealTrainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, nil)
	got := r.run("trainer", "--steps", "2", "--hidden", "4", "--log-every", "1", "--output", dir)
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	if _, err := fs.Stat(os.DirFS(dir), "checkpoint-2/model.safetensors"); err != nil {
		t.Error(err)
	}
	if got := r.run("trainer", "--steps", "5", "--hidden", "4", "--exit-code-at-step", "7@3", "--output", t.TempDir()); got.code != 7 {
		t.Errorf("exit %d, want the trainer's own 7: %s", got.code, got.err)
	}
	if got := r.run("trainer", "--steps", "0"); got.code != 2 {
		t.Errorf("exit %d, want 2: %s", got.code, got.err)
	}
}
