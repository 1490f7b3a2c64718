package installation

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

func made(t *testing.T, change ...func(*Config)) *Installation {
	t.Helper()
	c := Config{Dir: filepath.Join(t.TempDir(), "site"), Wish: Wish{Version: "1.2.3", Scale: 240, Divide: 10}}
	for _, f := range change {
		f(&c)
	}
	i, err := Init(c)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestAnInstallationIsReadAsItWasMade(t *testing.T) {
	t.Parallel()
	i := made(t)
	again, err := Load(filepath.Join(i.Dir(), File))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(i, again) {
		t.Errorf("read %+v\nmade %+v", again, i)
	}
	if want := events.DefaultTimers().Divide(10); again.Timers() != want || again.Poll() != 500*time.Millisecond {
		t.Errorf("timers %+v, poll %s; want %+v", again.Timers(), again.Poll(), want)
	}
	if again.StoreDir() != filepath.Join(i.Dir(), "store") || !again.Sells("local") || again.Org != "main" || again.Mark == "" {
		t.Errorf("%+v", again)
	}
}

func TestNobodyElseCanReadIt(t *testing.T) {
	t.Parallel()
	i := made(t)
	err := filepath.WalkDir(i.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The operator's keys can make anybody: they are in one file and nowhere else.
func TestTheOperatorsKeysAreInOnePlace(t *testing.T) {
	t.Parallel()
	i := made(t)
	b, err := os.ReadFile(filepath.Join(i.OperatorDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(b, &keys); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(i.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == i.OperatorDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for name, key := range keys {
			if s, ok := key.(string); ok && len(s) > 20 && strings.Contains(string(text), s) {
				t.Errorf("%s holds the key %q", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsThereIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	i := made(t)
	before := contents(t, i.Dir())
	if _, err := Init(Config{Dir: i.Dir()}); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "never overwritten") {
		t.Errorf("making it again: %v", err)
	}
	path, err := AddPerson(i.Dir(), "ann", "viewer", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(path)
	if _, err := AddPerson(i.Dir(), "ann", "admin", time.Now); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second ann: %v", err)
	}
	if again, _ := os.ReadFile(path); string(again) != string(first) {
		t.Error("ann's credentials were changed")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if after := contents(t, i.Dir()); !reflect.DeepEqual(before, after) {
		t.Error("something was changed")
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(Config{Dir: other}); err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("into somebody else's directory: %v", err)
	}
	if _, err := AddPerson(other, "ann", "viewer", time.Now); err == nil || !strings.Contains(err.Error(), "operator keys") {
		t.Errorf("a person where there are no keys: %v", err)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAFileThatCannotBeUsedIsRefusedByField(t *testing.T) {
	t.Parallel()
	i := made(t)
	b, err := os.ReadFile(filepath.Join(i.Dir(), File))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(map[string]any)
		want   string
	}{
		"a newer format":           {func(m map[string]any) { m["format"] = 9 }, "newer Spotferry"},
		"another program's":        {func(m map[string]any) { delete(m, "format") }, "not an installation's file"},
		"no bus":                   {func(m map[string]any) { m["bus"] = map[string]any{} }, "bus: give url"},
		"two ways to the bus":      {func(m map[string]any) { m["bus"] = map[string]any{"url": "x", "url_file": "y"} }, "bus: give url"},
		"a store unheard of":       {func(m map[string]any) { m["store"] = map[string]any{"kind": "tape", "path": "x"} }, `"tape"`},
		"an org with dots":         {func(m map[string]any) { m["org"] = "a.b" }, "org"},
		"no mark":                  {func(m map[string]any) { m["mark"] = "" }, "mark"},
		"a timer without a unit":   {func(m map[string]any) { m["timers"].(map[string]any)["hold"] = 5 }, "duration 5"},
		"a hold of one heartbeat":  {func(m map[string]any) { m["timers"].(map[string]any)["hold"] = "500ms" }, "timers.hold"},
		"lost before the hold":     {func(m map[string]any) { m["timers"].(map[string]any)["lost"] = "1s" }, "timers.lost"},
		"no timer":                 {func(m map[string]any) { delete(m["timers"].(map[string]any), "gc") }, "timers.gc"},
		"no pace":                  {func(m map[string]any) { m["poll"] = "0s" }, "poll"},
		"a hundred copies":         {func(m map[string]any) { m["replicas"] = 100 }, "replicas"},
		"a market nobody heard of": {func(m map[string]any) { m["market"] = map[string]any{"kind": "bazaar"} }, "bazaar"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m map[string]any
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			tc.change(m)
			text, err := json.Marshal(m)
			path := filepath.Join(t.TempDir(), File)
			if err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Load(path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Load = %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), File)); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "creds init") {
		t.Errorf("where there is none: %v", err)
	}
}

func TestARecordedMarketBeginsWithATick(t *testing.T) {
	t.Parallel()
	terms, err := NewTerms(time.Now(), Wish{Seller: "local", Market: trace.Spec{Kind: "files", Files: &trace.Files{Dir: "/traces"}}})
	if err != nil || terms.Clock.Market0.Unix()%int64(trace.TickLength/time.Second) != 0 || !terms.Market.Origin.Equal(terms.Clock.Market0) {
		t.Errorf("%+v, %v", terms, err)
	}
}
