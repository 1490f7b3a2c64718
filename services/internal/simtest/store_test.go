package simtest

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
)

// objects draws what happens to an operation of the checkpoint store.
func (w *world) objects(op mem.Op) mem.Fault {
	f := mem.Fault{}
	if op.Verb == mem.Put {
		f.Delay = w.chance.between(200*time.Millisecond, 1500*time.Millisecond, "put", op.Name)
	}
	about := []any{"object", op.Verb, op.Name, time.Now().UnixNano(), w.store.attempt(op)}
	if !w.chaotic() || !w.chance.hits(w.opt.trouble.object, about...) {
		return f
	}
	w.mu.Lock()
	w.spoiled = append(w.spoiled, window{time.Now(), time.Now()})
	w.mu.Unlock()
	kinds := faults[op.Verb]
	k := kinds[w.chance.below(len(kinds), append(about, "how")...)]
	k.set(w, &f)
	w.hits.add("store: " + k.what)
	return f
}

type fault struct {
	what string
	set  func(*world, *mem.Fault)
}

// faults are what stores do to those who use them. What rot does is below.
var faults = map[mem.Verb][]fault{
	mem.Put: {
		{"put refused", func(_ *world, f *mem.Fault) { f.Before = errLost }},
		{"answer lost after a put", func(_ *world, f *mem.Fault) { f.After = errUnheard }},
	},
	mem.Get: {
		{"get fails", func(_ *world, f *mem.Fault) { f.Before = errLost }},
		{"get breaks at its end", func(_ *world, f *mem.Fault) { f.After = errLost }},
		{"get bent on the wire", func(_ *world, f *mem.Fault) { f.Bend = mem.Flipped(77) }},
	},
	mem.Stat: {{"stat fails", func(_ *world, f *mem.Fault) { f.Before = errLost }}},
	mem.List: {
		{"list fails", func(_ *world, f *mem.Fault) { f.Before = errLost }},
		{"list late", func(w *world, f *mem.Fault) { f.Hide = w.store.fresh }},
	},
	mem.Delete: {
		{"delete refused", func(_ *world, f *mem.Fault) { f.Before = errLost }},
		{"answer lost after a delete", func(_ *world, f *mem.Fault) { f.After = errUnheard }},
	},
}

// rot damages an object of a job's newest checkpoint, once a job: an older one is
// still good, and the job has to find that.
func (w *world) rot() {
	done := map[events.JobID]bool{}
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.rot, "rot", n)); n++ {
		turn("rot")
		if !w.chaotic() {
			return
		}
		id := w.order[w.chance.below(len(w.order), "rotten job", n)]
		name := w.newest(id, w.chance.hits(0.3, "rotten manifest", n))
		if name == "" || done[id] {
			continue
		}
		done[id] = true
		w.hits.add("store: object damaged")
		w.trace("of job %s object %s is damaged", id, name)
		w.mu.Lock()
		w.damaged[id] = true
		w.mu.Unlock()
		w.store.damage(name, mem.Flipped(w.chance.below(1000, "bit", n)))
	}
}

// ruin damages every checkpoint that a job has and takes its machine, once a job.
func (w *world) ruin() {
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.ruin, "ruin", n)); n++ {
		turn("ruin")
		if !w.chaotic() {
			return
		}
		for _, i := range w.fake.Live() {
			id := events.LeaseID(i.Token).Job()
			prefix := checkpoint.Prefix(string(org), string(id))
			names := slices.DeleteFunc(w.store.Names(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
			if w.ruined[id] || len(names) == 0 || i.Foreign {
				continue
			}
			w.mu.Lock()
			w.ruined[id] = true
			w.mu.Unlock()
			w.fake.Kill(i.Instance, "seller")
			for k, name := range w.store.Names() {
				if strings.HasPrefix(name, prefix) {
					w.store.damage(name, []func([]byte) []byte{mem.Flipped(w.chance.below(1000, "ruin", k)), func([]byte) []byte { return nil }}[w.chance.below(2, "ruin how", k)])
				}
			}
			w.hits.add("store: every checkpoint of a job lost")
			w.trace("every checkpoint of job %s is lost", id)
		}
	}
}

// newest names an object of a job's newest checkpoint, its manifest or its
// weights; "" if there are not two older ones.
func (w *world) newest(id events.JobID, manifest bool) string {
	prefix := checkpoint.Prefix(string(org), string(id))
	names := slices.DeleteFunc(w.store.Names(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	if len(names) < 3 {
		return ""
	}
	name := slices.Max(names)
	if manifest {
		return name
	}
	r, err := w.store.Clone(mem.Config{}).Get(w.ctx, name)
	if err != nil {
		return ""
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return ""
	}
	m, err := checkpoint.Decode(data)
	if err != nil {
		return ""
	}
	for _, f := range m.Files {
		if strings.HasSuffix(f.Path, weightsName) && len(f.Chunks) > 0 {
			c := f.Chunks[0]
			return checkpoint.EpochPrefix(string(org), string(id), cmp.Or(c.Epoch, m.Epoch)) + cmp.Or(c.Pack, c.Hash)
		}
	}
	return ""
}
