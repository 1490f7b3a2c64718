package terminal

import (
	"unicode"

	"golang.org/x/text/width"
)

// Width is how many columns s takes on a screen, for text that Safe returned.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// Cut shortens s to at most n columns and marks that it did.
func Cut(s string, n int) string {
	if Width(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	used := 0
	for i, r := range s {
		if used+columns(r) > n-1 {
			return s[:i] + "…"
		}
		used += columns(r)
	}
	return s
}
