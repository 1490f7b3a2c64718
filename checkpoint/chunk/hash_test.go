package chunk

import (
	"testing"

	"lukechampine.com/blake3"
)

func TestHashIsBLAKE3(t *testing.T) {
	r := rng(5)
	data := noise(r, 3*lane+5000)
	key := [32]byte(testKey(3))
	lengths := []int{0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, lane - 1, lane, lane + 1, 2 * lane, 3*lane - 1, 3 * lane, len(data)}
	for range 200 {
		lengths = append(lengths, r.IntN(len(data)))
	}
	for _, n := range lengths {
		if hash(data[:n]) != blake3.Sum256(data[:n]) {
			t.Fatalf("hash of %d bytes is not BLAKE3", n)
		}
		h := blake3.New(32, key[:])
		h.Write(data[:n])
		if want := h.Sum(nil); keyedHash(&key, data[:n]) != [32]byte(want) {
			t.Fatalf("keyed hash of %d bytes is not BLAKE3", n)
		}
	}
	if allocs := testing.AllocsPerRun(10, func() { hash(data) }); allocs > 0 {
		t.Errorf("hash: %.0f allocations", allocs)
	}
}
