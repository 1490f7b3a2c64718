package main

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// logItem is one thing that a job's output shows: a line, a gap, or that a new
// epoch begins.
type logItem struct {
	Kind    string    `json:"kind"` // "line", "gap", "epoch"
	Epoch   int       `json:"epoch"`
	Line    int64     `json:"line,omitempty"` // its number within the epoch; of a gap the first that is missing
	Missing int64     `json:"missing,omitempty"`
	Place   string    `json:"place,omitempty"` // of an epoch: where it runs and what it resumes
	At      time.Time `json:"time,omitzero"`
	Stream  string    `json:"stream,omitempty"`
	Text    string    `json:"text,omitempty"`

	late bool // a line of an epoch that others have followed
}

// lineup puts batches of output into one sequence: no line twice, a mark where
// lines are missing, one mark where a newer epoch begins. Lines of an older
// epoch can still arrive after that, as its machine sends its last ones while
// the next already trains.
type lineup struct {
	next   map[int]int64 // by epoch: the number of the line that is due
	newest int
}

// mostLines is above any number a line can have. Numbers come from machines
// that may lie.
const mostLines = 1 << 53

func (l *lineup) take(b events.LogBatch) []logItem {
	var out []logItem
	if l.next == nil {
		l.next = map[int]int64{}
	}
	due, known := l.next[b.Epoch]
	if !known {
		due = 1
	}
	first := min(max(b.First, 1), mostLines)
	repeated := max(0, due-first)
	if repeated >= int64(len(b.Lines)) && (repeated > 0 || first == due) {
		return nil // nothing in it, or all of it was shown
	}
	if b.Epoch > l.newest {
		l.newest = b.Epoch
		out = append(out, logItem{Kind: "epoch", Epoch: b.Epoch})
	}
	late := b.Epoch < l.newest
	if first > due {
		out = append(out, logItem{Kind: "gap", Epoch: b.Epoch, Line: due, Missing: first - due, late: late})
	}
	for i, line := range b.Lines[repeated:] {
		out = append(out, logItem{
			Kind: "line", Epoch: b.Epoch, Line: first + repeated + int64(i),
			At: line.At, Stream: line.Stream, Text: line.Text, late: late,
		})
	}
	l.next[b.Epoch] = first + int64(len(b.Lines))
	return out
}
