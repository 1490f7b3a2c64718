package dev

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
)

var t0 = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func config(dir string) Config {
	return Config{Dir: dir, Version: "1.2.3", Now: func() time.Time { return t0 }}
}

func TestANewStateIsKeptAsItWasMade(t *testing.T) {
	l := layout{t.TempDir()}
	cfg := config(l.dir)
	cfg.Scale, cfg.Divide, cfg.Market = 240, 10, trace.Spec{Kind: "demo", Seed: 7}
	first, err := l.establish(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if first.Clock.Scale != 240 || first.Divide != 10 || first.Market.Seed != 7 || first.Market.Seller != "local" || !first.Clock.Market0.Equal(t0) || first.Mark == "" {
		t.Errorf("made %+v", first)
	}
	later := config(l.dir)
	later.Now = func() time.Time { return t0.Add(time.Hour) }
	again, err := l.establish(later)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(first)
	y, _ := json.Marshal(again)
	if string(x) != string(y) {
		t.Errorf("read again:\n%s\nmade:\n%s", y, x)
	}
	if info, err := os.Stat(l.path(stateFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestARecordedMarketBeginsWithATick(t *testing.T) {
	l := layout{t.TempDir()}
	cfg := config(l.dir)
	cfg.Market = trace.Spec{Kind: "files", Files: &trace.Files{Dir: "/traces"}}
	st, err := l.establish(cfg)
	if err != nil || st.Clock.Market0.Unix()%int64(trace.TickLength/time.Second) != 0 {
		t.Errorf("beginning at %s, %v", st.Clock.Market0, err)
	}
	other := cfg
	other.Market.Files = &trace.Files{Dir: "/elsewhere"}
	if _, err := l.establish(other); err == nil || !strings.Contains(err.Error(), "/traces") {
		t.Errorf("another recording: %v", err)
	}
}

func TestWhichDirectoriesAreUsable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string
		want  string
	}{
		{"an empty one", nil, ""},
		{"one of ours", []string{stateFile, "bus", "anything"}, ""},
		{"one whose first start crashed", []string{"lock", "dev.log", "examples", "evidence", ".new-123"}, ""},
		{"not somebody else's", []string{"lock", "thesis.tex"}, "thesis.tex"},
		{"not one that lost its state file", []string{"bus", "lock"}, "bus"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := layout{t.TempDir()}
			for _, f := range tc.files {
				if err := os.WriteFile(l.path(f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := l.usable()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "--state")) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestAForeignDirectoryIsLeftAsItWas(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), config(dir)); err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("Run = %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("it now has %v, %v", entries, err)
	}
}

func TestAStateFileThatCannotBeReadIsRefusedWithARemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a newer format":      {`{"format":3,"version":"9.9.9"}`, []string{"newer Spotferry", "9.9.9", "format 3"}},
		"another program's":   {`{"name":"x"}`, []string{"not a state file", stateFile}},
		"no JSON":             {"hello", []string{"not a state file"}},
		"nothing":             {"", []string{"not a state file"}},
		"a market unheard of": {`{"format":1,"market":{"kind":"bazaar"}}`, []string{stateFile, "bazaar"}},
		"an absurd clock":     {`{"format":1,"market":{"kind":"model"},"clock":{"scale":-1}}`, []string{stateFile, "scale"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := layout{t.TempDir()}
			if err := os.WriteFile(l.path(stateFile), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := l.establish(config(l.dir))
			if err == nil || errors.Is(err, ErrNoState) {
				t.Fatalf("establish = %v", err)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v; want it to say %q", err, w)
				}
			}
			if b, _ := os.ReadFile(l.path(stateFile)); string(b) != tc.text {
				t.Error("the file was changed")
			}
		})
	}
}

func TestAnEarlierFormatIsRaisedAndNothingElseOfTheStateChanges(t *testing.T) {
	l := layout{t.TempDir()}
	first, err := l.establish(config(l.dir))
	if err != nil {
		t.Fatal(err)
	}
	early := first
	early.Format, early.Version = 1, "v0.1.0"
	if err := l.writeState(early); err != nil {
		t.Fatal(err)
	}
	if kept, err := l.readState(); err != nil || kept.Format != 1 {
		t.Errorf("looking at it made it %+v, %v", kept, err)
	}
	wrong := config(l.dir)
	wrong.Divide = 7
	if _, err := l.establish(wrong); err == nil {
		t.Error("it was raised on other terms")
	}
	if kept, err := l.readState(); err != nil || kept.Format != 1 {
		t.Errorf("refusing made it %+v, %v", kept, err)
	}
	raised, err := l.establish(config(l.dir))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := l.readState()
	x, _ := json.Marshal(first)
	y, _ := json.Marshal(raised)
	z, _ := json.Marshal(kept)
	if err != nil || string(x) != string(y) || string(y) != string(z) {
		t.Errorf("made %s\nraised %s\nkept %s, %v", x, y, z, err)
	}
}

func TestAStateGoesOnOnTheTermsItWasMadeWith(t *testing.T) {
	l := layout{t.TempDir()}
	made := config(l.dir)
	made.Scale, made.Divide, made.Market = 240, 10, trace.Spec{Kind: "demo", Seed: 7}
	if _, err := l.establish(made); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"the same", func(*Config) {}, ""},
		{"nothing said", func(c *Config) { *c = config(l.dir) }, ""},
		{"another seed", func(c *Config) { c.Market.Seed = 8 }, "seed 7"},
		{"another market", func(c *Config) { c.Market.Kind = "model" }, `market "demo"`},
		{"another scale", func(c *Config) { c.Scale = 1 }, "scale 240"},
		{"other timers", func(c *Config) { c.Divide = 1 }, "divided by 10"},
	} {
		cfg := made
		tc.change(&cfg)
		_, err := l.establish(cfg)
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "--state")) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestADirectoryIsForOneProcessAtATime(t *testing.T) {
	l := layout{t.TempDir()}
	release, err := l.lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.lock(); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), l.dir) {
		t.Errorf("a second: %v", err)
	}
	release()
	release, err = l.lock()
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	release()
}
