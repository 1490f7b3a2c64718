package floors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/spotferry/spotferry"

// pkg is what go list tells of a package. Imports are those without test files.
type pkg struct {
	ImportPath string
	Imports    []string
}

// tree lists every package of the module.
func tree(t *testing.T) []pkg {
	t.Helper()
	// -e: a package that does not compile is the compiler's to report, not ours.
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", module+"/...")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, complaints.String())
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImportsOnlyPointDown(t *testing.T) {
	t.Parallel()
	look(t)
	all := tree(t)
	if len(all) < 10 {
		t.Fatalf("go list found %d packages", len(all))
	}
	for _, wrong := range check(drawing, all) {
		t.Error(wrong)
	}
}

// look opens every source file, so that go test knows what an earlier result
// depends on: it does not see what the go list it starts reads.
func look(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check returns every way in which packages are not as drawn.
func check(drawing []room, all []pkg) []string {
	var wrong []string
	for _, p := range all {
		from := inside(p.ImportPath)
		r, ok := find(drawing, from)
		if !ok {
			wrong = append(wrong, from+" stands on no floor: give it a room in drawing_test.go and in the architecture page")
			continue
		}
		for _, imported := range p.Imports {
			if why := r.refuses(drawing, from, imported); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s (floor %d) imports %s: %s", from, r.floor, inside(imported), why))
			}
		}
	}
	return wrong
}

// refuses says why the package from, of room r, may not import another, or "".
func (r room) refuses(drawing []room, from, imported string) string {
	if !strings.HasPrefix(imported, module+"/") {
		if first, _, _ := strings.Cut(imported, "/"); r.plain && strings.Contains(first, ".") {
			return "it imports the standard library only"
		}
		return ""
	}
	to := inside(imported)
	other, ok := find(drawing, to)
	switch {
	case !ok:
		return "that stands on no floor"
	case slices.ContainsFunc(r.never, func(pattern string) bool { return covers(pattern, to) }):
		return "it must not know it"
	case other.support && !r.support:
		return "that is for tests only"
	case other.floor > r.floor:
		return fmt.Sprintf("that is upward, to floor %d", other.floor)
	case other.floor == r.floor && !slices.Contains(r.beside, to):
		return "that is sideways, and not its contract"
	}
	return ""
}

func inside(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

// find returns the room of a package: its own before one it shares.
func find(drawing []room, name string) (room, bool) {
	for _, as := range []string{name, path.Dir(name) + "/*"} {
		if i := slices.IndexFunc(drawing, func(r room) bool { return r.path == as }); i >= 0 {
			return drawing[i], true
		}
	}
	return room{}, false
}

func covers(pattern, name string) bool {
	if root, all := strings.CutSuffix(pattern, "/..."); all {
		return name == root || strings.HasPrefix(name, root+"/")
	}
	return pattern == name
}

// A checker that finds nothing proves nothing: each case plants what it must find.
func TestTheCheckFindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, from, to string
		want           string // "" for an import that is fine
	}{
		{"down", "bidder", "events", ""},
		{"down past a floor", "services/spotferry", "events", ""},
		{"the standard library", "events", "encoding/json", ""},
		{"a contract on the same floor", "events/schema", "events", ""},
		{"support from support", "services/internal/simtest", "events/eventstest", ""},
		{"up", "events", "bidder", "upward, to floor 2"},
		{"up into a library", "bidder/ledger", "services/internal/process", "upward, to floor 3"},
		{"sideways", "bidder/market", "bidder/ledger", "sideways"},
		{"from one adapter to another", "bidder/provider/local", "bidder/provider/remote", "sideways"},
		{"from one program to another", "services/spotferry", "services/gateway", "sideways"},
		{"from the bidder to an adapter", "bidder", "bidder/provider/local", "sideways"},
		{"from the bidder to failover", "bidder", "failover", "must not know"},
		{"from the agent to the bidder's seller", "failover/agent", "bidder/provider", "must not know"},
		{"from the bidder to the bus", "bidder", "events/natsbus", "must not know"},
		{"test support into a program", "services/spotferry", "bidder/provider/providertest", "tests only"},
		{"a library into the vocabulary", "events", "github.com/oklog/ulid/v2", "standard library only"},
		{"into a room nobody drew", "services/spotferry", "common/util", "no floor"},
		{"from a room nobody drew", "util", "events", "util stands on no floor"},
		{"below a shared room", "bidder/provider/aws/internal", "events", "stands on no floor"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			to := tc.to
			if first, _, _ := strings.Cut(to, "/"); !strings.Contains(first, ".") && first != "encoding" {
				to = module + "/" + to
			}
			wrong := check(drawing, []pkg{{module + "/" + tc.from, []string{to}}})
			switch {
			case tc.want == "" && len(wrong) != 0:
				t.Errorf("found %q", wrong)
			case tc.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], tc.want)):
				t.Errorf("found %q, want %q", wrong, tc.want)
			}
		})
	}
}

func TestTheDrawingIsSound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range drawing {
		if seen[r.path] {
			t.Errorf("%s is drawn twice", r.path)
		}
		seen[r.path] = true
		for _, b := range r.beside {
			if other, ok := find(drawing, b); !ok || other.floor != r.floor {
				t.Errorf("%s names %s beside it, which is not on its floor", r.path, b)
			}
		}
	}
}
