package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/framework"
)

// look is what one look at the machine's disk showed.
type look struct {
	began     time.Duration
	progress  progress
	progressd bool   // there is progress
	found     *found // a complete checkpoint, newer than any before
	undecided bool   // there is a newer one that is not complete
	ready     *ready // what of that is finished
	full      bool   // it could not be held because the disk is full
	broken    error  // the disk cannot be read or written
	signal    string // that the framework saves on, "": none is known
	why       string // it does
	below     int64  // step of a complete checkpoint below the one restored, made since; 0: none
}

// watcher looks at the checkpoint directory of one trainer. It has a goroutine
// of its own, since a disk can be slow.
type watcher struct {
	a       *agent
	root    *os.Root
	adapter framework.Adapter
	process Process                // set before the first look
	newest  int64                  // step of the newest one found or restored
	from    int64                  // step of the one restored, 0 for a fresh start
	kind    atomic.Pointer[string] // the framework, once it is known
	before  map[string]bool
	first   map[string]time.Duration // when candidates not complete yet were first seen
	said    string                   // the last trouble logged
	hurry   atomic.Bool              // the machine is about to be taken
	steps   toldSteps
	cut     atomic.Bool // the trainer was killed, or crashed: nothing was finished by it
}

func newWatcher(a *agent, p prepared) (*watcher, error) {
	root, err := os.OpenRoot(a.place.checkpoints)
	if err != nil {
		return nil, fmt.Errorf("watching for checkpoints: %w", err)
	}
	w := &watcher{a: a}
	if p.watch != nil {
		w = p.watch
	}
	w.root, w.newest, w.before, w.first = root, -1, map[string]bool{}, map[string]time.Duration{}
	if p.resume != "" {
		w.newest, w.from = p.from, p.from
	}
	// What lies there before the trainer starts is not its doing.
	if w.adapter == nil {
		w.adapter, err = a.adapter(root, w, "")
	}
	if err == nil && w.adapter != nil {
		w.know()
		var cs []framework.Candidate
		cs, err = w.adapter.Candidates(root)
		for i, c := range cs {
			w.before[w.identity(c)] = true
			if i == 0 && c.Ordinal {
				w.newest, w.from = c.Step, 0 // what is compared here is the layout's own order
			}
		}
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return w, nil
}

// know lets the loop know the framework.
func (w *watcher) know() {
	kind := w.adapter.Name()
	w.kind.Store(&kind)
}

// identity tells a checkpoint from a later one of the same name.
func (w *watcher) identity(c framework.Candidate) string {
	first := c.Name
	if len(c.Files) > 0 {
		first = c.Files[0]
	}
	at, _ := born(filepath.Join(w.root.Name(), first))
	return fmt.Sprint(c.Name, at, c.Step) // one that is written over in place keeps its birth
}

// writing returns what the trainer has open for writing, below the root.
func (w *watcher) writing(*os.Root) ([]string, error) {
	if w.process == nil {
		return nil, nil
	}
	files, err := w.process.Writing(w.root.Name())
	for i, f := range files {
		if rel, err := filepath.Rel(w.root.Name(), f); err == nil {
			files[i] = rel
		}
	}
	return files, err
}

// run looks until ctx ends.
func (w *watcher) run(ctx context.Context) {
	defer w.root.Close()
	tick := time.NewTicker(w.a.cfg.WatchEvery)
	defer tick.Stop()
	for {
		w.a.cfg.Turn("watch")
		l := w.look()
		w.a.post(func() { w.a.looked(w, l) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// follow reads the trainer's progress until ctx ends. It waits for no other disk work.
func (w *watcher) follow(ctx context.Context) {
	tick := time.NewTicker(w.a.cfg.ReadEvery)
	defer tick.Stop()
	var changed <-chan struct{} // nil: looking has to do
	if w.a.cfg.Changes != nil {
		var err error
		if changed, err = w.a.cfg.Changes(ctx, filepath.Dir(w.a.place.progress)); err != nil {
			w.a.cfg.Log.Warn("progress is only looked at now and then", zap.Error(err))
		}
	}
	var last os.FileInfo // a trainer may replace the file twice within one tick of its clock
	for {
		select {
		case <-ctx.Done():
			for changed != nil {
				if _, more := <-changed; !more {
					changed = nil
				}
			}
			return
		case _, more := <-changed:
			if !more {
				changed = nil
			}
		case <-tick.C:
		}
		info, err := os.Lstat(w.a.place.progress)
		if err != nil || last != nil && os.SameFile(info, last) && info.ModTime().Equal(last.ModTime()) {
			continue
		}
		at := w.a.now()
		if p, ok := readProgress(w.a.place.progress); ok {
			last = info
			w.steps.tell(info.ModTime(), p.Step)
			w.a.post(func() { w.a.progressed(w, p, at) })
		}
	}
}

func (w *watcher) look() look {
	l := look{began: w.a.now()}
	l.progress, l.progressd = readProgress(w.a.place.progress)
	err := w.find(&l)
	if w.adapter != nil {
		l.signal, l.why = w.adapter.Signal()
	}
	said := ""
	if err != nil {
		said = err.Error()
		l.full = noRoom(err)
		if diskFault(err) {
			l.broken = err
		}
	}
	if said != "" && said != w.said {
		w.a.cfg.Log.Warn("looking for checkpoints", zap.Error(err))
	}
	w.said = said
	return l
}

// find takes the newest complete candidate that is newer than the last.
func (w *watcher) find(l *look) (err error) {
	if w.adapter == nil {
		if w.adapter, err = w.a.adapter(w.root, w, ""); err != nil || w.adapter == nil {
			return err
		}
		w.know()
	}
	cs, err := w.adapter.Candidates(w.root)
	l.below = w.lookBelow(cs)
	for _, c := range cs {
		if c.Step <= w.newest {
			break // the newest come first
		}
		id := w.identity(c)
		if w.before[id] {
			continue
		}
		if _, ok := w.first[id]; !ok {
			w.first[id] = l.began
		}
		ok, _, err := w.adapter.Complete(w.root, c)
		if ok && err == nil {
			l.found, err = w.hold(c)
		}
		if l.found != nil {
			w.newest, l.found.seen = c.Step, l.found.at-w.first[id]
			clear(w.first)
			return nil
		}
		if err == nil || !errors.Is(err, checkpoint.ErrVanished) {
			l.undecided = true
			if l.ready == nil && err == nil {
				l.ready = w.readyFiles(c)
			}
		}
		if err != nil && !errors.Is(err, checkpoint.ErrVanished) && !errors.Is(err, checkpoint.ErrChanged) {
			return err
		}
	}
	return err
}
