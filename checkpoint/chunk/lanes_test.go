package chunk

import (
	"bytes"
	"testing"
)

func TestJoinUndoesSplit(t *testing.T) {
	src := noise(rng(2), 4*group*37)
	for _, width := range []int{1, 2, 4} {
		var c Coder
		planes := c.scratch(width)
		split(&planes, src, width)
		for i := range width {
			var bytes, counted [256]int
			for k, v := range src {
				if k%width == i {
					bytes[v]++
				}
			}
			for _, v := range planes[i][:len(src)/width] {
				counted[v]++
			}
			if bytes != counted {
				t.Errorf("width %d: plane %d does not hold byte %d of every element", width, i, i)
			}
		}
		got := make([]byte, len(src))
		if join(got, &planes, width); !bytes.Equal(got, src) {
			t.Errorf("width %d: other bytes", width)
		}
	}
}

func TestFillAndIsRun(t *testing.T) {
	for n := range 70 {
		b := fill(make([]byte, n), 7)
		if isRun(b) != (n > 0) {
			t.Errorf("%d equal bytes: isRun = %v", n, isRun(b))
		}
		for i := 1; i < n; i++ {
			b[i] = 8
			if isRun(b) {
				t.Errorf("byte %d of %d differs, and isRun says true", i, n)
			}
			b[i] = 7
		}
	}
}

func BenchmarkLanes(b *testing.B) {
	src := noise(rng(1), blockMax)
	for _, width := range []int{2, 4} {
		var c Coder
		planes := c.scratch(width)
		part := src[:width*blockElems]
		b.Run("split", func(b *testing.B) { measure(b, len(part), func() { split(&planes, part, width) }) })
		b.Run("join", func(b *testing.B) { measure(b, len(part), func() { join(part, &planes, width) }) })
	}
}
