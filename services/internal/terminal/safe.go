package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	esc = 0x1b
	csi = 0x9b // one-character forms of ESC [ and its like
	dcs = 0x90
	sos = 0x98
	osc = 0x9d
	pm  = 0x9e
	apc = 0x9f
	st  = 0x9c
)

// Safe returns s as one line that can only be text: without escape sequences,
// control characters, directional overrides and invisible characters. Line
// breaks and tabs become spaces; bytes that are not UTF-8 become U+FFFD.
func Safe(s string) string { return scrub(s, func(rune) rune { return ' ' }) }

// SafeLine is Safe for a line of a program's output: tabs stay, and of a line
// that a progress bar wrote over and over the last state is shown.
func SafeLine(s string) string {
	s = strings.TrimRight(s, "\r\n")
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	return scrub(s, func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	})
}

// SafeLines is Safe for a text of several lines, which stay.
func SafeLines(s string) string {
	return scrub(s, func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	})
}

// scrub keeps what Safe keeps; blank says what becomes of characters that only
// make room.
func scrub(s string, blank func(rune) rune) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteRune(utf8.RuneError)
		case starts(r):
			size = sequence(s[i:])
		case room(r):
			b.WriteRune(blank(r))
		case !Hidden(r):
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func room(r rune) bool {
	return r == '\n' || r == '\t' || r == '\r' || r == '\v' || r == '\f' || unicode.In(r, unicode.Zl, unicode.Zp)
}

// Hidden says whether r does something on a screen other than show itself:
// control characters, directional marks, and characters without a shape. The
// joiners are not among them, as whole scripts are written with them.
func Hidden(r rune) bool {
	switch {
	case unicode.IsControl(r):
		return true
	case r == '\u200c' || r == '\u200d':
		return false
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false // numbers of Arabic script: they are seen
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Noncharacter_Code_Point, unicode.Other_Default_Ignorable_Code_Point)
}

func starts(r rune) bool {
	return r == esc || r == csi || r == dcs || r == sos || r == osc || r == pm || r == apc
}

// sequence is the length of the escape sequence that s begins with. One that
// has no end is only as long as its start: what follows is then shown as text,
// where a terminal might swallow it.
func sequence(s string) int {
	first, n := utf8.DecodeRuneInString(s)
	kind := first
	if first == esc {
		if n == len(s) {
			return n
		}
		switch c := s[n]; {
		case c == '[':
			kind, n = csi, n+1
		case c == ']', c == 'P', c == 'X', c == '^', c == '_':
			kind, n = osc, n+1
		case c >= 0x20 && c <= 0x2f: // ESC ( B and other selections
			if end := n + runOf(s[n:], 0x20, 0x2f); end < len(s) && s[end] >= 0x30 && s[end] <= 0x7e {
				return end + 1
			}
			return n
		case c >= 0x30 && c <= 0x7e: // ESC c and other functions
			return n + 1
		default:
			return n
		}
	}
	if kind == csi {
		end := n + runOf(s[n:], 0x20, 0x3f)
		if end < len(s) && s[end] >= 0x40 && s[end] <= 0x7e {
			return end + 1
		}
		return n
	}
	return stringSequence(s, n)
}

// stringSequence is the length of a sequence whose text begins at n and ends
// in BEL or ST.
func stringSequence(s string, n int) int {
	for i := n; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\a', r == st:
			return i + size
		case r == esc && strings.HasPrefix(s[i+size:], `\`):
			return i + size + 1
		case r == '\n':
			return n
		}
		i += size
	}
	return n
}

// runOf counts the bytes of s from its start that lie within lo and hi.
func runOf(s string, lo, hi byte) int {
	n := 0
	for n < len(s) && s[n] >= lo && s[n] <= hi {
		n++
	}
	return n
}
