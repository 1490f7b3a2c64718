package natsbus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
)

// DeadLetter refers to a message that no handler could be given. The message
// itself stays where it is.
type DeadLetter struct {
	Stream   string `json:"stream"`
	Sequence uint64 `json:"sequence"`
	Consumer string `json:"consumer"`
	Subject  string `json:"subject"`
	Type     string `json:"type,omitempty"`
	Reason   string `json:"reason"`
}

func (l *Log) sendDead(ctx context.Context, d DeadLetter) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	m := nats.NewMsg(events.SubjectDead + d.Stream + "." + d.Consumer)
	m.Header.Set(events.HeaderMsgID, fmt.Sprintf("%s-%d-%s", d.Stream, d.Sequence, d.Consumer))
	m.Data = body
	return l.put(ctx, m)
}

// DeadLetters returns the dead letters that are kept, oldest first.
func (l *Log) DeadLetters(ctx context.Context) ([]DeadLetter, error) {
	var out []DeadLetter
	err := l.scan(ctx, StreamDead, []string{events.SubjectDead + ">"}, func(m jetstream.Msg) error {
		var d DeadLetter
		if json.Unmarshal(m.Data(), &d) == nil {
			out = append(out, d)
		}
		return nil
	})
	return out, err
}
