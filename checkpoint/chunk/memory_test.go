package chunk

import (
	"bytes"
	"runtime"
	"testing"
)

func TestACoderAtWorkAllocatesNothing(t *testing.T) {
	for _, d := range kinds() {
		if d.name == "text" {
			continue // the zstd package pools inside, and the collector may empty pools
		}
		var c Coder
		room, plain := make([]byte, 0, len(d.data)), make([]byte, 0, len(d.data))
		allocs := testing.AllocsPerRun(3, func() {
			out, codec := c.Encode(room, d.data, d.elem)
			if codec == Raw {
				return
			}
			if _, err := c.Decode(plain, out, codec, len(d.data)); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 0 {
			t.Errorf("%s: %.0f allocations", d.name, allocs)
		}
	}
}

// A store that is not ours may give any bytes back, and a window of 2 GiB or a
// piece of a terabyte are four bytes to write.
func TestDamagedBytesTakeNoMoreMemoryThanTheirSize(t *testing.T) {
	const constant = 64 << 10
	r := rng(3)
	var c Coder
	for _, d := range kinds()[:8] {
		good, codec := c.Encode(nil, d.data[:200_000], d.elem)
		if _, err := c.Decode(nil, good, codec, 200_000); err != nil {
			t.Fatal(err)
		}
		for range 60 {
			bad := bytes.Clone(good)
			for range 1 + r.IntN(4) {
				bad[r.IntN(min(len(bad), 40+r.IntN(len(bad))))] = byte(r.Uint32())
			}
			if used := allocated(func() { c.Decode(nil, bad[:len(bad)-r.IntN(3)], codec, 200_000) }); used > 200_000+constant {
				t.Fatalf("%s: %d bytes allocated for a piece of 200,000", d.name, used)
			}
		}
	}
	window := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x80, 0x01, 0x00, 0x00} // 64 MiB of window, an empty block
	if used := allocated(func() { c.Decode(nil, window, Zstd, 10) }); used > constant {
		t.Errorf("a window of 64 MiB: %d bytes allocated", used)
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestACoderTakesAtMostTwoMegabytes(t *testing.T) {
	list := kinds()
	room, plain := make([]byte, 0, testSize), make([]byte, 0, testSize)
	var c Coder
	used := allocated(func() {
		for _, d := range list {
			data := d.data[:min(len(d.data), testSize)]
			if out, codec := c.Encode(room, data, d.elem); codec != Raw {
				c.Decode(plain, out, codec, len(data))
			}
		}
	})
	if used > 2<<20 {
		t.Errorf("%d bytes", used)
	}
	t.Logf("%d bytes", used)
}
