package trainer

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// crash is a stand-in for a kill: the trainer ends at once, without a save.
func crash(t *testing.T, cfg Config, step int) {
	t.Helper()
	cfg.ExitAtStep, cfg.ExitCode = step, 99
	if err := train(cfg); ExitCode(err) != 99 {
		t.Fatalf("crash at step %d ended with %v", step, err)
	}
}

func TestAnyHistoryOfCrashesEndsInTheSameCheckpoint(t *testing.T) {
	t.Parallel()
	whole := tiny(t)
	mustTrain(t, whole)
	want := contents(t, checkpointDir(whole.Output, whole.Steps))

	r := stream(17)
	for range 30 {
		cfg := tiny(t)
		var lives []string
		for at := 0; ; {
			lives = append(lives, cfg.Resume)
			if at > 4 || r.below(5) == 0 && at > 0 {
				break // the last life runs to the end
			}
			step := at + 1 + r.below(cfg.Steps-at-1)
			crash(t, cfg, step)
			saved, _ := savedSteps(cfg.Output)
			if at = 0; len(saved) > 0 {
				at = saved[r.below(len(saved))]
				cfg.Resume = checkpointDir(cfg.Output, at)
			}
		}
		mustTrain(t, cfg)
		if got := contents(t, checkpointDir(cfg.Output, cfg.Steps)); !maps.Equal(got, want) {
			t.Fatalf("resumed from %q: the last checkpoint differs from that of a run without a crash", lives)
		}
	}
}

func TestWeightsDoNotDependOn(t *testing.T) {
	t.Parallel()
	plain := tiny(t)
	mustTrain(t, plain)
	for _, tc := range []struct {
		name string
		set  func(*Config)
	}{
		{"how often it saves", func(c *Config) { c.SaveEvery = 1 }},
		{"how many checkpoints it keeps", func(c *Config) { c.SaveTotalLimit = 1 }},
		{"how fast it may go", func(c *Config) { c.StepInterval = time.Millisecond }},
		{"flushing to disk", func(c *Config) { c.Fsync = true }},
		{"being watched", func(c *Config) {
			c.Evidence, c.Progress = filepath.Join(t.TempDir(), "e"), filepath.Join(t.TempDir(), "p")
		}},
		{"how many steps it was given at first", func(c *Config) {
			first := *c
			first.Steps = 11
			mustTrain(t, first)
			c.Resume = checkpointDir(c.Output, 11)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := tiny(t)
			tc.set(&cfg)
			mustTrain(t, cfg)
			got, want := contents(t, checkpointDir(cfg.Output, 24)), contents(t, checkpointDir(plain.Output, 24))
			for _, file := range []string{modelFile, optimizerFile, rngFile, schedulerFile, argsFile} {
				if got[file] != want[file] {
					t.Errorf("%s differs", file)
				}
			}
		})
	}
}

func TestTornCheckpointIsRefusedSkippedAndReplaced(t *testing.T) {
	t.Parallel()
	whole := tiny(t)
	mustTrain(t, whole)
	good := contents(t, checkpointDir(whole.Output, 8))
	order := []string{modelFile, optimizerFile, schedulerFile, rngFile, argsFile, stateFile}
	for i, file := range order {
		for name, cut := range map[string]int{"missing": -1, "empty": 0, "cut in the middle": len(good[file]) / 2, "cut at its end": len(good[file]) - 2} {
			t.Run(file+" is "+name, func(t *testing.T) {
				t.Parallel()
				cfg := tiny(t)
				crash(t, cfg, 7) // leaves checkpoint-4
				dir := checkpointDir(cfg.Output, 8)
				put := maps.Clone(good)
				for _, later := range order[i:] {
					delete(put, later)
				}
				if cut >= 0 {
					put[file] = good[file][:cut]
				}
				write(t, dir, put)

				cfg.Resume = dir
				if err := train(cfg); ExitCode(err) != CodeResume || !strings.Contains(err.Error(), "is not a whole checkpoint") {
					t.Errorf("resume ended with %v, want a refusal with code %d", err, CodeResume)
				}
				cfg.Resume = ResumeAuto
				skipped := ""
				out := onLine(func(line map[string]any) {
					if line["event"] == "skipped torn checkpoint" {
						skipped, _ = line["path"].(string)
					}
				})
				if err := run(t.Context(), cfg, noEnv, out, nil, time.Now); err != nil {
					t.Fatal(err)
				}
				if skipped != dir {
					t.Errorf("skipped %q, want %q", skipped, dir)
				}
				if got := contents(t, dir); !maps.Equal(got, good) {
					t.Error("the torn checkpoint was not replaced by a whole one")
				}
			})
		}
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamagedCheckpointIsRefused(t *testing.T) {
	t.Parallel()
	whole := tiny(t)
	mustTrain(t, whole)
	good := contents(t, checkpointDir(whole.Output, 8))
	other := contents(t, checkpointDir(whole.Output, 12))
	for _, file := range slices.Sorted(maps.Keys(good)) {
		damage := map[string]string{
			"has bytes after its end":  good[file] + "}",
			"is of another checkpoint": other[file],
		}
		if strings.HasSuffix(file, ".safetensors") {
			flipped := []byte(good[file])
			flipped[len(flipped)-3] ^= 4
			damage["has a bit flipped"] = string(flipped)
		}
		if file == argsFile {
			delete(damage, "is of another checkpoint") // they are the same
		}
		for name, data := range damage {
			t.Run(file+" "+name, func(t *testing.T) {
				t.Parallel()
				cfg := tiny(t)
				cfg.Resume = checkpointDir(cfg.Output, 8)
				write(t, cfg.Resume, good)
				write(t, cfg.Resume, map[string]string{file: data})
				if err := train(cfg); ExitCode(err) != CodeResume {
					t.Errorf("resume ended with %v, want code %d", err, CodeResume)
				}
			})
		}
	}
}

func TestRunRefusesToResume(t *testing.T) {
	t.Parallel()
	whole := tiny(t)
	mustTrain(t, whole)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("another text ", 50)), 0o644); err != nil {
		t.Fatal(err)
	}
	from := checkpointDir(whole.Output, 8)
	renamed := filepath.Join(t.TempDir(), "checkpoint-9")
	write(t, renamed, contents(t, from))
	for _, tc := range []struct {
		name string
		set  func(*Config)
		want string
	}{
		{"a checkpoint of another seed", func(c *Config) { c.Seed = 8 }, "--seed 7, not 8"},
		{"a checkpoint of another size", func(c *Config) { c.Hidden = 9 }, "--hidden 8, not 9"},
		{"a checkpoint of another text", func(c *Config) { c.Text = text }, "--text"},
		{"a newest checkpoint of another seed", func(c *Config) { c.Seed, c.Resume, c.Output = 8, ResumeAuto, whole.Output }, "--seed 7, not 8"},
		{"a step past the end", func(c *Config) { c.Steps = 7 }, "--steps 7"},
		{"a directory that is not there", func(c *Config) { c.Resume = "nowhere/checkpoint-8" }, "nowhere/checkpoint-8"},
		{"a directory named for another step", func(c *Config) { c.Resume = renamed }, "is of step 8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := tiny(t)
			cfg.Resume = from
			tc.set(&cfg)
			err := train(cfg)
			if ExitCode(err) != CodeResume || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run = %v, want code %d and %q", err, CodeResume, tc.want)
			}
			if _, err := os.Stat(cfg.Output); cfg.Output != whole.Output && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it trained all the same: %v", err)
			}
		})
	}
}

func TestResumeComesFrom(t *testing.T) {
	t.Parallel()
	whole := tiny(t)
	mustTrain(t, whole)
	at := func(n int) string { return checkpointDir(whole.Output, n) }
	for _, tc := range []struct {
		name string
		set  func(*Config)
		env  string
		want float64
	}{
		{"nothing, at step 0", func(*Config) {}, "", 0},
		{"the variable", func(*Config) {}, at(8), 8},
		{"the flag before the variable", func(c *Config) { c.Resume = at(12) }, at(8), 12},
		{"the newest checkpoint", func(c *Config) { c.Resume, c.Output = ResumeAuto, whole.Output }, "", 24},
		{"nothing if there is no checkpoint", func(c *Config) { c.Resume = ResumeAuto }, "", 0},
		{"nothing if told to forget", func(c *Config) { c.IgnoreResume = true }, at(8), 0},
		{"a copy without its name", func(c *Config) {
			c.Resume = t.TempDir()
			write(t, c.Resume, contents(t, at(16)))
		}, "", 16},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := tiny(t)
			tc.set(&cfg)
			got := -1.0
			out := onLine(func(line map[string]any) {
				if e := line["event"]; e == "started" || e == "resumed" {
					got, _ = line["step"].(float64)
				}
			})
			env := envOf(map[string]string{"SPOTFERRY_RESUME_FROM": tc.env})
			if err := run(t.Context(), cfg, env, out, nil, time.Now); err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("began at step %v, want %v", got, tc.want)
			}
		})
	}
}

func TestFinishedRunResumedFromElsewhereStillLeavesItsCheckpoint(t *testing.T) {
	t.Parallel()
	whole := tiny(t)
	mustTrain(t, whole)
	cfg := tiny(t)
	cfg.Resume = checkpointDir(whole.Output, 24)
	if err := run(t.Context(), cfg, noEnv, io.Discard, nil, time.Now); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, checkpointDir(cfg.Output, 24)); !maps.Equal(got, contents(t, cfg.Resume)) {
		t.Error("the checkpoint in the output is not the one it resumed from")
	}
}
