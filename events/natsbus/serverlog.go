package natsbus

import (
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap"
)

// serverLog takes the server's lines into zap and keeps the first fatal one,
// which the server reports in no other way.
type serverLog struct {
	log   *zap.Logger
	mu    sync.Mutex
	first string
	stuck bool
}

const serverLine = "bus server"

func text(format string, v []any) zap.Field { return zap.String("text", fmt.Sprintf(format, v...)) }

// Noticef is chatter at start and stop.
func (s *serverLog) Noticef(format string, v ...any) { s.log.Debug(serverLine, text(format, v)) }

// Warnf may concern an operator.
func (s *serverLog) Warnf(format string, v ...any) { s.log.Warn(serverLine, text(format, v)) }

// Errorf concerns an operator.
func (s *serverLog) Errorf(format string, v ...any) {
	s.log.Error(serverLine, text(format, v))
	if line := fmt.Sprintf(format, v...); strings.Contains(line, "no space left on device") || strings.Contains(line, "failed to store a msg") {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stuck = true
	}
}

// Debugf is not asked for.
func (s *serverLog) Debugf(format string, v ...any) {}

// Tracef is not asked for.
func (s *serverLog) Tracef(format string, v ...any) {}

// Fatalf means that the server cannot run; it does not exit.
func (s *serverLog) Fatalf(format string, v ...any) {
	s.log.Error(serverLine, text(format, v))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == "" {
		s.first = fmt.Sprintf(format, v...)
	}
}

func (s *serverLog) fatal() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

func (s *serverLog) failedToStore() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stuck
}

// explain adds the remedy to the fatal lines that people meet.
func explain(fatal string) error {
	switch {
	case strings.Contains(fatal, "address already in use"):
		return fmt.Errorf("%s: choose another port, or stop what uses it", fatal)
	case strings.Contains(fatal, "no space left"):
		return fmt.Errorf("%w: %s: make room and start again", ErrFull, fatal)
	case strings.Contains(fatal, "permission denied"), strings.Contains(fatal, "read-only file system"):
		return fmt.Errorf("%s: the directory must be writable by this user", fatal)
	}
	return fmt.Errorf("%s", fatal)
}
