package jobfile

import (
	"slices"
	"strings"
)

// suggest returns the remedy for a key that is in no row: the row it was meant
// to be, the place where such a key belongs, or the keys there are.
func (r *reader) suggest(path, name string) string {
	var here []string
	for _, k := range table() {
		if parent(k.path) == path && k.verdict == reads {
			here = append(here, leaf(k.path))
		}
	}
	if best := Nearest(strings.ToLower(name), here); best != "" {
		return "did you mean " + best + "?"
	}
	for _, k := range table() {
		if leaf(k.path) == name && k.verdict == reads {
			return "did you mean " + k.path + "? It stands below " + parentName(k.path)
		}
	}
	slices.Sort(here)
	return "remove it; the keys here are " + strings.Join(here, ", ")
}

// Nearest is the one of names that word was most likely meant to be, or "" when
// none is near. Of equals it is the first.
func Nearest(word string, names []string) string {
	best, distance := "", 1+min(2, max(1, len(word)/3))
	if len(word) < 2 {
		distance = 1
	}
	for _, n := range names {
		if d := edits(word, n); d < distance {
			best, distance = n, d
		}
	}
	return best
}

func parent(path string) string {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)]
}

func parentName(path string) string {
	if p := parent(path); p != "" {
		return p
	}
	return "the top of the file"
}

// edits is how many insertions, deletions, changes and swaps of neighbours turn
// a into b (optimal string alignment). Long strings are told apart by length alone.
func edits(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 40
	}
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := prev[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(prev[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
