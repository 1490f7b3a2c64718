package floors

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// casesPage is the table that maps what users of other systems suffered to tests of ours.
const casesPage = "../../../docs/cases.md"

// casesList is the list that the table has to cover, beside the checkout.
const casesList = "../../../../shared/cases.md"

type caseRow struct {
	line      int
	id, claim string
	tests     []string // "<folder>: <test>"
}

var caseID = regexp.MustCompile(`^[A-G][0-9]+$`)

// caseRows reads the tables of a page: the rows whose first cell is neither a heading nor a rule.
func caseRows(page string) (rows []caseRow) {
	for n, line := range strings.Split(page, "\n") {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) < 3 || strings.HasPrefix(cells[0], "---") {
			continue
		}
		r := caseRow{line: n + 1, id: strings.TrimSpace(cells[0]), claim: strings.TrimSpace(cells[1])}
		if r.id == "case" {
			continue
		}
		for _, t := range strings.Split(cells[2], ";") {
			if t = strings.TrimSpace(t); t != "" {
				r.tests = append(r.tests, t)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// testsOf lists the tests and fuzz targets of a folder, by name.
func testsOf(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names, nil
}

// wrongWith says what a row promises that is not there.
func wrongWith(r caseRow) error {
	later := strings.HasPrefix(r.claim, "later: ")
	switch {
	case r.claim == "":
		return errors.New("no promise")
	case later && len(r.tests) > 0:
		return errors.New("later, and yet it names tests")
	case !later && len(r.tests) == 0:
		return errors.New("no test")
	}
	for _, t := range r.tests {
		dir, name, ok := strings.Cut(t, ": ")
		if !ok {
			return fmt.Errorf("%q is not <folder>: <test>", t)
		}
		have, err := testsOf(filepath.Join("../../..", filepath.FromSlash(dir)))
		if err != nil {
			return err
		}
		if !slices.Contains(have, name) {
			return fmt.Errorf("%s has no %s", dir, name)
		}
	}
	return nil
}

func TestEveryCaseIsKeptByATestThatExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(casesPage)
	if err != nil {
		t.Fatal(err)
	}
	rows := caseRows(string(page))
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.id] {
			t.Errorf("docs/cases.md:%d: %s stands twice", r.line, r.id)
		}
		seen[r.id] = true
		if err := wrongWith(r); err != nil {
			t.Errorf("docs/cases.md:%d: %s: %v", r.line, r.id, err)
		}
	}
	list, err := os.ReadFile(casesList)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the list of cases does not lie beside this checkout; what the table names was checked")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range caseRows(string(list)) {
		if caseID.MatchString(r.id) && !seen[r.id] {
			t.Errorf("docs/cases.md has no row for %s", r.id)
		}
	}
}

func TestAWrongRowOfTheCasesIsFound(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]string{
		"a test that is not there":   "| A1 | a promise | services/internal/floors: TestNobodyWroteThis |",
		"a folder that is not there": "| A1 | a promise | nowhere: TestImportsOnlyPointDown |",
		"no test":                    "| A1 | a promise | |",
		"no promise":                 "| A1 | | services/internal/floors: TestImportsOnlyPointDown |",
		"later, with a test":         "| A1 | later: something | services/internal/floors: TestImportsOnlyPointDown |",
		"not a test's name":          "| A1 | a promise | by hand |",
	} {
		rows := caseRows("| case | promise | tests |\n|---|---|---|\n" + row)
		if len(rows) != 1 {
			t.Fatalf("%s: %d rows read, want 1", name, len(rows))
		}
		if wrongWith(rows[0]) == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
