package trainer

import (
	"math"
	"testing"
)

func TestFunctionsAgreeWithPackageMath(t *testing.T) {
	t.Parallel()
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-13*math.Abs(want) }
	r := stream(3)
	for range 10_000 {
		x := float64(r.symmetric(40))
		if got, want := exp(x), math.Exp(x); !near(got, want) {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
		if y := math.Exp(x); math.Abs(log(y)-math.Log(y)) > 1e-13*max(1, math.Abs(x)) {
			t.Fatalf("log(%v) = %v, want %v", y, log(y), math.Log(y))
		}
		if got, want := float64(tanh(float32(x/8))), math.Tanh(float64(float32(x/8))); math.Abs(got-want) > 1e-7 {
			t.Fatalf("tanh(%v) = %v, want %v", x/8, got, want)
		}
		n := r.below(2000)
		if got, want := power(beta2, n), math.Pow(beta2, float64(n)); !near(got, want) {
			t.Fatalf("power(%v, %d) = %v, want %v", beta2, n, got, want)
		}
	}
}

func TestFunctionsKeepTheirBoundsFarOut(t *testing.T) {
	t.Parallel()
	if got := exp(-1e9); got != 0 {
		t.Errorf("exp(-1e9) = %v, want 0", got)
	}
	if got := exp(1e9); math.IsInf(got, 0) || math.IsNaN(got) {
		t.Errorf("exp(1e9) = %v, want a number", got)
	}
	if lo, hi := tanh(-1e30), tanh(1e30); lo != -1 || hi != 1 {
		t.Errorf("tanh far out = %v and %v, want -1 and 1", lo, hi)
	}
	r := stream(1)
	for range 100_000 {
		if x := r.symmetric(0.5); x < -0.5 || x >= 0.5 {
			t.Fatalf("symmetric(0.5) = %v", x)
		}
	}
}
