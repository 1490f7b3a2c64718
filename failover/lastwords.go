package failover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// LastWords keeps what is known of an epoch that was left in trouble. A second
// one for the same epoch changes nothing.
type LastWords struct{ events.JobLastWords }

// What is kept of an epoch's output.
const (
	lastLines = 200
	lastBytes = 64 << 10
	lineBytes = 2 << 10
)

func (s *stepper) lastWords(in LastWords) {
	if s.j.Closed || !slices.ContainsFunc(s.j.Unspoken, func(l Left) bool { return l.Epoch == in.Epoch }) {
		return
	}
	in.Lines = lastOf(in.Lines)
	s.record(in.JobLastWords)
}

func foldLastWords(j Job, f events.JobLastWords) Job {
	j.Unspoken = slices.DeleteFunc(slices.Clone(j.Unspoken), func(l Left) bool { return l.Epoch == f.Epoch })
	j.Spoken = append(slices.Clone(j.Spoken), f.Epoch)
	return j
}

// lastOf bounds what is kept of an output that may be anything: the last lines,
// each cut, as valid text.
func lastOf(lines []events.LogLine) []events.LogLine {
	lines = slices.Clone(lines[max(len(lines)-lastLines, 0):])
	size, from := 0, 0
	for i, l := range slices.Backward(lines) {
		text := strings.ToValidUTF8(l.Text, "\uFFFD")
		if len(text) > lineBytes {
			text = strings.ToValidUTF8(text[:lineBytes], "")
		}
		lines[i].Text, lines[i].Stream = text, strings.ToValidUTF8(l.Stream[:min(len(l.Stream), 16)], "")
		if size += len(text); size > lastBytes {
			from = i + 1
			break
		}
	}
	return lines[from:]
}

// flatten joins runs of output as they arrived; of lines told twice one stays.
func flatten(batches []events.LogBatch) []events.LogLine {
	var out []events.LogLine
	next := int64(0)
	for _, b := range batches {
		skip := max(min(next-b.First, int64(len(b.Lines))), 0)
		out = append(out, b.Lines[skip:]...)
		next = max(next, b.First+int64(len(b.Lines)))
	}
	return out
}

// due says whether it is time to take an epoch's last words: its last lines have
// had a heartbeat to arrive, or the job will not wait for them.
func (l Left) due(j Job, now time.Time, heartbeat time.Duration) bool {
	return j.Over() || now.Sub(l.At) >= heartbeat
}

// listen takes the last words that are due, for half a heartbeat: after a storm
// there are many, and nothing else may wait for them. The rest is for the next round.
func (s *Service) listen(ctx context.Context) {
	began := s.cfg.Now().Control
	for _, id := range s.jobs() {
		j, _ := s.cfg.Book.Cached(id)
		for _, l := range j.Unspoken {
			now := s.cfg.Now().Control
			if now.Sub(began) > s.cfg.Timers.Heartbeat/2 || ctx.Err() != nil {
				return
			}
			if j.Closed || !l.due(j, now, s.cfg.Timers.Heartbeat) {
				continue
			}
			if err := s.keepLastWords(ctx, j, l, now); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("last words not kept yet", zap.String("job", string(id)), zap.Int("epoch", l.Epoch), zap.Error(err))
			}
		}
	}
}

// keepLastWords appends the last words of an epoch that a job has left in
// trouble, before logs and heartbeats are forgotten. Replicas may do it at once: one is kept.
func (s *Service) keepLastWords(ctx context.Context, j Job, l Left, now time.Time) error {
	words := events.JobLastWords{Epoch: l.Epoch, Lease: l.Lease}
	if hb, ok := s.signal(ctx, j, l.Epoch); ok {
		words.Heartbeat = &hb
	}
	var err error
	if words.Lines, err = s.lines(ctx, j, l); err != nil {
		if now.Sub(l.At) < s.cfg.Timers.Lost && !j.Over() {
			return err
		}
		s.cfg.Logger.Warn("last words without the log", zap.String("job", string(j.ID)), zap.Int("epoch", l.Epoch), zap.Error(err))
	}
	return s.apply(ctx, j.ID, LastWords{words})
}

func (s *Service) lines(ctx context.Context, j Job, l Left) ([]events.LogLine, error) {
	if s.cfg.Logs == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timers.Heartbeat)
	defer cancel()
	batches, err := s.cfg.Logs.ReadLog(ctx, j.Attribution.Org, j.ID, l.Epoch, time.Time{}, lastLines)
	if err != nil {
		return nil, fmt.Errorf("reading the last lines of epoch %d: %w", l.Epoch, err)
	}
	return flatten(batches), nil
}
