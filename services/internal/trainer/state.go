package trainer

// state is all there is to save: the rest of a run follows from it.
type state struct {
	step    int     // steps done
	loss    float32 // of the last of them
	weights params
	m, v    []float32
	history []logEntry
}

// logEntry is one line of the loss history in trainer_state.json.
type logEntry struct {
	Epoch        float64 `json:"epoch"`
	LearningRate float64 `json:"learning_rate"`
	Loss         float32 `json:"loss"`
	Step         int     `json:"step"`
}

func newState(s shape, seed uint64) *state {
	return &state{
		weights: s.initial(seed),
		m:       make([]float32, s.size()),
		v:       make([]float32, s.size()),
	}
}

// advance trains one step.
func (st *state) advance(p *pass, c corpus, seed uint64) {
	st.step++
	b := c.batchAt(seed, st.step)
	st.loss = p.run(st.weights, &b)
	adam(st.weights.flat, p.grad.flat, st.m, st.v, st.step)
}
