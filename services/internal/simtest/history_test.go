package simtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// message is one message of a stream, as it stands there.
type message struct {
	stream   string
	sequence uint64
	at       time.Time // when the bus took it
	text     string    // subject, headers and body
	event    events.Event
	err      error // why it is no event
}

// history reads every message of every stream, with a connection of its own.
func (w *world) history(ctx context.Context) (map[string][]message, error) {
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: w.path("operator"), Entropy: w.chance.entropy("history"), Now: time.Now})
	if err != nil {
		return nil, err
	}
	creds, err := op.Service("history")
	if err != nil {
		return nil, err
	}
	nc, err := natsbus.Connect(natsbus.ConnConfig{Server: newLink(w.current), Credentials: creds, Name: "history"})
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	out := map[string][]message{}
	names := js.StreamNames(ctx)
	var all []string
	for name := range names.Name() {
		all = append(all, name)
	}
	if names.Err() != nil {
		return nil, names.Err()
	}
	for _, name := range all {
		if out[name], err = read(ctx, js, name); err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
	}
	return out, nil
}

func read(ctx context.Context, js jetstream.JetStream, name string) ([]message, error) {
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	var out []message
	for left := s.CachedInfo().State.Msgs; left > 0; {
		batch, err := c.FetchNoWait(256)
		if err != nil {
			return nil, err
		}
		got := 0
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return nil, err
			}
			got++
			left--
			out = append(out, describe(name, m, meta))
		}
		if got == 0 {
			return nil, fmt.Errorf("%d messages are not delivered", left)
		}
	}
	return out, nil
}

func describe(name string, m jetstream.Msg, meta *jetstream.MsgMetadata) message {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %d %s", name, meta.Sequence.Stream, meta.Timestamp.UnixNano(), m.Subject())
	var keys []string
	for k := range m.Headers() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, " %s=%q", k, m.Headers()[k])
	}
	b.WriteString(" ")
	b.Write(m.Data())
	out := message{stream: name, sequence: meta.Sequence.Stream, at: meta.Timestamp, text: b.String()}
	out.event, out.err = events.Decode(events.Message{Subject: m.Subject(), Header: m.Headers(), Body: m.Data()})
	out.event.Position = meta.Sequence.Stream
	return out
}

// fingerprint is one hash over all of it.
func fingerprint(h map[string][]message) string {
	var names []string
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	sum := sha256.New()
	n := 0
	for _, name := range names {
		for _, m := range h[name] {
			fmt.Fprintln(sum, m.text)
			n++
		}
	}
	return fmt.Sprintf("%d messages, %s", n, hex.EncodeToString(sum.Sum(nil))[:16])
}
