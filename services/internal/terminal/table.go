package terminal

import (
	"io"
	"strings"
)

// Column is one column of a Table.
type Column struct {
	Name  string
	Right bool // numbers stand to the right
	// Mark sets a cell apart by what it says; nil marks nothing.
	Mark func(s Style, cell string) string
}

// Columns makes columns of their names; one that begins with '>' stands to the right.
func Columns(names ...string) []Column {
	out := make([]Column, len(names))
	for i, n := range names {
		right := strings.HasPrefix(n, ">")
		out[i] = Column{Name: strings.TrimPrefix(n, ">"), Right: right}
	}
	return out
}

// Table is rows below a heading. Cells are made Safe when they are added.
type Table struct {
	Columns []Column
	Indent  int
	rows    [][]string
}

// Row adds a row; cells that are missing at its end are empty.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.Columns))
	for i, c := range cells[:min(len(cells), len(row))] {
		row[i] = Safe(c)
	}
	t.rows = append(t.rows, row)
}

// Len is how many rows there are.
func (t *Table) Len() int { return len(t.rows) }

// Drop takes a column away when no row has anything in it.
func (t *Table) Drop(name string) {
	for i, c := range t.Columns {
		if c.Name != name {
			continue
		}
		for _, r := range t.rows {
			if r[i] != "" {
				return
			}
		}
		t.Columns = append(t.Columns[:i:i], t.Columns[i+1:]...)
		for j, r := range t.rows {
			t.rows[j] = append(r[:i:i], r[i+1:]...)
		}
		return
	}
}

const between = "  "

// Write writes the table. columns is how wide the screen is, 0 when there is
// none: the last column is cut to it.
func (t *Table) Write(w io.Writer, style Style, columns int) error {
	widths := t.widths()
	var b strings.Builder
	heads := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = c.Name
	}
	t.line(&b, columns, widths, heads, func(_ int, s string) string { return style.Bold(s) })
	for _, r := range t.rows {
		t.line(&b, columns, widths, r, func(i int, s string) string {
			if m := t.Columns[i].Mark; m != nil {
				return m(style, s)
			}
			return s
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) widths() []int {
	w := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		w[i] = Width(c.Name)
		for _, r := range t.rows {
			w[i] = max(w[i], Width(r[i]))
		}
	}
	return w
}

// narrowest is what a cut column keeps.
const narrowest = 12

func (t *Table) line(b *strings.Builder, columns int, widths []int, cells []string, mark func(int, string) string) {
	b.WriteString(strings.Repeat(" ", t.Indent))
	used, gap := t.Indent, 0
	for i, cell := range cells {
		last := i == len(cells)-1
		if last && columns > 0 && !t.Columns[i].Right {
			cell = Cut(cell, max(narrowest, columns-used))
		}
		pad := widths[i] - Width(cell)
		switch {
		case t.Columns[i].Right:
			b.WriteString(strings.Repeat(" ", gap+pad) + mark(i, cell))
			gap = len(between)
		case cell == "":
			gap += pad + len(between)
		default:
			b.WriteString(strings.Repeat(" ", gap) + mark(i, cell))
			gap = pad + len(between)
		}
		used += widths[i] + len(between)
	}
	b.WriteByte('\n')
}
