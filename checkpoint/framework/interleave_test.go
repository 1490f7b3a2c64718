package framework_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/checkpoint/framework"
	"github.com/spotferry/spotferry/checkpoint/framework/frameworktest"
)

// TestAnyOrderOfRanks: however two ranks take turns, and wherever both are
// killed or stop, what is judged complete has every byte of both.
func TestAnyOrderOfRanks(t *testing.T) {
	t.Parallel()
	var layouts []frameworktest.Layout
	for _, l := range frameworktest.Layouts() {
		if l.Ranks > 1 {
			layouts = append(layouts, l)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		h := &held{table: &table{count: map[string]map[string]int{}}, Layout: rapid.SampledFrom(layouts).Draw(rt, "layout")}
		j := newJob(t)
		must(t, h.Write(j.dir, 1, seed, func(string) error { return nil }))
		learned := h.make(t, nil)
		if len(h.complete(t, learned, j.root)) != 1 {
			rt.Fatalf("%s: the first is not complete", h.Name)
		}
		turn := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "turn") }
		kill, every := rapid.IntRange(1, 90).Draw(rt, "killed at"), rapid.IntRange(3, 15).Draw(rt, "look every")
		n, whole := 0, false
		err := h.Interleave(j.dir, 2, seed, turn, func(point string) error {
			whole = whole || point == frameworktest.Complete
			n++
			if n%every == 0 || n == kill {
				h.early(rt, "", point, j.dir, 2, whole, h.complete(t, learned, j.root))
			}
			if n == kill {
				return errKilled
			}
			return nil
		})
		if err != nil && !errors.Is(err, errKilled) {
			rt.Fatal(err)
		}
		cut := h.make(t, func(c *framework.Config) { c.Cut = func() bool { return true } })
		for _, a := range []framework.Adapter{learned, cut} {
			got := h.complete(t, a, j.root)
			if err == nil && a == learned && (len(got) == 0 || h.trainerStep(got[0]) != 2) {
				rt.Fatalf("%s: the second is not complete", h.Name)
			}
			if err != nil && a == cut {
				got = h.only(got, 2) // an older one may have been on its way out
			}
			h.early(rt, "", "the kill", j.dir, 2, whole, got)
		}
	})
}
