package natsbus

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
)

// AppendLog keeps a run of output lines. The same run sent again within the
// hour is kept once.
func (l *Log) AppendLog(ctx context.Context, p Place, b events.LogBatch) error {
	if err := p.check(); err != nil {
		return err
	}
	b.Epoch = p.Epoch
	m, err := jsonMessage(p.subject(events.SubjectLog), b)
	if err == nil {
		m.Header.Set(events.HeaderMsgID, fmt.Sprintf("%s-%d-%d-%d-%d", p.Job, p.Epoch, b.First, len(b.Lines), b.Lost))
		err = l.put(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("log of job %s epoch %d: %w", p.Job, p.Epoch, err)
	}
	return nil
}

// LogQuery says which output lines of a job are wanted.
type LogQuery struct {
	Org   events.OrgID
	Job   events.JobID
	Epoch int       // 0: all
	Since time.Time // only what was kept at or after it; zero: all
	Tail  int       // only so many lines at the end; 0: all
}

func (q LogQuery) filter() (string, error) {
	if err := (Place{q.Org, q.Job, max(q.Epoch, 1)}).check(); err != nil {
		return "", err
	}
	if q.Epoch == 0 {
		return fmt.Sprintf("%s%s.%s.*", events.SubjectLog, q.Org, q.Job), nil
	}
	return Place{q.Org, q.Job, q.Epoch}.subject(events.SubjectLog), nil
}

// ReadLog returns the output lines that are kept now, oldest first.
func (l *Log) ReadLog(ctx context.Context, q LogQuery) ([]events.LogBatch, error) {
	filter, err := q.filter()
	if err != nil {
		return nil, err
	}
	t := tail{limit: q.Tail}
	err = l.scanSince(ctx, StreamLogs, []string{filter}, q.Since, func(m jetstream.Msg) error {
		var b events.LogBatch
		if json.Unmarshal(m.Data(), &b) == nil {
			t.add(b)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("log of job %s: %w", q.Job, err)
	}
	return t.batches, nil
}

// FollowLog calls handle with the output lines that are kept and those to come, until ctx ends.
func (l *Log) FollowLog(ctx context.Context, q LogQuery, handle func(events.LogBatch)) error {
	filter, err := q.filter()
	if err != nil {
		return err
	}
	t := tail{limit: q.Tail}
	live := q.Tail == 0
	p := &private{log: l, stream: StreamLogs, since: q.Since, sub: events.Subscription{Filters: []string{filter}, CaughtUp: func() {
		live = true
		for _, b := range t.batches {
			handle(b)
		}
		t.batches = nil
	}}}
	p.deliver = func(_ context.Context, m jetstream.Msg, _ uint64) {
		var b events.LogBatch
		switch {
		case json.Unmarshal(m.Data(), &b) != nil:
			l.o.Counters.add(CountDeadLetters, "logs")
		case live:
			handle(b)
		default:
			t.add(b)
		}
	}
	return p.run(ctx)
}

// tail keeps the last lines of a log; a limit of 0 keeps all.
type tail struct {
	limit   int
	lines   int
	batches []events.LogBatch
}

func (t *tail) add(b events.LogBatch) {
	t.batches = append(t.batches, b)
	t.lines += len(b.Lines)
	if t.limit == 0 {
		return
	}
	for len(t.batches) > 1 && t.lines-len(t.batches[0].Lines) >= t.limit {
		t.lines -= len(t.batches[0].Lines)
		t.batches = t.batches[1:]
	}
	if cut := t.lines - t.limit; cut > 0 {
		first := &t.batches[0]
		first.Lines = first.Lines[cut:]
		first.First += int64(cut)
		t.lines = t.limit
	}
}
