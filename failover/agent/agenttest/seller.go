package agenttest

import (
	"context"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
)

// Seller is agent.Metadata with a deadline that stays where it is.
type Seller struct {
	Now func() time.Duration

	mu      sync.Mutex
	warning *agent.Warning
	by      time.Duration
	err     error
}

// Warn gives notice that the machine is taken after so long.
func (s *Seller) Warn(in time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warning, s.by = &agent.Warning{Action: "terminate", Source: "imds", Known: true}, s.Now()+in
}

// Withdraw takes it back.
func (s *Seller) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warning = nil
}

// Fail has every question answered with err; nil ends that.
func (s *Seller) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Warning implements agent.Metadata.
func (s *Seller) Warning(context.Context) (*agent.Warning, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.warning == nil {
		return nil, s.err
	}
	w := *s.warning
	w.Left = s.by - s.Now()
	return &w, nil
}

// UserData implements agent.Metadata.
func (s *Seller) UserData(context.Context) ([]byte, error) { return nil, ErrCut }

// Instance implements agent.Metadata.
func (s *Seller) Instance(context.Context) (events.InstanceID, error) { return "i-1", nil }
