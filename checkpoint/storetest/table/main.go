// Command table joins the columns of the stores' conformance suites into one:
//
//	go test -count=1 -v -run Conformance ./checkpoint/store/... | go run ./checkpoint/storetest/table
//
// Promises down, stores across; a cell is how many times a store was held to a
// promise, or a letter for the reason, told below, why it does not apply. It
// fails when a cell is 0 or FAILED, or when there is no column.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/checkpoint/storetest"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

// table is what the suites told.
type table struct {
	promises, columns []string
	cells             map[[2]string]string
}

func run(in io.Reader, out io.Writer) error {
	t, err := read(in)
	if err != nil {
		return err
	}
	if len(t.columns) == 0 {
		return errors.New("no column: run the suites with -v")
	}
	bad := t.print(out)
	if len(bad) > 0 {
		return fmt.Errorf("not held: %s", strings.Join(bad, "; "))
	}
	return nil
}

func read(in io.Reader) (table, error) {
	t := table{cells: map[[2]string]string{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, line, ok := strings.Cut(lines.Text(), storetest.Mark)
		f := strings.SplitN(line, " | ", 3)
		if !ok || len(f) != 3 {
			continue
		}
		column, promise := f[0], f[1]
		if !slices.Contains(t.columns, column) {
			t.columns = append(t.columns, column)
		}
		if !slices.Contains(t.promises, promise) {
			t.promises = append(t.promises, promise)
		}
		t.cells[[2]string{promise, column}] = f[2]
	}
	return t, lines.Err()
}

// print writes the table and returns the cells that are not as they should be.
func (t table) print(out io.Writer) (bad []string) {
	var reasons []string
	fmt.Fprintf(out, "| promise | %s |\n|---|%s\n", strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, p := range t.promises {
		row := []string{p}
		for _, c := range t.columns {
			cell := t.cells[[2]string{p, c}]
			if why, na := strings.CutPrefix(cell, "n/a: "); na {
				if !slices.Contains(reasons, why) {
					reasons = append(reasons, why)
				}
				cell = "n/a " + letter(slices.Index(reasons, why))
			} else if strings.Trim(cell, "0123456789") != "" || strings.Trim(cell, "0") == "" {
				bad = append(bad, fmt.Sprintf("%s: %q is %q", c, p, cell))
			}
			row = append(row, cell)
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
	}
	fmt.Fprintln(out)
	for i, why := range reasons {
		fmt.Fprintf(out, "n/a %s: %s\n", letter(i), why)
	}
	return bad
}

func letter(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return letter(i/26-1) + letter(i%26)
}
