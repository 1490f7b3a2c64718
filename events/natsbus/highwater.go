package natsbus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

const (
	marksFormat   = 1
	checkPatience = 10 * time.Second
)

// HighWater remembers outside the streams how far each stream of truth has
// been, and refuses when one has fallen behind that: a broker that finds its
// files damaged drops what it cannot read, numbers on from there and says nothing.
type HighWater struct {
	c     HighWaterConfig
	mu    sync.Mutex
	marks map[string]mark
}

// HighWaterConfig says what is watched and where the marks are.
type HighWaterConfig struct {
	Conn *nats.Conn
	JS   jetstream.JetStream
	// File holds the marks. It must lie outside the bus's directory of streams.
	File string
	// Every is how often the marks follow the streams. 0: once a second.
	Every time.Duration
	// Replicas of each stream, for those in memory: a broker that was restarted has lost them. 0: 1.
	Replicas int
	Log      *zap.Logger
}

// mark is where a stream has been.
type mark struct {
	Created  time.Time `json:"created"`
	Sequence uint64    `json:"sequence"`
	Hash     string    `json:"hash,omitempty"` // of the message at Sequence; empty at 0
}

type marksFile struct {
	Format  int             `json:"format"`
	Streams map[string]mark `json:"streams"`
}

// OpenHighWater reads the marks. A file that is not there means that there are none yet.
func OpenHighWater(c HighWaterConfig) (*HighWater, error) {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Every == 0 {
		c.Every = time.Second
	}
	h := &HighWater{c: c, marks: map[string]mark{}}
	b, err := os.ReadFile(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("high-water marks: %w", err)
	}
	var f marksFile
	if err := json.Unmarshal(b, &f); err != nil || f.Format < 1 {
		return nil, fmt.Errorf("high-water marks %s cannot be read: without them nobody can tell whether the streams are whole; check the streams, then remove the file", c.File)
	}
	if f.Format > marksFormat {
		return nil, fmt.Errorf("high-water marks %s have format %d, this program knows %d: use the newer program", c.File, f.Format, marksFormat)
	}
	if f.Streams != nil {
		h.marks = f.Streams
	}
	return h, nil
}

// Check compares every marked stream with its mark: Verify at the start, Check
// whenever the bus has been away. Call it before Declare,
// which would make a vanished stream anew. An error that wraps
// events.ErrRegressed names stream and sequence: nothing may run on that bus.
// Any other error means that the bus could not be asked.
func (h *HighWater) Check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range TruthStreams() {
		m, marked := h.marks[name]
		if !marked {
			continue
		}
		s, err := h.check(ctx, name, m)
		if err == nil {
			err = h.compare(ctx, s, name, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check returns the stream as it is, or how its outline has regressed.
func (h *HighWater) check(ctx context.Context, name string, m mark) (jetstream.Stream, error) {
	s, err := h.c.JS.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, regressed(name, m.Sequence, "the stream has vanished")
	}
	if err != nil {
		return nil, fmt.Errorf("checking stream %s against its mark: %w", name, err)
	}
	info := s.CachedInfo()
	switch {
	case !info.Created.Equal(m.Created):
		return nil, regressed(name, m.Sequence, fmt.Sprintf("the stream was made anew at %s", info.Created.UTC().Format(time.RFC3339)))
	case info.State.LastSeq < m.Sequence:
		return nil, regressed(name, m.Sequence, fmt.Sprintf("it ends at sequence %d", info.State.LastSeq))
	case info.State.NumDeleted > 0 || (info.State.LastSeq > 0 && info.State.FirstSeq != 1):
		return nil, regressed(name, m.Sequence, fmt.Sprintf("%d messages are missing, it begins at sequence %d", info.State.NumDeleted, info.State.FirstSeq))
	}
	return s, nil
}

// compare looks at the marked message itself.
func (h *HighWater) compare(ctx context.Context, s jetstream.Stream, name string, m mark) error {
	if m.Sequence == 0 {
		return nil
	}
	hash, err := h.hash(ctx, s, m.Sequence)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return regressed(name, m.Sequence, "the message is gone")
	case err != nil:
		return fmt.Errorf("checking stream %s against its mark: %w", name, err)
	case hash != m.Hash:
		return regressed(name, m.Sequence, "another message stands there")
	}
	return nil
}

func regressed(stream string, sequence uint64, how string) error {
	return fmt.Errorf("%w: stream %s had reached sequence %d, but %s: stop, and restore the bus's directory from a copy that is not older",
		events.ErrRegressed, stream, sequence, how)
}

// Run keeps the marks until ctx ends: once a second, when something was
// written, and at the end. Whenever the connection has come back it calls Check,
// and then Declare: streams in memory do not outlive their broker. It
// returns nil when ctx ends, and an error wrapping events.ErrRegressed as soon
// as a stream has fallen behind its mark.
func (h *HighWater) Run(ctx context.Context) error {
	back := h.c.Conn.StatusChanged(nats.CONNECTED)
	defer h.c.Conn.RemoveStatusListener(back)
	tick := time.NewTicker(h.c.Every)
	defer tick.Stop()
	sure := true // false: the connection has been away and nobody has looked closely since
	for {
		select {
		case <-ctx.Done():
			return h.last(ctx)
		case <-back:
			sure = false
		case <-tick.C:
		}
		var err error
		if !sure {
			if err = h.Check(ctx); err == nil {
				err = Declare(ctx, h.c.JS, max(h.c.Replicas, 1))
			}
			sure = err == nil
		}
		if sure {
			err = h.Mark(ctx)
		}
		if errors.Is(err, events.ErrRegressed) {
			return err
		} else if err != nil && ctx.Err() == nil {
			h.c.Log.Warn("high-water marks not renewed", zap.Error(err))
		}
	}
}

// last marks once more although ctx has ended, if the bus is there.
func (h *HighWater) last(ctx context.Context) error {
	if !h.c.Conn.IsConnected() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkPatience)
	defer cancel()
	err := h.Mark(ctx)
	if errors.Is(err, events.ErrRegressed) {
		return err
	}
	if err != nil {
		h.c.Log.Warn("high-water marks not renewed at the end", zap.Error(err))
	}
	return nil
}

// Mark checks the outline of each stream against its mark and then moves the
// mark to where the stream is now. A stream without a mark gets one.
func (h *HighWater) Mark(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	next := map[string]mark{}
	changed := false
	for _, name := range TruthStreams() {
		old, marked := h.marks[name]
		m, err := h.advance(ctx, name, old, marked)
		if err != nil {
			return err
		}
		next[name] = m
		changed = changed || !marked || m != old
	}
	if !changed {
		return nil
	}
	b, err := json.MarshalIndent(marksFile{marksFormat, next}, "", "  ")
	if err == nil {
		err = writeFile(h.c.File, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing high-water marks: %w", err)
	}
	h.marks = next
	return nil
}

func (h *HighWater) advance(ctx context.Context, name string, old mark, marked bool) (mark, error) {
	var s jetstream.Stream
	var err error
	if marked {
		s, err = h.check(ctx, name, old)
	} else {
		s, err = h.c.JS.Stream(ctx, name)
	}
	if err != nil {
		return mark{}, err
	}
	info := s.CachedInfo()
	m := mark{Created: info.Created, Sequence: info.State.LastSeq}
	if m.Sequence == old.Sequence && marked {
		return old, nil
	}
	if m.Sequence > 0 {
		m.Hash, err = h.hash(ctx, s, m.Sequence)
	}
	return m, err
}

// hash covers everything of a message: subject, headers, body and when it was stored.
func (h *HighWater) hash(ctx context.Context, s jetstream.Stream, sequence uint64) (string, error) {
	m, err := s.GetMsg(ctx, sequence)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\x00%s\x00%s\x00", m.Sequence, m.Subject, m.Time.UTC().Format(time.RFC3339Nano))
	names := make([]string, 0, len(m.Header))
	for name := range m.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(sum, "%s\x00%q\x00", name, m.Header[name])
	}
	sum.Write(m.Data)
	return hex.EncodeToString(sum.Sum(nil)), nil
}
