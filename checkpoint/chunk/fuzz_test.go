package chunk

import (
	"bytes"
	"testing"
)

func FuzzDecode(f *testing.F) {
	for _, d := range kinds() {
		for _, n := range []int{100, 3000} {
			out, codec := Encode(nil, d.data[:n], d.elem)
			f.Add(out, codec == Zstd, n)
		}
	}
	f.Add([]byte{planesVersion, 8, 0, 0, 1, 1, 0, 0, planeRun, 7}, false, 8)
	f.Add([]byte{planesVersion, 8, 0, 0, 3, 1, 0, 0, planeRun, 7}, false, 24)
	f.Add([]byte{planesVersion, 0, 0, 0, 1}, false, 8)
	f.Fuzz(func(t *testing.T, src []byte, zstd bool, size int) {
		codec := Planes
		if zstd {
			codec = Zstd
		}
		size = min(size, 1<<20)
		var c Coder
		out, err := c.Decode([]byte("x"), src, codec, size)
		if err == nil && len(out) != 1+size || err != nil && len(out) != 1 || out[0] != 'x' {
			t.Fatalf("Decode = %d bytes, %v", len(out), err)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	for i, d := range kinds() {
		f.Add(d.data[i:2000+i], i)
	}
	f.Add([]byte{}, 0)
	var c Coder
	f.Fuzz(func(t *testing.T, data []byte, elem int) {
		// Short inputs repeated are where blocks end and planes are long.
		for _, times := range []int{1, 1 + 4096/(len(data)+1)} {
			roundTrip(t, &c, bytes.Repeat(data, times), elems[uint(elem)%uint(len(elems))])
		}
	})
}
