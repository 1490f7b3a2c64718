package jobfile

import (
	"fmt"
	"strings"
	"unicode"
)

// excerptWidth is how much of a line is shown around the caret.
const excerptWidth = 100

// excerpt returns line n of the source as it may be shown, and how many
// characters of it stand before column col. What follows a name that sounds
// like a credential's is not shown.
func (r *reader) excerpt(n, col int) (shown string, caret int) {
	if n < 1 || n > len(r.lines) {
		return "", 0
	}
	before := max(col-1, 0)
	line := []rune(r.masked(n - 1))
	before = min(before, len(line))

	var b strings.Builder
	from := max(0, before-excerptWidth*3/4)
	to := min(len(line), from+excerptWidth)
	if from > 0 {
		b.WriteString("...")
	}
	caret = -1
	for i, c := range line[from:to] {
		if from+i == before {
			caret = len([]rune(b.String()))
		}
		b.WriteString(printable(string(c)))
	}
	if caret < 0 {
		caret = len([]rune(b.String()))
	}
	if to < len(line) {
		b.WriteString("...")
	}
	return b.String(), caret
}

// printable writes what would move the cursor, hide or turn text around as an
// escape, and a tab as a space.
func printable(s string) string {
	clean := func(c rune) bool { return c != unicode.ReplacementChar && unicode.IsPrint(c) }
	if !strings.ContainsFunc(s, func(c rune) bool { return !clean(c) }) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\t':
			b.WriteByte(' ')
		case clean(c) || c == unicode.ReplacementChar:
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// quoted is a value as it stands in a message: quoted, escaped, at most 60 characters.
func quoted(s string) string {
	if c := []rune(s); len(c) > 60 {
		s = string(c[:57]) + "..."
	}
	return fmt.Sprintf("%q", s)
}
