package framework_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/framework/frameworktest"
)

// The promises that every layout is held to. A cell of the table is how often
// one was checked, or why it cannot be.
var promises = []string{"never early", "killed first", "paused first", "complete after", "resumes after kill", "held", "finished", "detected", "ready", "signal", "told"}

// table collects the cells.
type table struct {
	mu    sync.Mutex
	cells map[string]map[string]string
	count map[string]map[string]int
}

func (tb *table) add(layout, promise string, n int) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.count[layout] == nil {
		tb.count[layout] = map[string]int{}
	}
	tb.count[layout][promise] += n
}

func (tb *table) na(layout, promise, why string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.cells[layout] == nil {
		tb.cells[layout] = map[string]string{}
	}
	tb.cells[layout][promise] = "n/a: " + why
}

func (tb *table) print(t *testing.T, layouts []frameworktest.Layout) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s%s\n", "", strings.Join(promises, " | "))
	notes := map[string]int{}
	for _, l := range layouts {
		fmt.Fprintf(&b, "%-22s", l.Name)
		for _, p := range promises {
			cell, n := tb.cells[l.Name][p], tb.count[l.Name][p]
			switch {
			case n > 0 && cell != "":
				t.Errorf("%s, %s: %d asserts, and %s", l.Name, p, n, cell)
			case n > 0:
				cell = fmt.Sprint(n)
			case cell == "":
				t.Errorf("%s, %s: nothing was checked", l.Name, p)
				cell = "0"
			default:
				if notes[cell] == 0 {
					notes[cell] = len(notes) + 1
				}
				cell = fmt.Sprintf("n/a(%d)", notes[cell])
			}
			fmt.Fprintf(&b, "%*s | ", len(p), cell)
		}
		b.WriteString("\n")
	}
	for _, why := range slices.SortedFunc(maps.Keys(notes), func(a, b string) int { return notes[a] - notes[b] }) {
		fmt.Fprintf(&b, "(%d) %s\n", notes[why], why)
	}
	t.Log("\n" + b.String())
}
