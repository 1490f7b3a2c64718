package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/framework"
)

// found is a complete checkpoint, held so that the trainer cannot delete it.
type found struct {
	name  string // as the job calls it
	step  int64
	dir   string // a directory of ours, on trust
	sub   string // the tree in it
	ours  bool   // sub is a copy of ours, to be removed
	size  int64
	need  int64         // at most so many bytes of it are not in the store
	gone  int64         // bytes of it that were sent before it was complete
	ahead int64         // bytes on their way then
	tried int64         // and by uploads that were not finished
	save  time.Duration // the trainer's own writing
	at    time.Duration // when it was found complete
	seen  time.Duration // until then, from when it was first seen
	kind  string        // the framework
	rank  func(path string) int
}

// hold keeps a complete candidate alive until it is uploaded. On a file system
// without hard links it is uploaded from where it lies, at the trainer's mercy.
func (w *watcher) hold(c framework.Candidate) (*found, error) {
	f := &found{name: c.Name, step: w.stepOf(c), dir: w.root.Name(), sub: path.Join(own, c.Name), ours: true, kind: w.adapter.Name(), rank: w.adapter.Rank}
	err := w.adapter.Hold(w.root, c, f.sub)
	if errors.Is(err, errors.ErrUnsupported) && c.Files == nil {
		f.sub, f.ours, err = c.Name, false, nil
	}
	if err != nil {
		return nil, err
	}
	f.size, f.save, err = measure(filepath.Join(f.dir, f.sub), filepath.Join(f.dir, c.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.release(w.a.cfg.Log)
		return nil, fmt.Errorf("measuring %q: %w", c.Name, err)
	}
	f.need = f.size
	if forecast, err := w.a.engine.Predict(f.request(0)); err == nil {
		f.need = forecast.Unsent
	}
	f.at = w.a.now()
	return f, nil
}

// request is how it is saved, in an epoch.
func (f *found) request(epoch int) checkpoint.SaveRequest {
	return checkpoint.SaveRequest{Dir: f.dir, Sub: f.sub, As: f.name, Epoch: epoch, Step: f.step, Framework: f.kind, Save: f.save, First: f.rank}
}

// release gives a checkpoint up to the trainer. It may be called on nil.
func (f *found) release(log *zap.Logger) {
	if f == nil || !f.ours {
		return
	}
	root, err := os.OpenRoot(f.dir)
	if err == nil {
		err = errors.Join(framework.Release(root, f.sub), root.Close())
	}
	if err != nil {
		log.Warn("releasing a held checkpoint", zap.String("checkpoint", f.name), zap.Error(err))
	}
}
