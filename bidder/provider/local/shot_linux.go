package local

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/trace"
)

// shot is a kill that waits for a save. It strikes from a goroutine of its own,
// within microseconds of the kernel's word, and only then tells the host.
type shot struct {
	reclaim trace.Reclaim
	group   cgroup
	saves   *saveWatch
	fired   atomic.Bool
	struck  chan strike

	mu      sync.Mutex
	targets []process // as last looked up: a look takes longer than a save
}

// strike is a shot that was fired.
type strike struct {
	save   string
	offset time.Duration
	missed int
}

const defaultSaveWait = 30 * time.Second

// aim begins to wait for a save.
func (h *host) aim(r trace.Reclaim, now time.Time) {
	saves, err := newSaveWatch(h.machine())
	wait := r.SaveWait
	if wait <= 0 {
		wait = defaultSaveWait
	}
	h.insert(action{at: now.Add(wait), do: lapse, reclaim: r})
	if err != nil {
		h.log.Warn("saves cannot be seen", zap.Error(err)) // the kill comes when the wait is over
		return
	}
	h.shot = &shot{reclaim: r, group: h.group, saves: saves, struck: make(chan strike, 1)}
	h.shot.look()
	go h.shot.wait()
}

// wait fires into the first save that is not over before the offset. A save that
// is too short halves the offset for the next.
func (s *shot) wait() {
	defer s.saves.close()
	offset := s.reclaim.SaveOffset
	for missed := 0; ; missed++ {
		save, err := s.saves.next()
		if err != nil {
			return
		}
		time.Sleep(offset)
		if !saved(save) {
			s.fire()
			s.struck <- strike{save, offset, missed}
			return
		}
		offset /= 2
	}
}

func (s *shot) fire() {
	s.fired.Store(true)
	s.group.kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.targets {
		_ = signalTo(p, syscall.SIGKILL) // whoever is missed is killed when the machine is cleared
	}
}

// look finds out whom to hit.
func (s *shot) look() {
	found, err := below(syscall.Getpid())
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.targets = found
}

// hit is the end of a machine that was shot at.
func (h *host) hit(s strike) *verdict {
	now := h.now()
	row := h.row(h.shot.reclaim, now)
	row.DrawnAt = fmt.Sprintf("save+%v", s.offset)
	h.log.Info("killed in a save", zap.String("save", s.save), zap.Duration("offset", s.offset), zap.Int("missed", s.missed))
	return &verdict{by: endedBySeller, detail: "reclaimed, " + string(h.shot.reclaim.Kind), end: h.Clock.Market(now), row: &row}
}
