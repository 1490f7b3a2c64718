package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Mute is a machine whose seller says nothing on it: it is just gone. What it was
// born with it was given in another way.
type Mute struct {
	Born Metadata          // user data and name, if there is such a service; nil: there is none
	ID   events.InstanceID // without Born; "": unknown
}

// Warning implements Metadata: there never is one.
func (*Mute) Warning(context.Context) (*Warning, error) { return nil, nil }

// UserData implements Metadata.
func (m *Mute) UserData(ctx context.Context) ([]byte, error) {
	if m.Born == nil {
		return nil, errors.New("this machine has no metadata service: give the bootstrap as a file")
	}
	return m.Born.UserData(ctx)
}

// Instance implements Metadata.
func (m *Mute) Instance(ctx context.Context) (events.InstanceID, error) {
	if m.Born == nil {
		return m.ID, nil
	}
	return m.Born.Instance(ctx)
}

// Signalled is a machine that is shut down in good order: a signal to the agent's
// process is a notice, besides what Metadata says.
type Signalled struct {
	Metadata
	notice   time.Duration
	received <-chan struct{}
	elapsed  func() time.Duration

	mu    sync.Mutex
	heard bool
	at    time.Duration
}

// NewSignalled returns m with the notice that received is closed for, so long
// before the machine's end.
func NewSignalled(m Metadata, notice time.Duration, received <-chan struct{}) *Signalled {
	return &Signalled{Metadata: m, notice: notice, received: received, elapsed: bootTime}
}

// Patience implements Patient.
func (s *Signalled) Patience() time.Duration {
	if p, ok := s.Metadata.(Patient); ok {
		return p.Patience()
	}
	return time.Second
}

// Hint implements Hinter.
func (s *Signalled) Hint(ctx context.Context) (string, error) {
	if h, ok := s.Metadata.(Hinter); ok {
		return h.Hint(ctx)
	}
	return "", nil
}

// Acknowledge implements Acknowledger.
func (s *Signalled) Acknowledge(ctx context.Context) (bool, error) {
	if k, ok := s.Metadata.(Acknowledger); ok {
		return k.Acknowledge(ctx)
	}
	return false, nil
}

// Warning implements Metadata. The signal is not kept waiting by a service that
// takes its time, nor taken back by one that knows nothing of it.
func (s *Signalled) Warning(ctx context.Context) (*Warning, error) {
	w, err := s.ask(ctx)
	own := s.own()
	if own == nil {
		return w, err
	}
	if w != nil && w.Known && w.Left < own.Left {
		return w, nil
	}
	return own, nil
}

// ask asks the service, until the signal comes.
func (s *Signalled) ask(ctx context.Context) (*Warning, error) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-s.received:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	return s.Metadata.Warning(ctx)
}

// own is the signal as a notice, nil before it came.
func (s *Signalled) own() *Warning {
	select {
	case <-s.received:
	default:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.heard {
		s.heard, s.at = true, s.elapsed()
	}
	return &Warning{Action: "terminate", Source: "signal", Left: s.notice - (s.elapsed() - s.at), Known: true}
}
