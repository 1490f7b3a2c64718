package trainer

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestBadConfigNamesTheFlagAndTheRemedy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"short": "too short", "file": ""})
	short, under := filepath.Join(dir, "short"), filepath.Join(dir, "file", "x")
	for _, tc := range []struct {
		name string
		set  func(*Config)
		want []string
	}{
		{"negative steps", func(c *Config) { c.Steps = -1 }, []string{"--steps is -1", "such as --steps"}},
		{"negative interval between saves", func(c *Config) { c.SaveEvery = -1 }, []string{"--save-every is -1", "such as"}},
		{"negative limit", func(c *Config) { c.SaveTotalLimit = -1 }, []string{"--save-total-limit is -1", "0 to keep all"}},
		{"negative interval between lines", func(c *Config) { c.LogEvery = -1 }, []string{"--log-every is -1", "such as"}},
		{"negative width", func(c *Config) { c.Hidden = -1 }, []string{"--hidden is -1", "from 1 to"}},
		{"enormous width", func(c *Config) { c.Hidden = 1 << 30 }, []string{"--hidden is", "from 1 to"}},
		{"negative pace", func(c *Config) { c.StepInterval = -1 }, []string{"--step-interval", "50ms"}},
		{"crash in the past", func(c *Config) { c.ExitAtStep = -1 }, []string{"--exit-code-at-step", "120"}},
		{"stall in the past", func(c *Config) { c.StallAtStep = -1 }, []string{"--stall-at-step", "120"}},
		{"impossible code", func(c *Config) { c.ExitCode = 256 }, []string{"--exit-code-at-step", "255"}},
		{"two mistakes at once", func(c *Config) { c.Steps, c.Hidden = -1, -1 }, []string{"--steps", "--hidden"}},
		{"text that is not there", func(c *Config) { c.Text = "nowhere" }, []string{"--text", "nowhere", "leave the flag out"}},
		{"text that is a directory", func(c *Config) { c.Text = dir }, []string{"--text", dir, "leave the flag out"}},
		{"text that is too short", func(c *Config) { c.Text = short }, []string{"--text", "9 bytes", "at least"}},
		{"output that is a file", func(c *Config) { c.Output = short }, []string{"--output", "give a directory"}},
		{"evidence in no directory", func(c *Config) { c.Evidence = under }, []string{"--evidence", "give a file"}},
		{"progress in no directory", func(c *Config) { c.Progress = under }, []string{"--progress", "give a file"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := tiny(t)
			tc.set(&cfg)
			err := train(cfg)
			if ExitCode(err) != CodeUsage {
				t.Fatalf("Run = %v, want code %d", err, CodeUsage)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestFlagsAreRefusedWithARemedy(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{
		"--steps=0", "--steps=many", "--save-every=0", "--log-every=-3", "--hidden=0",
		"--exit-code-at-step=0", "--exit-code-at-step=7@", "--exit-code-at-step=256@4", "--exit-code-at-step=x@4",
	} {
		t.Run(arg, func(t *testing.T) {
			t.Parallel()
			var cfg Config
			fs := flag.NewFlagSet("trainer", flag.ContinueOnError)
			fs.SetOutput(io.Discard)
			cfg.Flags(fs)
			name, _, _ := strings.Cut(arg, "=")
			if err := fs.Parse([]string{arg}); err == nil || !strings.Contains(err.Error(), "such as "+name) {
				t.Errorf("Parse = %v, want a remedy for %s", err, name)
			}
		})
	}
}

func TestFlagsSetEveryField(t *testing.T) {
	t.Parallel()
	var got Config
	fs := flag.NewFlagSet("trainer", flag.ContinueOnError)
	got.Flags(fs)
	args := strings.Fields(`--steps 1 --save-every 2 --save-total-limit 3 --log-every 4 --output o --resume r
		--ignore-resume --seed 5 --hidden 6 --text t --step-interval 7ms --fsync --evidence e --progress p
		--exit-code-at-step 9@8 --stall-at-step 6`)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	want := Config{
		Steps: 1, SaveEvery: 2, SaveTotalLimit: 3, LogEvery: 4, Output: "o", Resume: "r",
		IgnoreResume: true, Seed: 5, Hidden: 6, Text: "t", StepInterval: 7 * time.Millisecond, Fsync: true,
		Evidence: "e", Progress: "p", ExitAtStep: 8, ExitCode: 9, StallAtStep: 6,
	}
	if got != want {
		t.Errorf("flags gave %+v, want %+v", got, want)
	}
	v := reflect.ValueOf(got)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("field %s has no flag in this test", v.Type().Field(i).Name)
		}
	}
}

func TestZeroConfigMeansTheDefaultsOfTheFlags(t *testing.T) {
	t.Parallel()
	var flags Config
	flags.Flags(flag.NewFlagSet("trainer", flag.ContinueOnError))
	byFlag, err := resolve(flags, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	byZero, err := resolve(Config{}, noEnv)
	if err != nil || byZero != byFlag {
		t.Errorf("zero Config is %+v, %v; flags give %+v", byZero, err, byFlag)
	}
}

func TestEnvironmentFillsWhatFlagsLeave(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"SPOTFERRY_CHECKPOINT_DIR": "c", "SPOTFERRY_RESUME_FROM": "r", "SPOTFERRY_PROGRESS_FILE": "p",
		"SPOTFERRY_EVIDENCE_DIR": "e", "SPOTFERRY_NOTICE_FILE": "n", "SPOTFERRY_JOB_ID": "j", "SPOTFERRY_EPOCH": "4",
	}
	s, err := resolve(Config{}, envOf(env))
	if err != nil {
		t.Fatal(err)
	}
	if s.Output != "c" || s.Resume != "r" || s.Progress != "p" || s.Evidence != "e/trainer.jsonl" || s.notice != "n" || s.job != "j" || s.epoch != 4 {
		t.Errorf("resolved to %+v", s)
	}
	s, err = resolve(Config{Output: "C", Resume: "R", Progress: "P", Evidence: "E"}, envOf(env))
	if err != nil || s.Output != "C" || s.Resume != "R" || s.Progress != "P" || s.Evidence != "E" {
		t.Errorf("with flags resolved to %+v, %v", s, err)
	}
	env["SPOTFERRY_EPOCH"] = "four"
	if _, err := resolve(Config{}, envOf(env)); ExitCode(err) != CodeUsage || !strings.Contains(err.Error(), "SPOTFERRY_EPOCH") {
		t.Errorf("a bad epoch gave %v", err)
	}
}

func TestBuiltInTextIsOfTheSizeAndKindPromised(t *testing.T) {
	t.Parallel()
	text := builtinText()
	if n := len(text); n < 20_000 || n > 60_000 || text != builtinText() {
		t.Errorf("built-in text has %d bytes", n)
	}
	c := newCorpus([]byte(text))
	for i := range text {
		if c.alphabet[c.text[i]] != text[i] {
			t.Fatalf("byte %d does not come back", i)
		}
	}
}

func TestAnyTextCanBeTrainedOn(t *testing.T) {
	t.Parallel()
	all := make([]byte, 512)
	for i := range all {
		all[i] = byte(i)
	}
	for name, text := range map[string][]byte{"every byte": all, "one letter": []byte(strings.Repeat("a", 24)), "other scripts": []byte(strings.Repeat("мост и паром ", 9))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := tiny(t)
			cfg.Text = filepath.Join(t.TempDir(), "text")
			if err := os.WriteFile(cfg.Text, text, 0o644); err != nil {
				t.Fatal(err)
			}
			mustTrain(t, cfg)
		})
	}
}
