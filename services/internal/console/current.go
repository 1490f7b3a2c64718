package console

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// patience is how long a read waits for the model. What it then shows may be a moment old.
const patience = 2 * time.Second

// current waits until the model has come as far as the log was when the request
// arrived. A position that is not reached within patience is not waited for again: what
// stands there is no event, and will never be folded.
func (s *Server) current(ctx context.Context) {
	if s.cfg.Newest == nil {
		return
	}
	newest, err := s.cfg.Newest(ctx)
	if err != nil {
		s.cfg.Logger.Warn("answering from what is known: the log does not say how far it is", zap.Error(err))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !s.model.await(ctx, newest) {
		s.model.mu.Lock()
		defer s.model.mu.Unlock()
		s.model.pass(newest)
	}
}

// await returns true once everything up to a position has been folded, false when ctx ends before.
func (m *model) await(ctx context.Context, position uint64) bool {
	for {
		m.mu.Lock()
		seen, passed := m.seen, m.passed
		m.mu.Unlock()
		if seen >= position {
			return true
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return false
		}
	}
}

// pass notes how far the model has come. The caller has its lock.
func (m *model) pass(position uint64) {
	if position <= m.seen {
		return
	}
	m.seen = position
	close(m.passed)
	m.passed = make(chan struct{})
}
