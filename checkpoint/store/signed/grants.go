package signed

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/spotferry/spotferry/checkpoint"
)

// grants gets accesses and keeps them.
//
// It has no goroutine. Of those who wait for an access of a verb one has the
// turn: it asks for as many as there are wanted, its own among them sooner or
// later, and hands the turn on.
type grants struct {
	cfg Config

	mu     sync.Mutex
	kept   map[key]checkpoint.Access
	order  []key // of kept, oldest first; may have keys that are kept no more
	queues map[checkpoint.Verb]*queue
}

// key is what an access is good for. Where a service signs sizes, an access to
// put one is refused for another.
type key struct {
	verb checkpoint.Verb
	checkpoint.Object
}

func keyOf(verb checkpoint.Verb, o checkpoint.Object) key {
	if verb != checkpoint.VerbPut {
		o.Size = 0
	}
	return key{verb, o}
}

// queue is what is wanted of one verb.
type queue struct {
	turn    chan struct{} // has one token, or someone is asking
	waiting []*want
	byName  map[string]*want // of waiting
}

// want is an access that is wanted, by whoever waits for done.
type want struct {
	object checkpoint.Object
	done   chan struct{}
	access checkpoint.Access // once done
	err    error
}

func newGrants(cfg Config) *grants {
	return &grants{cfg: cfg, kept: map[key]checkpoint.Access{}, queues: map[checkpoint.Verb]*queue{}}
}

// get returns an access to an object: one that is kept, unless it must be fresh.
func (g *grants) get(ctx context.Context, verb checkpoint.Verb, o checkpoint.Object, fresh bool) (checkpoint.Access, error) {
	g.mu.Lock()
	if a, ok := g.fromKept(keyOf(verb, o)); ok && !fresh {
		g.mu.Unlock()
		return a, nil
	}
	q := g.queue(verb)
	w := q.want(o)
	g.mu.Unlock()
	for {
		select {
		case <-w.done:
			return w.access, w.err
		case <-ctx.Done():
			return checkpoint.Access{}, ctx.Err() // what is wanted stays so: another may wait for it
		case <-q.turn:
			g.ask(ctx, verb, q)
			q.turn <- struct{}{}
		}
	}
}

// expect wants accesses that nobody waits for yet.
func (g *grants) expect(verb checkpoint.Verb, objects []checkpoint.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queue(verb)
	for _, o := range objects {
		if _, ok := g.fromKept(keyOf(verb, o)); !ok {
			q.want(o)
		}
	}
}

func (g *grants) fromKept(k key) (checkpoint.Access, bool) {
	a, ok := g.kept[k]
	return a, ok && g.cfg.Now().Add(g.cfg.Margin).Before(a.Until)
}

func (g *grants) queue(verb checkpoint.Verb) *queue {
	q := g.queues[verb]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1), byName: map[string]*want{}}
		q.turn <- struct{}{}
		g.queues[verb] = q
	}
	return q
}

func (q *queue) want(o checkpoint.Object) *want {
	if w := q.byName[o.Name]; w != nil && w.object == o {
		return w
	}
	w := &want{object: o, done: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.byName[o.Name] = w
	return w
}

// ask asks for what is wanted. When the asker's own context ends the others'
// wishes stand: the next one asks.
func (g *grants) ask(ctx context.Context, verb checkpoint.Verb, q *queue) {
	g.mu.Lock()
	batch := q.waiting[:min(len(q.waiting), MaxBatch):min(len(q.waiting), MaxBatch)]
	q.waiting = q.waiting[len(batch):]
	g.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	objects := make([]checkpoint.Object, len(batch))
	for i, w := range batch {
		objects[i] = w.object
	}
	given, err := g.cfg.Granter.Grant(ctx, verb, objects)
	if err == nil && len(given) != len(batch) {
		err = fmt.Errorf("%d accesses for %d objects", len(given), len(batch))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		q.waiting = append(batch, q.waiting...)
		return
	}
	for i, w := range batch {
		if w.err = err; err == nil {
			w.access, w.err = given[i], fits(verb, given[i])
		}
		if w.err == nil {
			g.keep(keyOf(verb, w.object), w.access)
		}
		if q.byName[w.object.Name] == w {
			delete(q.byName, w.object.Name)
		}
		close(w.done)
	}
}

// fits checks that an access is to what was asked for, so that a wrong one is
// not taken for an answer of the service.
func fits(verb checkpoint.Verb, a checkpoint.Access) error {
	methods := map[checkpoint.Verb]string{checkpoint.VerbPut: http.MethodPut, checkpoint.VerbGet: http.MethodGet, checkpoint.VerbHead: http.MethodHead}
	if a.Method != methods[verb] {
		return fmt.Errorf("%w: granted a %q for a %s", checkpoint.ErrRefused, a.Method, verb)
	}
	return nil
}

// keep keeps an access, and lets go of the oldest when there are too many.
func (g *grants) keep(k key, a checkpoint.Access) {
	if _, ok := g.kept[k]; !ok {
		g.order = append(g.order, k)
	}
	g.kept[k] = a
	for len(g.order) > g.cfg.Keep {
		delete(g.kept, g.order[0])
		g.order = g.order[1:]
	}
}

// drop forgets an access that is used up or was refused.
func (g *grants) drop(verb checkpoint.Verb, o checkpoint.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.kept, keyOf(verb, o))
}
