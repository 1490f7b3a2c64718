package chunk

import (
	"math"
	"math/bits"
	"unicode/utf8"
)

// Guess returns what a run of bytes seems to consist of, whatever the file is:
// an optimizer's state in a torch archive has no dtypes that could be read
// cheaply, and is most of a checkpoint. It looks at a few kilobytes spread over
// the sample, which may begin in the middle of an element.
//
// The byte with an element's sign and exponent takes few values and the bytes
// of the mantissa take all of them, so the right width is the one whose byte
// planes have the least entropy. F16 is told as BF16: the codec is the same.
func Guess(sample []byte) Elem {
	if readsAsText(sample) {
		return Text
	}
	switch look(sample).width {
	case 2:
		return BF16
	case 4:
		return F32
	default:
		return Bytes
	}
}

// Ratio is the encoded length of src to expect, by its plain one, for [Worth];
// 1 means that Encode will say Raw. It takes microseconds.
func Ratio(src []byte) float64 {
	if readsAsText(src) {
		return 0.35 // a vocabulary 0.30, logs and configurations less
	}
	return expect(src)
}

// expect is the mean of several looks: one over tensors of different types sees
// a blur.
func expect(src []byte) float64 {
	const part = 256 << 10
	parts := max(1, min(len(src)/part, 8))
	var sum float64
	for i := range parts {
		sum += look(src[len(src)/parts*i : len(src)/parts*(i+1)]).ratio
	}
	return sum / float64(parts)
}

// readsAsText is isText of the beginning, the middle and the end.
func readsAsText(b []byte) bool {
	const part = 1024
	if len(b) <= 3*part {
		return isText(b)
	}
	middle := len(b) / 2
	return isText(b[:part]) && isText(b[middle:middle+part]) && isText(b[len(b)-part:])
}

// isText is true of UTF-8 with next to no control characters.
func isText(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	control := 0
	for _, c := range b {
		if c == 0 {
			return false
		}
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			control++
		}
	}
	if control > len(b)/64 {
		return false
	}
	// A sample may end in the middle of a character, or begin there.
	for range utf8.UTFMax - 1 {
		if len(b) > 0 && !utf8.RuneStart(b[0]) {
			b = b[1:]
		}
	}
	for range utf8.UTFMax - 1 {
		if r, n := utf8.DecodeLastRune(b); r == utf8.RuneError && n == 1 {
			b = b[:len(b)-1]
		}
	}
	return utf8.Valid(b)
}

// shape is how a run of bytes is best taken apart.
type shape struct {
	width int     // bytes per element: 1, 2 or 4
	coded uint8   // bit i: the plane of the elements' byte i is worth Huffman code
	ratio float64 // expected length after coding; 1 when no plane is coded
}

// sampleBytes are looked at in runs of sampleRun, which is a cache line and a
// multiple of every width.
const (
	sampleBytes = 4096
	sampleRun   = 64
)

// look estimates, from a sample, which width and which planes pay.
func look(src []byte) shape {
	var hist [4][256]uint32
	runs := min(len(src)/sampleRun, sampleBytes/sampleRun)
	if runs == 0 {
		return shape{width: 1, ratio: 1}
	}
	step := len(src) / runs &^ 3 // every run begins at the same byte of an element
	for i := range runs {
		run := src[i*step : i*step+sampleRun]
		for ; len(run) >= 4; run = run[4:] {
			hist[0][run[0]]++
			hist[1][run[1]]++
			hist[2][run[2]]++
			hist[3][run[3]]++
		}
	}
	n := runs * sampleRun / 4
	four := weigh(hist[:], n)
	add(&hist[0], &hist[2])
	add(&hist[1], &hist[3])
	two := weigh(hist[:2], 2*n)
	add(&hist[0], &hist[1])
	best := weigh(hist[:1], 4*n)
	// More planes cost more time and their histograms are thinner, so a greater
	// width has to be clearly better.
	for _, s := range []shape{two, four} {
		if s.ratio < 0.98*best.ratio {
			best = s
		}
	}
	if best.coded == 0 || best.ratio > 0.97 {
		return shape{width: 1, ratio: 1}
	}
	return best
}

func add(to, from *[256]uint32) {
	for i, c := range from {
		to[i] += c
	}
}

// weigh is the shape with these planes, each seen n times.
func weigh(planes [][256]uint32, n int) shape {
	s := shape{width: len(planes)}
	for i := range planes {
		h := entropy(&planes[i], n)
		if h < codedBelow {
			s.coded |= 1 << i
		} else {
			h = 8
		}
		s.ratio += h / 8 / float64(len(planes))
	}
	return s
}

// codedBelow is the entropy, in bits per byte, under which a plane is worth the
// time that Huffman coding takes.
const codedBelow = 7.5

// entropy estimates bits per byte from the histogram of a sample of n, with the
// correction of Miller and Madow for what a sample has not seen.
func entropy(hist *[256]uint32, n int) float64 {
	var sum float64
	seen := 0
	for _, c := range hist {
		if c > 0 {
			seen++
			sum += float64(c) * log2(c)
		}
	}
	total := float64(n)
	return max(0, math.Log2(total)-sum/total+float64(seen-1)/(2*total*math.Ln2))
}

// log2 is within 0.01 of the logarithm of x > 0, and exact for powers of two.
func log2(x uint32) float64 {
	whole := bits.Len32(x) - 1
	m := float64(x)/float64(uint64(1)<<whole) - 1
	return float64(whole) + m + 0.3466*m*(1-m)
}
