package simtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clockReaders are the functions that may look at a clock themselves, and at
// which. Everything else is given the time: the agent decides by the machine's
// own clock, which nobody can set, and services by the one they were made with.
var clockReaders = map[string]string{
	"failover/agent/process_linux.go": "time.Now", // a mark that no other process has; the deadline of a read
	"failover/agent/config.go":        "time.Now", // the default of Config.Now, for stamps
	"failover/agent/machine_linux.go": "unix.CLOCK_BOOTTIME",
	"failover/agent/machine_other.go": "unix.CLOCK_MONOTONIC",          // where there is no other
	"failover/agent/load_linux.go":    "unix.CLOCK_PROCESS_CPUTIME_ID", // what this process has computed
	"bidder/provider/gcp/launch.go":   "time.Now time.Since",           // a pause between two questions
	"bidder/provider/limit.go":        "time.Now time.Until",
	"bidder/provider/metrics.go":      "time.Now time.Since",
	"bidder/provider/retry.go":        "time.Now time.Since time.Until",
	"bidder/provider/breaker.go":      "time.Now time.Until",
	"bidder/provider/remote/ask.go":   "time.Until",
	"bidder/market/watcher.go":        "time.Now time.Since",
}

// The three clocks are never mixed because nobody reads one where it is at hand.
func TestPromiseWhoDecidesIsGivenTheTime(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, room := range []string{"bidder", "failover"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && slices.Contains([]string{"local", "providertest", "agenttest", "backtest", "testdata"}, d.Name()) || d.IsDir() && strings.HasSuffix(d.Name(), "fake") {
				return filepath.SkipDir // on the seller's side of the line, or a test's
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, read := range clocksIn(t, path) {
				if !slices.Contains(strings.Fields(clockReaders[filepath.ToSlash(name)]), read) {
					t.Errorf("%s reads %s: time comes in from outside (Config.Now, Config.Elapsed, an argument)", name, read)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// clocksIn lists the clocks that a file reads.
func clocksIn(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if !ok {
			return true
		}
		clock := x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name)
		if clock || x.Name == "unix" && strings.HasPrefix(s.Sel.Name, "CLOCK_") {
			out = append(out, x.Name+"."+s.Sel.Name)
		}
		return true
	})
	return out
}
