package trainer

import (
	"math"
	"testing"
)

// plainLoss is the model written down once more, in float64 and without a
// thought for speed, for the other one to be checked against.
func plainLoss(s shape, flat []float64, b batch) float64 {
	part := map[string][]float64{}
	for _, t := range s.tensors() {
		part[t.name], flat = flat[:t.size()], flat[t.size():]
	}
	loss := 0.0
	for i, context := range b.context {
		var in []float64
		for _, c := range context {
			in = append(in, part["embedding.weight"][int(c)*embedding:][:embedding]...)
		}
		h := make([]float64, s.hidden)
		for j := range h {
			h[j] = part["hidden.bias"][j]
			for k, x := range in {
				h[j] += part["hidden.weight"][j*len(in)+k] * x
			}
			h[j] = math.Tanh(h[j])
		}
		sum, target := 0.0, 0.0
		for v := range s.vocab {
			y := part["output.bias"][v]
			for j, x := range h {
				y += part["output.weight"][v*s.hidden+j] * x
			}
			sum += math.Exp(y)
			if v == int(b.next[i]) {
				target = y
			}
		}
		loss += math.Log(sum) - target
	}
	return loss / batchSize
}

func TestGradientIsTheSlopeOfTheLoss(t *testing.T) {
	t.Parallel()
	c := newCorpus([]byte(builtinText()))
	s := shape{len(c.alphabet), 12}
	st, p := newState(s, 5), newPass(s)
	for range 3 { // away from the beginning, where biases are zero
		st.advance(p, c, 5)
	}
	b := c.batchAt(5, 99)
	loss := p.run(st.weights, &b)

	wide := make([]float64, s.size())
	for i, v := range st.weights.flat {
		wide[i] = float64(v)
	}
	if want := plainLoss(s, wide, b); math.Abs(float64(loss)-want) > 1e-6 {
		t.Errorf("loss = %v, want %v", loss, want)
	}
	r, at := stream(11), 0
	for _, tensor := range s.tensors() {
		steepest := 0.0
		for range 60 {
			i := at + r.below(tensor.size())
			const h = 1e-5
			keep := wide[i]
			wide[i] = keep + h
			up := plainLoss(s, wide, b)
			wide[i] = keep - h
			down := plainLoss(s, wide, b)
			wide[i] = keep
			slope, got := (up-down)/(2*h), float64(p.grad.flat[i])
			if math.Abs(got-slope) > 1e-4*math.Abs(slope)+1e-7 {
				t.Errorf("%s[%d]: gradient %v, slope %v", tensor.name, i-at, got, slope)
			}
			steepest = max(steepest, math.Abs(slope))
		}
		if steepest < 1e-4 {
			t.Errorf("%s: all slopes are about zero, so nothing was checked", tensor.name)
		}
		at += tensor.size()
	}
}

func TestLossFallsByMoreThanAThird(t *testing.T) {
	t.Parallel()
	c := newCorpus([]byte(builtinText()))
	s := shape{len(c.alphabet), 96}
	st, p := newState(s, 1), newPass(s)
	mean := func(steps int) float64 {
		sum := 0.0
		for range steps {
			st.advance(p, c, 1)
			sum += float64(st.loss)
		}
		return sum / float64(steps)
	}
	first := mean(10)
	mean(280)
	last := mean(10)
	if uniform := math.Log(float64(s.vocab)); math.Abs(first-uniform) > 0.3 {
		t.Errorf("loss begins at %.2f, want about %.2f, that of a guess", first, uniform)
	}
	if last > first*2/3 {
		t.Errorf("loss fell from %.2f to %.2f in 300 steps, want below two thirds", first, last)
	}
}

// One digest for every architecture: it has been checked on amd64, with and
// without fused instructions allowed, and on 386. A change here means that jobs
// resumed across the change end differently.
func TestFiftyStepsGiveTheWeightsTheyAlwaysGave(t *testing.T) {
	t.Parallel()
	const want = "093237014188015daa77f3f47a702032124128d2c505d79d687ef72f432c2b69"
	c := newCorpus([]byte(builtinText()))
	s := shape{len(c.alphabet), 16}
	st, p := newState(s, 1), newPass(s)
	for range 50 {
		st.advance(p, c, 1)
	}
	if got, _ := digest(st.weights.flat, nil); got != want {
		t.Errorf("digest after 50 steps = %s, want %s", got, want)
	}
}

func TestBatchDependsOnSeedAndStepAlone(t *testing.T) {
	t.Parallel()
	c := newCorpus([]byte(builtinText()))
	seen := map[batch]string{}
	for seed := range uint64(8) {
		for step := range 50 {
			b := c.batchAt(seed, step)
			if c.batchAt(seed, step) != b {
				t.Fatalf("seed %d step %d gave two batches", seed, step)
			}
			if seen[b] != "" {
				t.Fatalf("seed %d step %d repeats the batch of another", seed, step)
			}
			seen[b] = "seen"
		}
	}
}

func BenchmarkStep(b *testing.B) {
	c := newCorpus([]byte(builtinText()))
	s := shape{len(c.alphabet), defaultHidden}
	st, p := newState(s, 0), newPass(s)
	for b.Loop() {
		st.advance(p, c, 0)
	}
}

func BenchmarkDigest(b *testing.B) {
	s := shape{28, defaultHidden}
	w := s.initial(0)
	var buf []byte
	for b.Loop() {
		_, buf = digest(w.flat, buf)
	}
}

func BenchmarkSave(b *testing.B) {
	c := newCorpus([]byte(builtinText()))
	cfg := Config{Output: b.TempDir(), Hidden: defaultHidden}
	args := newArguments(cfg, c)
	st, p := newState(args.shape(), 0), newPass(args.shape())
	st.advance(p, c, 0)
	for b.Loop() {
		if err := saveCheckpoint(cfg, args, st, 0); err != nil {
			b.Fatal(err)
		}
	}
}
