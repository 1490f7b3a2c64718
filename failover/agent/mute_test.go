package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// stuck is a service that answers when it is no longer asked.
type stuck struct{ Mute }

func (*stuck) Warning(ctx context.Context) (*Warning, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// said is a service with one answer.
type said struct {
	Mute
	w   *Warning
	err error
}

func (s *said) Warning(context.Context) (*Warning, error) { return s.w, s.err }

func TestSignalled(t *testing.T) {
	soon := &Warning{Action: "terminate", Source: "gcp", Left: time.Second, Known: true}
	late := &Warning{Action: "terminate", Source: "gcp", Left: time.Minute, Known: true}
	for _, tc := range []struct {
		name   string
		before Metadata
		after  string // whose warning, once the signal came
	}{
		{"a service that knows nothing", &said{}, "signal"},
		{"a service that fails", &said{err: errors.New("status 503")}, "signal"},
		{"a service that knows it to be sooner", &said{w: soon}, "gcp"},
		{"a service that knows it to be later", &said{w: late}, "signal"},
		{"a service that hangs", &stuck{}, "signal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			received := make(chan struct{})
			m := NewSignalled(tc.before, 30*time.Second, received)
			now := time.Hour
			m.elapsed = func() time.Duration { return now }
			if s, ok := tc.before.(*said); ok {
				if w, err := m.Warning(t.Context()); w != s.w || err != s.err {
					t.Errorf("before the signal: %+v, %v", w, err)
				}
			}
			time.AfterFunc(20*time.Millisecond, func() { close(received) })
			if _, hangs := tc.before.(*stuck); !hangs {
				<-received
			}
			w, err := m.Warning(t.Context())
			if err != nil || w == nil || w.Source != tc.after {
				t.Fatalf("%+v, %v, want a warning of %s", w, err, tc.after)
			}
			now += 10 * time.Second
			if w, err := m.Warning(t.Context()); err != nil || w.Source == "signal" && w.Left != 20*time.Second {
				t.Errorf("ten seconds later: %+v, %v", w, err)
			}
		})
	}
}

func TestMute(t *testing.T) {
	m := &Mute{ID: "pod-1"}
	if w, err := m.Warning(t.Context()); w != nil || err != nil {
		t.Errorf("%+v, %v", w, err)
	}
	if id, err := m.Instance(t.Context()); id != events.InstanceID("pod-1") || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	if data, err := m.UserData(t.Context()); len(data) > 0 || err == nil {
		t.Errorf("%q", data)
	}
}
