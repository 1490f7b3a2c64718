package main

import (
	"context"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// The patches must go on applying while the code around them changes.
func TestEveryPatchOfTheMuseumAppliesAndIsTakenBack(t *testing.T) {
	patches, err := filepath.Glob(filepath.Join(root, "services/internal/simtest/museum/*.patch"))
	if err != nil || len(patches) != 10 {
		t.Fatalf("%d patches, %v; want ten", len(patches), err)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range patches {
		t.Run(filepath.Base(p), func(t *testing.T) {
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			tr := &tree{root: abs, dir: t.TempDir()}
			before := map[string]string{}
			for _, name := range touched(data) {
				if err := tr.restore(name); err != nil {
					t.Fatal(err)
				}
				if text, err := os.ReadFile(filepath.Join(tr.dir, name)); err == nil {
					before[name] = string(text)
				}
			}
			undo, why, err := tr.apply(t.Context(), p)
			if err != nil || why != "" {
				t.Fatalf("%v %s", err, why)
			}
			for name, text := range before {
				now, err := os.ReadFile(filepath.Join(tr.dir, name))
				if err != nil || string(now) == text {
					t.Errorf("%s is not changed (%v)", name, err)
				}
				if _, err := parser.ParseFile(token.NewFileSet(), name, now, 0); err != nil {
					t.Error(err)
				}
			}
			if err := undo(); err != nil {
				t.Fatal(err)
			}
			for name, text := range before {
				if now, err := os.ReadFile(filepath.Join(tr.dir, name)); err != nil || string(now) != text {
					t.Errorf("%s is not what it was (%v)", name, err)
				}
			}
		})
	}
}

// A promise that names a test which is no more would never be told of.
func TestEveryPromiseNamesWhatThereIs(t *testing.T) {
	for _, p := range promises {
		pkg, test, named := strings.Cut(p.where, ".")
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no tests (%v)", pkg, err)
		}
		found := !named
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func "+test+"(")
		}
		if !found {
			t.Errorf("%s: there is no such test", p.where)
		}
	}
}

func TestWhatGoTestSaysIsRead(t *testing.T) {
	say := func(action, test, output string) string {
		b, err := json.Marshal(line{Action: action, Package: module + "bidder/ledger", Test: test, Output: output})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tc := range []struct {
		name  string
		lines []string
		want  string // the checks that failed
		said  string
		ran   int
	}{
		{"all is well", []string{say("pass", "TestA", ""), say("pass", "TestB/inner", ""), say("pass", "TestB", ""), say("pass", "", "")}, "", "", 2},
		{"the innermost failure is the one", []string{
			say("output", "TestA/b", "    a_test.go:7: before\n"), say("output", "TestA/b", "    a_test.go:8: I-9: it does not add up\n"),
			say("fail", "TestA/b", ""), say("fail", "TestA", ""), say("fail", "", "")}, "bidder/ledger.TestA/b", "I-9: it does not add up", 1},
		{"a test that dies is named by the package's last words", []string{
			say("output", "", "panic: test timed out after 10m\n"), say("output", "", "running tests:\n"), say("output", "", "\tTestSlow (9m59s)\n"), say("fail", "", "")},
			"bidder/ledger.TestSlow", "panic: test timed out after 10m", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := reading{said: map[string]*strings.Builder{}}
			for _, text := range tc.lines {
				var l line
				if err := json.Unmarshal([]byte(text), &l); err != nil {
					t.Fatal(err)
				}
				f.take(l)
			}
			var got, said string
			for _, x := range f.failed {
				got, said = got+x.Test, said+x.Said
			}
			if got != tc.want || said != tc.said || f.ran != tc.ran {
				t.Errorf("failed %q said %q of %d; want %q, %q of %d", got, said, f.ran, tc.want, tc.said, tc.ran)
			}
		})
	}
}

func TestAPatchThatCannotBeJudgedIsToldApart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("tree/go.mod", "module example.com/m\n")
	write("tree/a.go", "package m\n\nvar A = 1\n")
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	tr, err := copyTree(t.Context(), filepath.Join(dir, "tree"))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	j := judge{tree: tr}
	for _, tc := range []struct{ name, patch, want string }{
		{"of another tree", "--- a/b.go\n+++ b/b.go\n@@ -1 +1 @@\n-x\n+y\n", notApplied},
		{"of no file", "nothing\n", notApplied},
		{"outside the tree", "--- ../../x\n+++ ../../x\n@@ -1 +1 @@\n-x\n+y\n", notApplied},
		{"no Go", "--- a/a.go\n+++ b/a.go\n@@ -1,3 +1,3 @@\n package m\n \n-var A = 1\n+var A = \"\n", notBuilt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if v := j.patch(t.Context(), write("p.patch", tc.patch)); v.Verdict != tc.want {
				t.Errorf("%s: %s", v.Verdict, v.Detail)
			}
			if now, err := os.ReadFile(filepath.Join(tr.dir, "a.go")); err != nil || !strings.Contains(string(now), "A = 1") {
				t.Errorf("the copy is not what it was: %q %v", now, err)
			}
		})
	}
}

func TestTheCommandLine(t *testing.T) {
	for _, args := range [][]string{{"-o", "xml"}, {"-C", t.TempDir()}, {"-nonsense"}} {
		if err := run(context.Background(), args, os.Stderr, os.Stderr); err == nil || errors.Is(err, errMissed) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
