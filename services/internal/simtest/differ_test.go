package simtest

import (
	"fmt"
	"maps"
	"slices"
)

// differ tells where two histories part, and what led up to it.
func differ(a, b map[string][]message) string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(a)) {
		x, y := a[name], b[name]
		at := 0
		for at < min(len(x), len(y)) && x[at].text == y[at].text {
			at++
		}
		if at == len(x) && at == len(y) {
			continue
		}
		out += fmt.Sprintf("%s parts at %d of %d and %d:\n", name, at, len(x), len(y))
		for _, m := range x[max(at-6, 0):at] {
			out += fmt.Sprintf("    %.110s\n", m.text)
		}
		for _, side := range [][]message{x, y} {
			for i, m := range side[min(at, len(side)):min(at+4, len(side))] {
				out += fmt.Sprintf("  | %.*s\n", 2500-2390*min(i, 1), m.text)
			}
			out += "\n"
		}
	}
	return out
}
