package agent

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/spotferry/spotferry/checkpoint/framework"
)

// toldSteps are the newest steps that a trainer told, with when it wrote them by
// the clock of its file system. A layout that numbers its saves and not its steps
// gets its steps from there.
type toldSteps struct {
	mu   sync.Mutex
	told []toldStep
	last int64 // given out, so that steps never fall from save to save
}

type toldStep struct {
	at   time.Time
	step int64
}

func (s *toldSteps) tell(at time.Time, step int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 4096
	if len(s.told) == most {
		s.told = append(s.told[:0], s.told[most/2:]...)
	}
	s.told = append(s.told, toldStep{at, step})
}

// before returns the step told last before a time, or false. It is that of a save
// begun then, or one less of a trainer that tells a step after saving it.
func (s *toldSteps) before(at time.Time) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.told) - 1; i >= 0; i-- {
		if t := s.told[i]; !t.at.After(at) {
			s.last = max(s.last, t.step)
			return s.last, true
		}
	}
	return 0, false
}

// begun is when a save was begun, as far as the file system tells: a directory's
// birth, and of files that may be written over in place the first one's writing.
func (w *watcher) begun(c framework.Candidate) (time.Time, bool) {
	if len(c.Files) == 0 {
		return born(filepath.Join(w.root.Name(), c.Name))
	}
	info, err := w.root.Lstat(c.Files[0])
	if err != nil {
		return time.Time{}, false
	}
	return info.ModTime(), true
}

// stepOf is the step of a candidate in the trainer's own count; of a layout
// without steps whose trainer tells none either, its order among the saves.
func (w *watcher) stepOf(c framework.Candidate) int64 {
	if !c.Ordinal {
		return c.Step
	}
	if at, ok := w.begun(c); ok {
		if step, ok := w.steps.before(at); ok {
			return step
		}
	}
	return c.Step
}
