package trainer

// batch is the examples of one step: what the model sees, and what comes next.
type batch struct {
	context [batchSize][contextLen]byte
	next    [batchSize]byte
}

// batchAt returns the batch of a step. It is a function of the seed and the
// step, so a resumed run needs no position in the data to be restored.
func (c corpus) batchAt(seed uint64, step int) batch {
	var b batch
	r := sampler(seed, step)
	for i := range b.next {
		at := r.below(len(c.text) - contextLen)
		copy(b.context[i][:], c.text[at:])
		b.next[i] = c.text[at+contextLen]
	}
	return b
}

// sampler is the random stream from which a step's batch is drawn.
func sampler(seed uint64, step int) stream {
	return stream(mix(mix(seed) ^ uint64(step)))
}

// pass computes loss and gradient of batches. It owns the memory for one.
type pass struct {
	shape shape
	grad  params
	in, h, out,
	dIn, dH layer
}

// layer is one layer's numbers for a batch: flat to clear, by example, and by
// fours for the kernels.
type layer struct {
	flat []float32
	rows [][]float32
	four [][4][]float32
}

func newLayer(width int) layer {
	flat := make([]float32, batchSize*width)
	r := rows(flat, width)
	return layer{flat, r, quads(r)}
}

func newPass(s shape) *pass {
	return &pass{
		shape: s,
		grad:  s.over(make([]float32, s.size())),
		in:    newLayer(inputs), dIn: newLayer(inputs),
		h: newLayer(s.hidden), dH: newLayer(s.hidden),
		out: newLayer(s.vocab),
	}
}

// run returns the mean cross-entropy of the batch in nats, and leaves its
// gradient by every weight in p.grad.
func (p *pass) run(w params, b *batch) float32 {
	p.forward(w, b)
	loss := p.softmax(b)
	p.backward(w, b)
	return loss
}

func (p *pass) forward(w params, b *batch) {
	for i := range b.context {
		for j, c := range b.context[i] {
			copy(p.in.rows[i][j*embedding:], w.embed[int(c)*embedding:][:embedding])
		}
	}
	linear(p.h, p.in, w.hidden, w.hiddenOff)
	for i, v := range p.h.flat {
		p.h.flat[i] = tanh(v)
	}
	linear(p.out, p.h, w.output, w.outputOff)
}

// linear sets y to weights times x, plus bias.
func linear(y, x layer, weights, bias []float32) {
	width := len(weights) / len(bias)
	for j := range bias {
		w := weights[j*width:][:width]
		for q, x4 := range x.four {
			s0, s1, s2, s3 := dot4(w, x4[0], x4[1], x4[2], x4[3])
			y4 := y.four[q]
			y4[0][j], y4[1][j], y4[2][j], y4[3][j] = s0+bias[j], s1+bias[j], s2+bias[j], s3+bias[j]
		}
	}
}

// softmax turns the outputs into their gradient, and returns the loss.
func (p *pass) softmax(b *batch) float32 {
	loss := 0.0
	for i, row := range p.out.rows {
		top := row[0]
		for _, v := range row {
			top = max(top, v)
		}
		target := float64(row[b.next[i]] - top)
		sum := 0.0
		for j, v := range row {
			e := exp(float64(v - top))
			sum += e
			row[j] = float32(e)
		}
		loss += log(sum) - target
		scale := float32(1 / (sum * batchSize))
		for j := range row {
			row[j] *= scale
		}
		row[b.next[i]] -= 1.0 / batchSize
	}
	return float32(loss / batchSize)
}

func (p *pass) backward(w params, b *batch) {
	clear(p.grad.flat)
	clear(p.dH.flat)
	clear(p.dIn.flat)
	unlinear(p.out, p.h, p.dH, w.output, p.grad.output, p.grad.outputOff)
	for i, h := range p.h.flat {
		p.dH.flat[i] *= 1 - float32(h*h)
	}
	unlinear(p.dH, p.in, p.dIn, w.hidden, p.grad.hidden, p.grad.hiddenOff)
	for i := range b.context {
		for j, c := range b.context[i] {
			g := p.grad.embed[int(c)*embedding:][:embedding]
			for k, d := range p.dIn.rows[i][j*embedding:][:embedding] {
				g[k] += d
			}
		}
	}
}

// unlinear is linear backwards: from the gradient dy of the outputs it adds to
// those of the weights, the bias and the inputs.
func unlinear(dy, x, dx layer, weights, gWeights, gBias []float32) {
	width := len(weights) / len(gBias)
	for j := range gBias {
		w, g := weights[j*width:][:width], gWeights[j*width:][:width]
		for q := range x.four {
			y4 := &dy.four[q]
			d := [4]float32{y4[0][j], y4[1][j], y4[2][j], y4[3][j]}
			gBias[j] += d[0] + d[1] + d[2] + d[3]
			back4(&d, w, g, &x.four[q], &dx.four[q])
		}
	}
}
