package chunk

import (
	"encoding/binary"
	"math/bits"

	"lukechampine.com/blake3/guts"
)

// The blake3 package starts a goroutine for every 16 KiB of a long input. Here
// there is a piece for every core already, and cores that train: hashing in the
// caller's goroutine takes a quarter less processor time and allocates nothing.

// lane is what guts hashes with one call: a subtree of sixteen leaves.
const lane = guts.MaxSIMD * guts.ChunkSize

// hash returns the BLAKE3-256 of data.
func hash(data []byte) [32]byte { return tree(&guts.IV, 0, data) }

// keyedHash returns the BLAKE3-256 of data under key, a pseudo-random function.
func keyedHash(key *[32]byte, data []byte) [32]byte {
	var words [8]uint32
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	return tree(&words, guts.FlagKeyedHash, data)
}

func tree(key *[8]uint32, flags uint32, data []byte) [32]byte {
	// Roots of the complete subtrees so far, by height; those at the ones of
	// lanes are in use.
	var roots [64][8]uint32
	var lanes uint64
	for ; len(data) > lane; data = data[lane:] {
		cv := guts.ChainingValue(guts.CompressBuffer((*[lane]byte)(data), lane, key, lanes*guts.MaxSIMD, flags))
		height := bits.TrailingZeros64(^lanes)
		for i := range height {
			cv = guts.ChainingValue(guts.ParentNode(roots[i], cv, key, flags))
		}
		roots[height] = cv
		lanes++
	}
	n := lastLane(key, flags, data, lanes*guts.MaxSIMD)
	for i := range bits.Len64(lanes) {
		if lanes&(1<<i) != 0 {
			n = guts.ParentNode(roots[i], guts.ChainingValue(n), key, flags)
		}
	}
	n.Flags |= guts.FlagRoot
	out := guts.WordsToBytes(guts.CompressNode(n))
	return [32]byte(out[:32])
}

// lastLane is the node of the last lane or part of one, which guts wants to read
// as if it were whole.
func lastLane(key *[8]uint32, flags uint32, data []byte, counter uint64) guts.Node {
	if len(data) <= guts.ChunkSize {
		return guts.CompressChunk(data, key, counter, flags)
	}
	if len(data) == lane {
		return guts.CompressBuffer((*[lane]byte)(data), lane, key, counter, flags)
	}
	var whole [lane]byte
	copy(whole[:], data)
	return guts.CompressBuffer(&whole, len(data), key, counter, flags)
}
