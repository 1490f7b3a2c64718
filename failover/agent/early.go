package agent

import (
	"context"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/framework"
)

// ready are files that are finished, of a checkpoint that is not.
type ready struct {
	name  string // of the checkpoint
	req   checkpoint.SaveRequest
	files []readyFile // in the tree of req, what matters most first
}

// readyFile is a file as it looked.
type readyFile struct {
	path string
	size int64
	at   time.Time // modified
}

// early is what is sent of a checkpoint while the trainer still writes it, so
// that at a notice only the tail is left.
type early struct {
	of     string // checkpoint
	step   int64
	tried  map[readyFile]bool
	sent   map[string]int64 // path to size
	flight *flight          // what is under way
}

type flight struct {
	cancel context.CancelFunc
	transfer
}

// smallest is the size from which a file is worth sending ahead: smaller ones are packed.
const smallest = 1 << 20

// readyFiles asks which files of a candidate are finished. A set's lie in the
// root itself. In a hurry, after a notice, every file will do that nobody writes
// to any more: a wrong guess costs a link that has nothing better to do.
func (w *watcher) readyFiles(c framework.Candidate) *ready {
	var paths []string
	var err error
	if w.hurry.Load() {
		paths, err = w.closedFiles(c)
	} else {
		paths, err = w.adapter.Ready(w.root, c)
	}
	if err != nil {
		return nil // whatever is wrong with it, Complete says so
	}
	r := &ready{name: c.Name, req: checkpoint.SaveRequest{Dir: w.root.Name(), Step: c.Step, First: w.adapter.Rank}}
	for _, p := range paths {
		info, err := w.root.Lstat(p)
		if err == nil && info.Mode().IsRegular() && info.Size() >= smallest {
			r.files = append(r.files, readyFile{p, info.Size(), info.ModTime()})
		}
	}
	if len(r.files) == 0 {
		return nil
	}
	return r
}

// closedFiles lists the files of a candidate that are not open for writing.
func (w *watcher) closedFiles(c framework.Candidate) (paths []string, err error) {
	open, err := w.writing(w.root)
	if err != nil {
		return nil, err
	}
	tops := c.Files
	if tops == nil {
		tops = []string{c.Name}
	}
	for _, top := range tops {
		err := fs.WalkDir(w.root.FS(), top, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && !slices.Contains(open, p) && !partial(p) {
				paths = append(paths, p)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return w.adapter.Rank(a) - w.adapter.Rank(b) })
	return paths, nil
}

// partial reports whether a file's name says that it will have another.
func partial(p string) bool {
	name := path.Base(filepath.ToSlash(p))
	return strings.HasSuffix(name, ".tmp") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "tmp")
}

// shipEarly sends what is new of ready files beside the loop, one batch at a
// time, unless something complete is to be sent.
func (a *agent) shipEarly(r *ready) {
	s := &a.ship
	e := &s.early
	if r == nil || e.flight != nil || s.now != nil || s.next != nil && !a.standsBack() {
		return
	}
	if e.of != r.name {
		e.of, e.step, e.tried, e.sent = r.name, r.req.Step, map[readyFile]bool{}, map[string]int64{}
	}
	var paths []string
	for _, f := range r.files {
		if !e.tried[f] {
			e.tried[f] = true
			paths = append(paths, f.path)
		}
	}
	if len(paths) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(a.ctx)
	own := &flight{cancel, a.transfers(a.now())}
	e.flight, r.req.Epoch = own, a.epoch
	a.working.Go(func() {
		defer cancel()
		done, err := a.engine.Preship(ctx, r.req, paths)
		if err != nil && ctx.Err() == nil {
			a.cfg.Log.Warn("shipping ahead", zap.String("checkpoint", r.name), zap.Error(err))
		} else if len(done) > 0 {
			a.cfg.Log.Info("shipped ahead", zap.String("checkpoint", r.name), zap.Strings("files", done))
		}
		up := sent{a.engine.Progress().Sent - own.was, a.now() - own.began}
		a.post(func() { a.shippedEarly(own, r, done, up, err) })
	})
}

// shippedEarly takes the outcome of a batch.
func (a *agent) shippedEarly(own *flight, r *ready, done []string, up sent, err error) {
	e := &a.ship.early
	if e.flight != own {
		return // given up
	}
	e.flight = nil
	for _, f := range r.files {
		if slices.Contains(done, f.path) {
			e.sent[f.path] = f.size
		}
	}
	if err == nil && up.bytes >= telling && a.ship.now == nil { // else the upload measures both
		a.sentIn(own.transfer, up)
	}
}

// goneOf is how many bytes of a checkpoint have been sent ahead, and how many are
// on their way.
func (a *agent) goneOf(name string) (gone, ahead int64) {
	e := &a.ship.early
	if e.of != name || name == "" {
		return 0, 0
	}
	for _, size := range e.sent {
		gone += size
	}
	if e.flight != nil {
		here := a.carried(e.flight.transfer)
		gone, ahead = gone+here, a.engine.Progress().Sent-e.flight.was-here
	}
	return gone, ahead
}

// finish ends with a checkpoint that is in the store.
func (e *early) finish(name string) {
	if e.of == name {
		e.stop()
	}
}

// stop gives up what is under way.
func (e *early) stop() {
	if e.flight != nil {
		e.flight.cancel()
	}
	*e = early{}
}
