package trainer

import "math"

const (
	learningRate = 2e-3
	warmup       = 50 // steps to full rate; after that it falls with the square root of the step
	beta1        = 0.9
	beta2        = 0.999
	epsilon      = 1e-8
)

// rate is the learning rate of a step counted from 1. It does not depend on how
// many steps the run has, so that a run can be prolonged.
func rate(step int) float64 {
	s := float64(step)
	return learningRate * min(s/warmup, math.Sqrt(warmup/s))
}

// adam moves the weights w against the gradient g, and updates the two moments
// m and v. step counts from 1. D. P. Kingma and J. Ba, "Adam: a method for
// stochastic optimization", ICLR 2015, in the order of section 2's last lines:
// the corrections of both moments are folded into the rate.
func adam(w, g, m, v []float32, step int) {
	lr := float32(rate(step) * math.Sqrt(1-power(beta2, step)) / (1 - power(beta1, step)))
	m, v, w = m[:len(g)], v[:len(g)], w[:len(g)]
	for i, gi := range g {
		mi := float32(beta1*m[i]) + float32((1-beta1)*gi)
		vi := float32(beta2*v[i]) + float32(float32((1-beta2)*gi)*gi)
		m[i], v[i] = mi, vi
		w[i] -= float32(lr*mi) / (float32(math.Sqrt(float64(vi))) + epsilon)
	}
}
