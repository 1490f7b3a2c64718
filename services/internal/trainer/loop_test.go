package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestAsked(t *testing.T) {
	t.Parallel()
	usr1, term := []os.Signal{syscall.SIGUSR1}, []os.Signal{syscall.SIGTERM}
	for _, tc := range []struct {
		name  string
		at    float64 // the step whose line the request answers, -1 for before the start
		send  []os.Signal
		end   bool // the context, too
		code  int
		saved []int
	}{
		{"by nobody, it saves as often as told and at the end", 99, nil, false, 0, []int{4, 8, 10}},
		{"to save, it saves and goes on", 5, usr1, false, 0, []int{4, 5, 8, 10}},
		{"to save twice, it saves once", 5, append(usr1, usr1...), false, 0, []int{4, 5, 8, 10}},
		{"to save when it just did, it does nothing", 4, usr1, false, 0, []int{4, 8, 10}},
		{"to save before the first step, it saves after it", -1, usr1, false, 0, []int{1, 4, 8, 10}},
		{"to stop, it saves and ends", 6, term, false, CodeStop, []int{4, 6}},
		{"to save and stop, it saves once", 6, append(usr1, term...), false, CodeStop, []int{4, 6}},
		{"to stop before the first step, it just ends", -1, term, false, CodeStop, nil},
		{"to stop in the last step, it has finished", 10, term, false, 0, []int{4, 8, 10}},
		{"to stop by its context, it saves and ends", 6, nil, true, CodeStop, []int{4, 6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			signals := make(chan os.Signal, 8)
			ask := func() {
				for _, s := range tc.send {
					signals <- s
				}
				if tc.end {
					cancel()
				}
			}
			out := onLine(func(line map[string]any) {
				if line["loss"] != nil && line["step"] == tc.at {
					ask()
				}
			})
			if tc.at < 0 {
				ask()
			}
			cfg := tiny(t)
			cfg.Steps = 10
			err := run(ctx, cfg, noEnv, out, signals, time.Now)
			if ExitCode(err) != tc.code {
				t.Errorf("Run = %v, want code %d", err, tc.code)
			}
			if got, _ := savedSteps(cfg.Output); !slices.Equal(got, tc.saved) {
				t.Errorf("saved %v, want %v", got, tc.saved)
			}
		})
	}
}

func TestSaveIsNotKeptWaitingByPacing(t *testing.T) {
	t.Parallel()
	cfg := tiny(t)
	cfg.Steps, cfg.StepInterval = 3, time.Hour
	cfg.Evidence = filepath.Join(t.TempDir(), "rows")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		signals := make(chan os.Signal, 1)
		time.AfterFunc(90*time.Minute, func() { signals <- syscall.SIGUSR1 })
		if err := run(t.Context(), cfg, noEnv, onLine(func(map[string]any) {}), signals, time.Now); err != nil {
			t.Fatal(err)
		}
		var got []time.Duration
		for _, row := range readRows(t, cfg.Evidence) {
			if row.Phase != PhaseSaveEnd {
				got = append(got, row.Time.Sub(start))
			}
		}
		// Three steps an hour apart, a save between the last two, and one at the end.
		want := []time.Duration{0, time.Hour, 90 * time.Minute, 2 * time.Hour, 2 * time.Hour}
		if !slices.Equal(got, want) {
			t.Errorf("rows at %v, want %v", got, want)
		}
	})
}

func TestProgressIsWrittenAtTheEndsAtSavesAndFiftyTimesASecond(t *testing.T) {
	t.Parallel()
	cfg := tiny(t)
	cfg.Steps, cfg.SaveEvery, cfg.StepInterval = 20, 10, 6*time.Millisecond
	cfg.Progress = filepath.Join(t.TempDir(), "new", "progress.json")
	var steps, saved []int
	read := func() {
		data, err := os.ReadFile(cfg.Progress)
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		var p Progress
		if err := errors.Join(err, json.Unmarshal(data, &p)); err != nil {
			t.Fatal(err)
		}
		if n := len(steps); n == 0 || steps[n-1] != p.Step {
			steps, saved = append(steps, p.Step), append(saved, p.SavedStep)
		}
		if sum, err := DigestFile(filepath.Join(checkpointDir(cfg.Output, p.Step), modelFile)); err == nil && sum != p.Digest {
			t.Errorf("digest of step %d is %s in progress and %s in its checkpoint", p.Step, p.Digest, sum)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		if err := run(t.Context(), cfg, noEnv, onLine(func(map[string]any) { read() }), nil, time.Now); err != nil {
			t.Fatal(err)
		}
	})
	read()
	if want := []int{1, 5, 9, 10, 14, 18, 20}; !slices.Equal(steps, want) {
		t.Errorf("progress written at steps %v, want %v", steps, want)
	}
	if want := []int{0, 0, 0, 10, 10, 10, 20}; !slices.Equal(saved, want) {
		t.Errorf("saved steps %v, want %v", saved, want)
	}
}

func TestEvidenceHasARowForEveryStepAndAroundEverySave(t *testing.T) {
	t.Parallel()
	cfg := tiny(t)
	cfg.Steps, cfg.SaveEvery = 5, 2
	dir := t.TempDir()
	env := envOf(map[string]string{"SPOTFERRY_JOB_ID": "job-1", "SPOTFERRY_EPOCH": "3", "SPOTFERRY_EVIDENCE_DIR": dir})
	if err := run(t.Context(), cfg, env, onLine(func(map[string]any) {}), nil, time.Now); err != nil {
		t.Fatal(err)
	}
	start, err := processStart()
	if err != nil {
		t.Fatal(err)
	}
	type key struct {
		step  int
		phase string
	}
	var got []key
	for _, row := range readRows(t, filepath.Join(dir, "trainer.jsonl")) {
		got = append(got, key{row.Step, row.Phase})
		if row.Job != "job-1" || row.Epoch != 3 || row.PID != os.Getpid() || row.PIDStart != start || row.Loss <= 0 || row.Time.IsZero() {
			t.Errorf("row %+v does not name this process", row)
		}
		if row.Phase == PhaseStep {
			continue
		}
		sum, err := DigestFile(filepath.Join(checkpointDir(cfg.Output, row.Step), modelFile))
		if err != nil || sum != row.Digest {
			t.Errorf("digest of step %d is %s in the row and %s, %v in its checkpoint", row.Step, row.Digest, sum, err)
		}
	}
	want := []key{
		{1, "step"},
		{2, "step"}, {2, "save-begin"}, {2, "save-end"},
		{3, "step"},
		{4, "step"}, {4, "save-begin"}, {4, "save-end"},
		{5, "step"}, {5, "save-begin"}, {5, "save-end"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
}

func TestProcessStartIsFoundBehindAnyProgramName(t *testing.T) {
	t.Parallel()
	stat := "77 (a ) (b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21\n"
	if got, err := parseStart([]byte(stat)); err != nil || got != 4242 {
		t.Errorf("parseStart = %d, %v, want 4242", got, err)
	}
	if _, err := parseStart([]byte("77 (x) S 1 2")); err == nil {
		t.Error("a line without the field was accepted")
	}
}

func TestNoticeIsLoggedEachTimeItAppears(t *testing.T) {
	t.Parallel()
	notice := filepath.Join(t.TempDir(), "notice")
	var seen []float64
	out := onLine(func(line map[string]any) {
		step, _ := line["step"].(float64)
		if line["event"] == "notice" {
			seen = append(seen, step)
		}
		if line["loss"] == nil {
			return
		}
		switch step {
		case 3, 9:
			write(t, filepath.Dir(notice), map[string]string{"notice": "{}"})
		case 6: // withdrawn
			_ = os.Remove(notice)
		}
	})
	env := envOf(map[string]string{"SPOTFERRY_NOTICE_FILE": notice})
	if err := run(t.Context(), tiny(t), env, out, nil, time.Now); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, []float64{3, 9}) {
		t.Errorf("logged at steps %v, want 3 and 9", seen)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		before []int
		saved  int
		keep   int
		want   []int
	}{
		{"of zero keeps all", []int{1, 2, 3}, 3, 0, []int{1, 2, 3}},
		{"deletes the oldest", []int{10, 9, 100}, 100, 2, []int{10, 100}},
		{"goes by number, not by spelling", []int{8, 16, 24}, 24, 1, []int{24}},
		{"never deletes what was just saved", []int{4, 50, 60}, 4, 1, []int{4}},
		{"counts what was just saved", []int{4, 50, 60}, 4, 2, []int{4, 60}},
		{"with room left deletes nothing", []int{1, 2}, 2, 5, []int{1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, n := range tc.before {
				write(t, checkpointDir(dir, n), map[string]string{stateFile: "{}", modelFile: "x"})
			}
			write(t, filepath.Join(dir, "checkpoint-x"), nil)
			if err := rotate(dir, tc.saved, tc.keep); err != nil {
				t.Fatal(err)
			}
			if got, _ := savedSteps(dir); !slices.Equal(got, tc.want) {
				t.Errorf("left %v, want %v", got, tc.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "checkpoint-x")); err != nil {
				t.Errorf("a directory that is none of ours: %v", err)
			}
		})
	}
}
