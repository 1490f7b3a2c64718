package rehearse

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Happened is an event of the job, as the console tells it.
type Happened struct {
	Time     time.Time       `json:"time"`
	Type     string          `json:"type"`
	Position uint64          `json:"position"`
	Fact     json.RawMessage `json:"fact"`
}

// History is what the job's events tell a rehearsal.
type History struct {
	Submitted time.Time
	Lives     []Life // without what was told
	Commits   []Commit
	Exits     []Exit
	Noticed   []events.JobNoticed
	Rejected  []events.JobCheckpointRejected
	Words     []events.JobLastWords
	Waiting   string // why it holds no machine, "" if it does not wait
	Troubled  *events.JobTroubled
	Paused    *events.JobPaused
	Ended     *events.JobEnded
}

// Commit is a committed checkpoint and when.
type Commit struct {
	events.JobCommitted
	At time.Time
}

// Exit is an end of a trainer on a machine that lived, and when.
type Exit struct {
	events.JobExited
	At time.Time
}

// Over says whether the job goes no further by itself.
func (h History) Over() bool { return h.Paused != nil || h.Ended != nil }

// committed is the newest checkpoint of an epoch, or false.
func (h History) committed(epoch int) (c Commit, ok bool) {
	for _, have := range h.Commits {
		if have.Epoch == epoch && (!ok || have.Checkpoint.Step >= c.Checkpoint.Step) {
			c, ok = have, true
		}
	}
	return c, ok
}

// Take adds an event. Events that tell a rehearsal nothing are passed over.
func (h *History) Take(e Happened) error {
	take, known := h.takers(e.Time)[e.Type]
	if !known {
		return nil
	}
	if err := take(e.Fact); err != nil {
		return fmt.Errorf("reading a %s event: %w", e.Type, err)
	}
	return nil
}

func (h *History) takers(at time.Time) map[string]func([]byte) error {
	return map[string]func([]byte) error{
		"job.submitted": func([]byte) error { h.Submitted = at; return nil },
		"job.waiting":   taker(func(f events.JobWaiting) { h.Waiting = f.Detail }),
		"job.placed":    taker(func(f events.JobPlaced) { h.placed(f, at) }),
		"job.started":   taker(func(f events.JobStarted) { h.started(f, at) }),
		"job.committed": taker(func(f events.JobCommitted) {
			if !slices.ContainsFunc(h.Commits, func(c Commit) bool { return c.Checkpoint.Name == f.Checkpoint.Name }) {
				h.Commits = append(h.Commits, Commit{f, at}) // the last before a move is committed once more
			}
		}),
		"job.exited":              taker(func(f events.JobExited) { h.Exits = append(h.Exits, Exit{f, at}) }),
		"job.noticed":             taker(func(f events.JobNoticed) { h.Noticed = append(h.Noticed, f) }),
		"job.checkpoint-rejected": taker(func(f events.JobCheckpointRejected) { h.Rejected = append(h.Rejected, f) }),
		"job.last-words":          taker(func(f events.JobLastWords) { h.Words = append(h.Words, f) }),
		"job.troubled":            taker(func(f events.JobTroubled) { h.Troubled = &f }),
		"job.paused":              taker(func(f events.JobPaused) { h.Paused = &f }),
		"job.ended":               taker(func(f events.JobEnded) { h.Ended = &f }),
	}
}

func taker[T any](take func(T)) func([]byte) error {
	return func(b []byte) error {
		var f T
		if err := json.Unmarshal(b, &f); err != nil {
			return err
		}
		take(f)
		return nil
	}
}

func (h *History) placed(f events.JobPlaced, at time.Time) {
	l := Life{Epoch: f.Epoch, Lease: f.Lease, Placed: at, First: -1}
	if f.Resume != nil {
		l.Resumed, l.From = true, f.Resume.Step
	}
	h.Lives, h.Waiting = append(h.Lives, l), ""
}

func (h *History) started(f events.JobStarted, at time.Time) {
	for i := range h.Lives {
		if l := &h.Lives[i]; l.Epoch == f.Epoch {
			l.Started, l.First, l.Clock = at, f.Step, f.Clock
			if l.Resumed = f.From > 0; l.Resumed { // an older checkpoint than was meant, if that was bad
				l.From = f.From
			}
		}
	}
}
