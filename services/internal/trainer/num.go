package trainer

import "math"

// The functions below exist because their namesakes in package math may round
// differently from one processor to the next (some use fused multiply-add where
// the machine has it), and a job moves between machines. They use only
// operations that IEEE 754 rounds exactly. A product that is added to something
// is wrapped in a conversion, which forbids the compiler to fuse the two.

// exp returns e**x to about 14 digits.
func exp(x float64) float64 {
	const (
		ln2hi = 6.93147180369123816490e-01 // the upper half of ln 2, so that k*ln2hi is exact
		ln2lo = 1.90821492927058770002e-10
	)
	switch {
	case x < -700:
		return 0
	case x > 700:
		x = 700
	}
	k := math.RoundToEven(x / math.Ln2)
	r := x - float64(k*ln2hi)
	r -= float64(k * ln2lo)
	sum := 1.0
	for n := 12.0; n > 0; n-- { // Taylor's series from its far end, |r| < 0.35
		sum = 1 + float64(r*sum)/n
	}
	return sum * math.Float64frombits(uint64(1023+int64(k))<<52)
}

// log returns the natural logarithm of a positive x to about 14 digits.
func log(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	s := (m - 1) / (m + 1)
	s2 := s * s
	sum := 0.0
	for n := 17.0; n > 0; n -= 2 {
		sum = 1/n + float64(s2*sum)
	}
	return float64(2*float64(s*sum)) + float64(float64(e)*math.Ln2)
}

// tanh returns the hyperbolic tangent of x.
func tanh(x float32) float32 {
	return float32(1 - 2/(exp(float64(x)*2)+1))
}

// power returns x**n for a whole n.
func power(x float64, n int) float64 {
	p := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p *= x
		}
		x *= x
	}
	return p
}

// mix scrambles x so that neighbouring inputs give unrelated outputs. It is the
// finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// stream is a sequence of random numbers fixed by where it starts.
type stream uint64

func (s *stream) next() uint64 {
	v := mix(uint64(*s))
	*s += 0x9e3779b97f4a7c15
	return v
}

// below returns a number in [0, n). Its bias, n in 2**64, does not matter here.
func (s *stream) below(n int) int { return int(s.next() % uint64(n)) }

// symmetric returns a number in (-limit, limit).
func (s *stream) symmetric(limit float32) float32 {
	unit := float32(int64(s.next()>>40)-1<<23) / (1 << 23)
	return unit * limit
}
