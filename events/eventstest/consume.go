package eventstest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// durable is what a named consumer remembers between its replicas and their lives.
type durable struct {
	next  uint64    // positions below it have been delivered at least once
	again []pending // to be delivered again
}

type pending struct {
	position uint64
	at       time.Time
}

// Consume implements events.Log. Replicas of one name share the events; within
// one Consume the handler runs one event at a time. An event whose handler
// failed or panicked, or whose consumer's context ended before the handler returned, is
// delivered again; later events may overtake it.
func (l *Log) Consume(ctx context.Context, sub events.Subscription, handle func(context.Context, events.Event) error) error {
	if len(sub.Filters) == 0 {
		return fmt.Errorf("consuming as %q: no filter given", sub.Name)
	}
	if sub.Name == "" {
		return l.consumePrivate(ctx, sub, handle)
	}
	for {
		m, ok := l.take(ctx, sub)
		if !ok {
			return nil
		}
		l.deliver(ctx, sub, m, handle)
	}
}

// Redeliver makes a durable consumer get everything it has had once more, as
// after a consumer that was deleted and made anew.
func (l *Log) Redeliver(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.streams {
		if d, ok := s.durables[name]; ok {
			d.next, d.again = 0, nil
		}
	}
	l.wake()
}

func (l *Log) deliver(ctx context.Context, sub events.Subscription, m stored, handle func(context.Context, events.Event) error) {
	e, err := m.decode()
	if err != nil {
		l.mu.Lock()
		l.dead = append(l.dead, m.Message)
		l.mu.Unlock()
		return
	}
	copies, taken := 0, false
	if f := l.currentFaults().Copies; f != nil {
		copies = f(sub.Name, e)
	}
	// Deferred, because a test may crash its service by a panic or runtime.Goexit in the handler.
	defer func() {
		if !taken || ctx.Err() != nil {
			l.bringBack(ctx, sub, m)
		}
	}()
	for range copies + 1 {
		if err = handle(ctx, e); err != nil || ctx.Err() != nil {
			return
		}
	}
	taken = true
}

func (l *Log) bringBack(ctx context.Context, sub events.Subscription, m stored) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.stream(sub.Filters[0]).durables[sub.Name]
	at := time.Now()
	if ctx.Err() == nil {
		at = at.Add(l.retry)
	}
	d.again = append(d.again, pending{m.position, at})
	l.wake()
}

// take waits for the next event of a durable consumer.
func (l *Log) take(ctx context.Context, sub events.Subscription) (stored, bool) {
	for {
		l.mu.Lock()
		m, ok, wait := l.due(sub)
		changed := l.changed
		l.mu.Unlock()
		if ctx.Err() != nil {
			if ok {
				l.putBack(sub, m)
			}
			return stored{}, false
		}
		if ok {
			return m, true
		}
		if !sleep(ctx, changed, wait) {
			return stored{}, false
		}
	}
}

func (l *Log) putBack(sub events.Subscription, m stored) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.stream(sub.Filters[0]).durables[sub.Name]
	d.again = append(d.again, pending{m.position, time.Time{}})
	l.wake()
}

// due returns the event to deliver now, or how long until one comes back (0: none does). The caller holds mu.
func (l *Log) due(sub events.Subscription) (stored, bool, time.Duration) {
	s := l.stream(sub.Filters[0])
	d, ok := s.durables[sub.Name]
	if !ok {
		d = &durable{}
		s.durables[sub.Name] = d
	}
	now, wait := time.Now(), time.Duration(0)
	for i, p := range d.again {
		if left := p.at.Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		d.again = slices.Delete(d.again, i, i+1)
		if m, ok := s.at(p.position); ok {
			return m, true, 0
		}
		break
	}
	m, ok, seen := s.after(d.next, sub.Filters)
	d.next = seen
	return m, ok, wait
}

func (s *stream) at(position uint64) (stored, bool) {
	i, ok := s.search(position)
	if !ok {
		return stored{}, false
	}
	return s.messages[i], true
}

func (s *stream) search(position uint64) (int, bool) {
	return slices.BinarySearchFunc(s.messages, position, func(m stored, p uint64) int {
		return int(int64(m.position) - int64(p))
	})
}

// after returns the oldest message beyond position that matches a filter, and
// how far it looked.
func (s *stream) after(position uint64, filters []string) (stored, bool, uint64) {
	i, _ := s.search(position + 1)
	for _, m := range s.messages[i:] {
		if slices.ContainsFunc(filters, func(f string) bool { return Match(f, m.Subject) }) {
			return m, true, m.position
		}
		position = m.position
	}
	return stored{}, false, position
}

func (l *Log) consumePrivate(ctx context.Context, sub events.Subscription, handle func(context.Context, events.Event) error) error {
	l.mu.Lock()
	s := l.stream(sub.Filters[0])
	end := s.last
	backlog := s.backlog(sub)
	l.mu.Unlock()
	for _, m := range backlog {
		if !l.handlePrivate(ctx, m, handle) {
			return nil
		}
	}
	if sub.CaughtUp != nil {
		sub.CaughtUp()
	}
	at := end
	for {
		l.mu.Lock()
		m, ok, seen := s.after(at, sub.Filters)
		at = seen
		changed := l.changed
		l.mu.Unlock()
		if !ok && !sleep(ctx, changed, 0) || ok && !l.handlePrivate(ctx, m, handle) {
			return nil
		}
	}
}

// backlog lists what a private consumer gets of the past.
func (s *stream) backlog(sub events.Subscription) []stored {
	var out []stored
	newest := map[string]int{}
	for at := max(sub.From, 1) - 1; ; {
		m, ok, seen := s.after(at, sub.Filters)
		if !ok {
			break
		}
		at = seen
		if i, seen := newest[m.Subject]; seen && sub.Last {
			out[i].position = 0
		}
		newest[m.Subject] = len(out)
		out = append(out, m)
	}
	return slices.DeleteFunc(out, func(m stored) bool { return m.position == 0 })
}

// handlePrivate repeats until the handler takes the event or ctx ends.
func (l *Log) handlePrivate(ctx context.Context, m stored, handle func(context.Context, events.Event) error) bool {
	e, err := m.decode()
	if err != nil {
		l.mu.Lock()
		l.dead = append(l.dead, m.Message)
		l.mu.Unlock()
		return ctx.Err() == nil
	}
	for ctx.Err() == nil {
		if handle(ctx, e) == nil {
			return ctx.Err() == nil
		}
		sleep(ctx, nil, l.retry)
	}
	return false
}

// sleep waits for a change, for wait (0: no limit), or for ctx, and says whether ctx still lives.
func sleep(ctx context.Context, changed <-chan struct{}, wait time.Duration) bool {
	var timer <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer:
	}
	return ctx.Err() == nil
}
