package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
)

// part is a chunk and where in the tree it belongs. One chunk may belong in
// several places.
type part struct {
	file int // in the manifest
	off  int64
	c    Chunk
}

// job is a run of one object's bytes to be read at once, and what is in it: a
// chunk, or members of a pack in the order they lie in it.
type job struct {
	object Object
	off, n int64
	parts  []part
}

// gap is how many bytes nobody needs are read along rather than asked around.
const gap = 256 << 10

// plan lists what has to be read to have all of m, in the order of its files.
func (e *Engine) plan(m Manifest) ([]job, error) {
	if m.Key != e.keyID() {
		return nil, fmt.Errorf("%w: %s, ours is %s", ErrKey, quote(m.Key), quote(e.keyID()))
	}
	packs := map[objectID]int64{}
	for _, p := range m.Packs {
		packs[objectID{p.Epoch, p.Hash}] = p.Size
	}
	var jobs []job
	alone, packed := map[objectID]int{}, map[objectID]int{}
	for i, f := range m.Files {
		var off int64
		for _, c := range f.Chunks {
			p := part{i, off, c}
			off += c.Size
			if c.Hash == "" {
				continue
			}
			if !knownCodec(c.Codec) {
				return nil, fmt.Errorf("%w: codec %s of %s", ErrSchema, quote(c.Codec), quote(f.Path))
			}
			of, id, size := alone, objectID{c.Epoch, c.Hash}, c.stored()
			if c.Pack != "" {
				id.hash = c.Pack
				of, size = packed, packs[id]
			}
			at, ok := of[id]
			if !ok {
				at = len(jobs)
				of[id] = at
				jobs = append(jobs, job{object: Object{dataName(m.Tenant, m.Job, m.epochOf(c.Epoch), id.hash), size}, n: size})
			}
			jobs[at].parts = append(jobs[at].parts, p)
		}
	}
	var out []job
	for _, j := range jobs {
		if j.parts[0].c.Pack == "" {
			out = append(out, j)
		} else {
			out = append(out, j.runs()...)
		}
	}
	return out, nil
}

// runs splits what is needed of a pack where more than a gap is not.
func (j job) runs() []job {
	slices.SortStableFunc(j.parts, func(a, b part) int { return cmp.Compare(a.c.Off, b.c.Off) })
	var out []job
	for _, p := range j.parts {
		end := p.c.Off + p.c.stored()
		last := len(out) - 1
		if last < 0 || p.c.Off > out[last].off+out[last].n+gap {
			out = append(out, job{object: j.object, off: p.c.Off, n: end - p.c.Off, parts: []part{p}})
			continue
		}
		out[last].n = max(out[last].n, end-out[last].off)
		out[last].parts = append(out[last].parts, p)
	}
	return out
}

// whole reports whether the job is for an entire object.
func (j job) whole() bool { return j.off == 0 && j.n == j.object.Size }

// memoryFor is how many bytes of buffers a job needs.
func (g *gate) memoryFor(j job) int64 {
	n := g.room(j.n)
	if j.parts[0].c.Codec != "" {
		n += g.room(j.parts[0].c.Size)
	}
	return n
}
