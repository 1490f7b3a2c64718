package failover

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// heartbeat remembers the newest of each of a job's epochs.
func (s *Service) heartbeat(job events.JobID, epoch int, hb events.Heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard[job] == nil {
		s.heard[job] = map[int]Heard{}
	}
	old := s.heard[job][epoch]
	if hb.At.Before(old.At) {
		return // late: a newer one has been heard
	}
	s.heard[job][epoch] = Heard{Step: max(hb.Step, old.Step), At: hb.At}
}

func (s *Service) heardFrom(job events.JobID, epoch int) Heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[job][epoch]
}

// heardLast is heardFrom with what the bus keeps: a service that has just
// started has heard nothing yet, and another replica's agent may have spoken since.
func (s *Service) heardLast(ctx context.Context, j Job, epoch int) Heard {
	if hb, ok := s.signal(ctx, j, epoch); ok {
		s.heartbeat(j.ID, epoch, hb)
	}
	return s.heardFrom(j.ID, epoch)
}

// signal asks the bus for the newest heartbeat of an epoch. Nobody waits for it long.
func (s *Service) signal(ctx context.Context, j Job, epoch int) (events.Heartbeat, bool) {
	if epoch < 1 {
		return events.Heartbeat{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timers.Heartbeat)
	defer cancel()
	hb, ok, err := s.cfg.Signals.Signal(ctx, j.Attribution.Org, j.ID, epoch)
	if err != nil {
		s.cfg.Logger.Warn("newest heartbeat not read", zap.String("job", string(j.ID)), zap.Int("epoch", epoch), zap.Error(err))
	}
	return hb, ok && err == nil
}

// silence returns Silent or Returned when what was heard of the current agent says so, else nil.
func (s *Service) silence(j Job, now time.Time, h Heard) Input {
	c := j.Current
	if c == nil || j.Over() {
		return nil
	}
	if c.Silent {
		if !h.At.IsZero() && now.Sub(h.At) < s.cfg.Timers.Hold {
			return Returned{Epoch: j.Epoch}
		}
		return nil
	}
	last := h.At
	for _, t := range []time.Time{c.Placed, s.cfg.Healthy()} {
		if t.After(last) {
			last = t
		}
	}
	if now.Sub(last) <= s.cfg.Timers.Lost {
		return nil
	}
	if h.At.IsZero() {
		h.At = last
	}
	return Silent{Epoch: j.Epoch, Heard: h}
}
