package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/services/internal/rehearse"
)

// scripts copies the job files of the tests, so that what is kept beside one does
// not lie in the source tree.
func scripts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/rehearse")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRehearsalsFindWhatIsWrongWithAScript runs scripts as users have them in the real system.
func TestRehearsalsFindWhatIsWrongWithAScript(t *testing.T) {
	if testing.Short() {
		t.Skip("runs ten systems for some seconds each")
	}
	t.Parallel()
	dir := scripts(t)
	for _, tc := range []struct {
		file  string
		limit string
		kind  rehearse.Kind
		code  exit
		says  []string
	}{
		{"resumes", "50s", rehearse.Resumes, exitOK, []string{
			"It resumes rightly, with a notice and without one.", "on SIGUSR1", "Taken away with a notice of 30 s at step ", "Taken away without a word at step ", "with the same losses to the last digit",
		}},
		{"forgetful", "50s", rehearse.RestoreIgnored, exitFailed, []string{
			"It begins anew after a move: the checkpoint is ignored.", "was restored, but the trainer's first step is ", "paid for again", "$SPOTFERRY_RESUME_FROM",
		}},
		{"crashing", "50s", rehearse.Crashes, exitFailed, []string{
			"It crashes at the same step every time.", "It began at the beginning, and ended with exit code 7", "It was started again from its checkpoint of step 20, and ended with exit code 7", "ending at step 30 as asked",
		}},
		{"reshuffled", "50s", rehearse.LossesDiffer, exitFailed, []string{"It goes on from its checkpoint, but not as the run before.", "and the losses differ: at step ", "random states"}},
		{"elsewhere", "8s", rehearse.NoCheckpoint, exitFailed, []string{"It has written no checkpoint in ", "it is empty. What looks like one lies elsewhere, in the job's own directory: output/checkpoint-", "in policy.checkpoint.dir, here output"}},
		{"lossless", "50s", rehearse.Resumes, exitOK, []string{"seen twice, without losses", "Its losses could not be compared: it tells none", "A notice does not help it"}},
		{"silent", "50s", rehearse.Resumes, exitOK, []string{"and the next it saved was of step ", "It tells no steps"}},
		{"deaf", "50s", rehearse.DeafToNotice, exitFailed, []string{"saves only in its own rhythm", "it did not save on SIGUSR1", "set a flag in the handler"}},
		{"hanging", "10s", rehearse.Stalls, exitFailed, []string{"it lives, and makes no more steps", "No step since step 40", `"event":"stalled"`}},
		{"finishing", "50s", rehearse.EndsOnNotice, exitFailed, []string{"It ends with exit code 0 when it gets notice", "such as 143"}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			p := beginRehearsal(t, tmp, filepath.Join(dir, tc.file+".yaml"), "--for", tc.limit)
			until(t, "the rehearsal ends", p.over)
			out := p.stdout.String()
			if code := exit(p.ProcessState.ExitCode()); code != tc.code {
				t.Errorf("exit %d, want %d:\n%s%s", code, tc.code, out, p.stderr)
			}
			for _, want := range tc.says {
				if !strings.Contains(out, want) {
					t.Errorf("does not say %q:\n%s", want, out)
				}
			}
			r, err := rehearse.Load(filepath.Join(dir, tc.file+".rehearsal.json"))
			if err != nil || r.Verdict != tc.kind || r.Figures.PeakBytes == nil {
				t.Errorf("kept is %+v, %v", r, err)
			}
			nothingLeft(t, tmp)
		})
	}
}

// beginRehearsal begins one as somebody has it whose shell is set up for another
// system, which it must not touch.
func beginRehearsal(t *testing.T, tmp, file string, flags ...string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"SPOTFERRY_BUS_URL=nats://127.0.0.1:1", "SPOTFERRY_CREDS=/nonexistent", "SPOTFERRY_STATE=/nonexistent"}
	return beginProgram(t, "/usr/bin/env", tmp, append(append(env, exe, "rehearse", file), flags...)...)
}

// nothingLeft checks that no process and no file of a rehearsal is left.
func nothingLeft(t *testing.T, tmp string) {
	t.Helper()
	until(t, "nothing of it runs", func() bool { return len(processesIn(t, tmp)) == 0 })
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

func TestARehearsalThatIsInterruptedLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a system for some seconds")
	}
	t.Parallel()
	tmp := t.TempDir()
	p := beginRehearsal(t, tmp, filepath.Join(scripts(t), "resumes.yaml"), "--for", "2m")
	until(t, "its machine is taken", func() bool { return p.over() || strings.Contains(p.stderr.String(), "taking the machine away") })
	_ = p.Process.Signal(os.Interrupt)
	until(t, "it ends", p.over)
	if code := exit(p.ProcessState.ExitCode()); code != exitInterrupted || !strings.Contains(p.stderr.String(), "taken down") {
		t.Errorf("exit %d: %s", code, p.stderr)
	}
	nothingLeft(t, tmp)
}

// TestAPlanTakesWhatWasRehearsed rehearses a job, plans it on another system, and
// finds its figures there, each with where it comes from.
func TestAPlanTakesWhatWasRehearsed(t *testing.T) {
	s := quick(t)
	s.serve()
	dir := scripts(t)
	file := filepath.Join(dir, "resumes.yaml")
	type planned struct {
		Figures []struct {
			Name, Origin, Detail, Unit string
			Value                      float64
			Rehearsed                  bool
		}
		Decision struct {
			Inputs struct {
				SaveMS     int64 `json:"save_ms"`
				StateBytes int64 `json:"state_bytes"`
				RestartS   int64 `json:"restart_s"`
			}
		}
	}
	before := ask1[planned](s, "plan", file)
	for _, f := range before.Figures {
		if f.Origin != "assumed" || f.Detail == "" {
			t.Errorf("before: %+v", f)
		}
	}
	p := beginRehearsal(t, t.TempDir(), file, "--for", "50s", "-o", "json", "--no-input")
	until(t, "the rehearsal ends", p.over)
	var r struct {
		SchemaVersion int `json:"schema_version"`
		Verdict       struct{ Kind string }
		Moves         []struct {
			Cause    string
			Compared int
			Exact    int
		}
		Figures struct {
			CheckpointBytes int64 `json:"checkpoint_bytes"`
		}
		Saved string
	}
	if err := json.Unmarshal([]byte(p.stdout.String()), &r); err != nil {
		t.Fatalf("%v: %s%s", err, p.stdout, p.stderr)
	}
	if r.SchemaVersion != 1 || r.Verdict.Kind != "resumes" || len(r.Moves) != 2 || r.Moves[0].Cause != "notice" || r.Moves[1].Cause != "no-notice" || r.Moves[1].Compared == 0 || r.Moves[1].Exact != r.Moves[1].Compared || r.Saved == "" {
		t.Errorf("rehearsed %+v", r)
	}
	after := ask1[planned](s, "plan", file)
	got := map[string]string{}
	for _, f := range after.Figures {
		got[f.Name] = f.Origin
		if f.Rehearsed != strings.Contains(f.Detail, "rehearsed ") {
			t.Errorf("it does not say when and where: %+v", f)
		}
	}
	want := map[string]string{"work": "assumed", "save pause": "measured", "checkpoint": "measured", "restart": "partly-assumed", "acquire": "assumed"}
	for name, origin := range want {
		if got[name] != origin {
			t.Errorf("%s is %s, want %s", name, got[name], origin)
		}
	}
	if in := after.Decision.Inputs; in.StateBytes != r.Figures.CheckpointBytes || in.RestartS == before.Decision.Inputs.RestartS {
		t.Errorf("the plan was made from %+v, rehearsed were %+v", in, r.Figures)
	}
	if shown := s.command("plan", file); !strings.Contains(shown.out, "resumes rightly, "+time.Now().UTC().Format("2006-01-02")) || !strings.Contains(shown.out, "checkpoint  ") {
		t.Errorf("shown is %s%s", shown.out, shown.err)
	}
	if other := s.command("plan", file, "--env", "PACE=1"); !strings.Contains(other.err, "its figures are not used; rehearse again") || strings.Contains(other.out, "measured by the rehearsal") {
		t.Errorf("with another environment: %s%s", other.out, other.err)
	}
}
