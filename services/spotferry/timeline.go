package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// entry is a console.Entry whose fact is kept as it came, so that what a newer
// system says reaches -o json whole.
type entry struct {
	ID       events.EventID  `json:"id"`
	Time     time.Time       `json:"time"`
	Subject  string          `json:"subject"`
	Type     string          `json:"type"`
	Summary  string          `json:"summary"`
	Cause    events.EventID  `json:"causation,omitempty"`
	Position uint64          `json:"position"`
	Fact     json.RawMessage `json:"fact"`
}

type entryPage struct {
	Entries []entry `json:"entries"`
	Next    uint64  `json:"next"`
	More    bool    `json:"more"`
}

// fact reads an entry's fact, when it is of the named type.
func fact[F any](e entry, name string) (f F, ok bool) {
	return f, e.Type == name && json.Unmarshal(e.Fact, &f) == nil
}

// timeline reads the events after a position that are there now, of one job or
// of all. each may keep them or not.
func timeline(ctx context.Context, l *link, job string, after uint64, each func(entry)) (next uint64, err error) {
	return timelineOf(ctx, l, console.Query{Job: job, After: after}, each)
}

// timelineOf reads the events that q asks for, from q.After on, and returns the
// position to go on from: on an error that of the last event given to each.
func timelineOf(ctx context.Context, l *link, q console.Query, each func(entry)) (next uint64, err error) {
	for {
		p, err := ask[entryPage](ctx, l, console.GetEvents, q)
		if err != nil {
			return q.After, err
		}
		for _, e := range p.Entries {
			each(e)
		}
		if !p.More || p.Next <= q.After {
			return max(q.After, p.Next), nil
		}
		q.After = p.Next
	}
}

// timelineTable shows events with the time since began.
func timelineTable(p *page, entries []entry, began time.Time) terminal.Table {
	names := []string{"TIME", ">AFTER", "EVENT", "WHAT"}
	if p.wide {
		names = []string{"TIME", ">AFTER", "EVENT", "ID", "BECAUSE OF", "WHAT"}
	}
	t := terminal.Table{Columns: terminal.Columns(names...)}
	for _, e := range entries {
		row := []string{p.clock(e.Time), "+" + short(e.Time.Sub(began)), e.Type, e.Summary}
		if p.wide {
			row = []string{p.clock(e.Time), "+" + short(e.Time.Sub(began)), e.Type, string(e.ID), string(e.Cause), e.Summary}
		}
		t.Row(row...)
	}
	return t
}
