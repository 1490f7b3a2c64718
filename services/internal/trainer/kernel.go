package trainer

// The two loops in which nearly all of a step's time goes. Four examples go
// through at once, because one sum at a time would wait on each addition. The
// order of every sum is fixed, and each product is rounded before it is added.

// dot4 returns the products of w with four inputs.
func dot4(w, x0, x1, x2, x3 []float32) (s0, s1, s2, s3 float32) {
	n := len(w)
	x0, x1, x2, x3 = x0[:n], x1[:n], x2[:n], x3[:n]
	for k, wk := range w {
		s0 += float32(wk * x0[k])
		s1 += float32(wk * x1[k])
		s2 += float32(wk * x2[k])
		s3 += float32(wk * x3[k])
	}
	return s0, s1, s2, s3
}

// back4 carries the gradients d of one output for four examples back through
// its weights w: it adds to the gradient g of the weights and to the gradients
// of the four inputs.
func back4(d *[4]float32, w, g []float32, x, dx *[4][]float32) {
	n := len(w)
	d0, d1, d2, d3 := d[0], d[1], d[2], d[3]
	g = g[:n]
	x0, x1, x2, x3 := x[0][:n], x[1][:n], x[2][:n], x[3][:n]
	e0, e1, e2, e3 := dx[0][:n], dx[1][:n], dx[2][:n], dx[3][:n]
	for k, wk := range w {
		a := float32(d0*x0[k]) + float32(d1*x1[k])
		b := float32(d2*x2[k]) + float32(d3*x3[k])
		g[k] += a + b
		e0[k] += float32(d0 * wk)
		e1[k] += float32(d1 * wk)
		e2[k] += float32(d2 * wk)
		e3[k] += float32(d3 * wk)
	}
}

// rows cuts a flat slice into rows of n.
func rows(flat []float32, n int) [][]float32 {
	out := make([][]float32, len(flat)/n)
	for i := range out {
		out[i] = flat[i*n : (i+1)*n : (i+1)*n]
	}
	return out
}

// quads groups rows in fours, as the kernels take them.
func quads(r [][]float32) [][4][]float32 {
	out := make([][4][]float32, len(r)/4)
	for i := range out {
		out[i] = [4][]float32(r[4*i : 4*i+4])
	}
	return out
}
