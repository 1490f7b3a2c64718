package console

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

func TestAReadShowsWhatStoodInTheLogWhenItCame(t *testing.T) {
	for _, tc := range []struct {
		name   string
		newest uint64
		err    error
		folded time.Duration // when the model comes that far; negative: never
		want   time.Duration // how long the read waits
	}{
		{"at once when the model has it", 5, nil, 0, 0},
		{"after a moment when another replica wrote it", 9, nil, 50 * time.Millisecond, 50 * time.Millisecond},
		{"not for ever when what stands there is no event", 9, nil, -1, patience},
		{"at once when the log does not answer", 0, errors.New("away"), -1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Newest: func(context.Context) (uint64, error) { return tc.newest, tc.err }, Logger: zap.NewNop()})
				reach := func(n uint64) {
					s.model.mu.Lock()
					defer s.model.mu.Unlock()
					s.model.pass(n)
				}
				reach(5)
				if tc.folded > 0 {
					go func() { time.Sleep(tc.folded); reach(tc.newest) }()
				}
				began := time.Now()
				s.current(t.Context())
				if waited := time.Since(began); waited != tc.want {
					t.Errorf("waited %s, want %s", waited, tc.want)
				}
				began = time.Now()
				s.current(t.Context())
				if waited := time.Since(began); waited != 0 {
					t.Errorf("waited %s again", waited)
				}
			})
		})
	}
}
