package simtest

import (
	"fmt"
	"maps"
	"slices"
)

// differ tells where two histories part.
func differ(a, b map[string][]message) string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(a)) {
		x, y := a[name], b[name]
		for i := range max(len(x), len(y)) {
			switch {
			case i >= len(x) || i >= len(y):
				out += fmt.Sprintf("%s: %d and %d messages\n", name, len(x), len(y))
			case x[i].text != y[i].text:
				out += fmt.Sprintf("%s parts:\n  %.1500s\n  %.1500s\n", name, x[i].text, y[i].text)
			default:
				continue
			}
			break
		}
	}
	return out
}
