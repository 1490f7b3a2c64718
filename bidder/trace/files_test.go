package trace

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func traceDir(t *testing.T, up, price string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{availabilityFile: up, priceFile: price} {
		writeGzip(t, filepath.Join(dir, name), text)
	}
	return dir
}

func writeGzip(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

const (
	goodUp    = "tick,us-east-1a_v100_1\n0,1\n1,0\n"
	goodPrice = "tick,us-east-1a_v100_1\n0,0.9\n1,0.9\n"
)

func TestTraceFilesThatCannotBeUsedAreNamedWithTheLine(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, up, price string
		files           Files
		want            string
	}{
		{"neither up nor down", "tick,us-east-1a_v100_1\n0,1\n1,yes\n", goodPrice, Files{}, `195s.csv.gz:3: column us-east-1a_v100_1: "yes" is neither 0 nor 1: restore`},
		{"a missing tick", "tick,us-east-1a_v100_1\n0,1\n2,1\n", goodPrice, Files{}, `:3: tick "2" where tick 1 should be`},
		{"a short row", "tick,us-east-1a_v100_1\n0\n", goodPrice, Files{}, ":2: "},
		{"no header", "0,1\n1,1\n", goodPrice, Files{}, `:1: the first line is not "tick"`},
		{"nothing", "", goodPrice, Files{}, ":1: EOF"},
		{"a price of nothing", goodUp, "tick,us-east-1a_v100_1\n0,0\n1,0.9\n", Files{}, `spot_2023-02-15_195s.csv.gz:2: column us-east-1a_v100_1: "0" is no price`},
		{"a price that is no number", goodUp, "tick,us-east-1a_v100_1\n0,1e3\n1,0.9\n", Files{}, ":2: column us-east-1a_v100_1: "},
		{"fewer prices than ticks", goodUp, "tick,us-east-1a_v100_1\n0,0.9\n", Files{}, `zone "us-east-1a"`},
		{"an unknown zone", goodUp, goodPrice, Files{Zones: []string{"mars-1a"}}, `zone "mars-1a"`},
		{"a start beyond the end", goodUp, goodPrice, Files{StartTick: 2}, "start tick 2: the recording has ticks 0 to 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.files.Dir = traceDir(t, tc.up, tc.price)
			_, err := Spec{Kind: "files", Files: &tc.files}.Open()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestATornFileIsNamed(t *testing.T) {
	t.Parallel()
	dir := traceDir(t, goodUp, goodPrice)
	path := filepath.Join(dir, availabilityFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-9], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFiles(Files{Dir: dir}, "local", t0); err == nil || !strings.Contains(err.Error(), path+":") {
		t.Errorf("error %v, want one that names %s and a line", err, path)
	}
	if _, err := OpenFiles(Files{Dir: t.TempDir()}, "local", t0); err == nil || !strings.Contains(err.Error(), "give the directory") {
		t.Errorf("error %v for an empty directory", err)
	}
}

func TestBaselinesThatCannotBeReadAreNamedWithTheLine(t *testing.T) {
	t.Parallel()
	const head = "pool_set,work_ticks,deadline_ticks,restart_ticks,start_tick,policy,cost_over_ondemand\n"
	for _, tc := range []struct{ name, text, want string }{
		{"other columns", "a,b,c,d,e,f,g\nA,1,2,3,4,p,0.5\n", ":1: columns are a,b,c"},
		{"too few columns", "a,b\n", ":1: 2 columns"},
		{"a word for a number", head + "A,1,2,x,4,p,0.5\n", ":2: "},
		{"a word for a cost", head + "A,1,2,3,4,p,cheap\n", ":2: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeGzip(t, filepath.Join(dir, baselineFile), tc.text)
			if _, err := OpenBaselines(dir); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestTheOriginIsCutToAWholeTick(t *testing.T) {
	t.Parallel()
	m, err := OpenFiles(Files{Dir: traceDir(t, goodUp, goodPrice), StartTick: 1}, "local", t0.Add(100*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Start(); s.Unix()%195 != 0 || s.After(t0.Add(100*time.Second)) || t0.Add(100*time.Second).Sub(s) >= TickLength {
		t.Errorf("start %v for an origin of %v", s, t0.Add(100*time.Second))
	}
}
