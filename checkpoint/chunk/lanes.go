package chunk

import "encoding/binary"

// The loops of this file touch every byte of a checkpoint. They take whole words
// of eight bytes at a time: width words of elements become width words of
// planes, and back, by exchanging bytes between words. The bytes of a plane are
// therefore in the order of these exchanges and not in that of the elements,
// which no entropy coder minds, and which is several times faster.

// group is how many elements are exchanged at once.
const group = 8

// exchange swaps the odd bytes of a with the even bytes of b.
func exchange(a, b uint64) (uint64, uint64) {
	t := (a>>8 ^ b) & 0x00ff00ff00ff00ff
	return a ^ t<<8, b ^ t
}

// exchange2 swaps the odd pairs of bytes of a with the even pairs of b.
func exchange2(a, b uint64) (uint64, uint64) {
	t := (a>>16 ^ b) & 0x0000ffff0000ffff
	return a ^ t<<16, b ^ t
}

// split takes src, a multiple of group elements of width bytes, apart: byte i of
// each element goes to planes[i].
func split(planes *[4][]byte, src []byte, width int) {
	n := len(src) / width
	switch width {
	case 2:
		p, q := planes[0][:n], planes[1][:n]
		for k := 0; k < n; k += group {
			s := src[2*k : 2*k+16 : 2*k+16]
			a, b := exchange(binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:]))
			binary.LittleEndian.PutUint64(p[k:k+8:k+8], a)
			binary.LittleEndian.PutUint64(q[k:k+8:k+8], b)
		}
	case 4:
		p, q, r, t := planes[0][:n], planes[1][:n], planes[2][:n], planes[3][:n]
		for k := 0; k < n; k += group {
			s := src[4*k : 4*k+32 : 4*k+32]
			a, b := exchange(binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:16]))
			c, d := exchange(binary.LittleEndian.Uint64(s[16:24]), binary.LittleEndian.Uint64(s[24:]))
			a, c = exchange2(a, c)
			b, d = exchange2(b, d)
			binary.LittleEndian.PutUint64(p[k:k+8:k+8], a)
			binary.LittleEndian.PutUint64(q[k:k+8:k+8], b)
			binary.LittleEndian.PutUint64(r[k:k+8:k+8], c)
			binary.LittleEndian.PutUint64(t[k:k+8:k+8], d)
		}
	default:
		copy(planes[0], src)
	}
}

// join is the inverse of split.
func join(dst []byte, planes *[4][]byte, width int) {
	n := len(dst) / width
	switch width {
	case 2:
		p, q := planes[0][:n], planes[1][:n]
		for k := 0; k < n; k += group {
			a, b := exchange(binary.LittleEndian.Uint64(p[k:k+8:k+8]), binary.LittleEndian.Uint64(q[k:k+8:k+8]))
			s := dst[2*k : 2*k+16 : 2*k+16]
			binary.LittleEndian.PutUint64(s[:8], a)
			binary.LittleEndian.PutUint64(s[8:], b)
		}
	case 4:
		p, q, r, t := planes[0][:n], planes[1][:n], planes[2][:n], planes[3][:n]
		for k := 0; k < n; k += group {
			a, c := exchange2(binary.LittleEndian.Uint64(p[k:k+8:k+8]), binary.LittleEndian.Uint64(r[k:k+8:k+8]))
			b, d := exchange2(binary.LittleEndian.Uint64(q[k:k+8:k+8]), binary.LittleEndian.Uint64(t[k:k+8:k+8]))
			a, b = exchange(a, b)
			c, d = exchange(c, d)
			s := dst[4*k : 4*k+32 : 4*k+32]
			binary.LittleEndian.PutUint64(s[:8], a)
			binary.LittleEndian.PutUint64(s[8:16], b)
			binary.LittleEndian.PutUint64(s[16:24], c)
			binary.LittleEndian.PutUint64(s[24:], d)
		}
	default:
		copy(dst, planes[0])
	}
}

// isRun is true of one byte repeated.
func isRun(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	all := uint64(b[0]) * 0x0101010101010101
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != all {
			return false
		}
	}
	for _, v := range b {
		if v != byte(all) {
			return false
		}
	}
	return true
}

// fill sets every byte of b to v and returns it.
func fill(b []byte, v byte) []byte {
	for n := copy(b, []byte{v}); n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
	return b
}
