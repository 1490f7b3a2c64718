package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
)

// checkComplete checks that no event was left out: what the record names is here, every lease is told
// from its first event on, and the job from as far before the first sign as a bundle tells up to
// the record, without a gap. Whether something came after the last event of a lease, a bundle cannot tell.
func (b *opened) checkComplete() (string, error) {
	r := b.move.Record
	for _, id := range append(slices.Clone(r.Evidence), r.Decision) {
		if _, ok := b.byID[id]; !ok && id != "" {
			return "", fmt.Errorf("event %.100s is missing", id)
		}
	}
	told := map[string][]console.EventLine{} // by aggregate
	for _, l := range b.lines {
		told[l.Subject] = append(told[l.Subject], l)
	}
	job := told[string(b.move.Job)]
	delete(told, string(b.move.Job))
	for _, lease := range []events.LeaseID{r.From.Lease, r.To.Lease} {
		if len(told[string(lease)]) == 0 {
			return "", fmt.Errorf("lease %.100s is missing", lease)
		}
	}
	for _, lines := range told {
		if err := unbroken(lines, 1); err != nil {
			return "", err
		}
	}
	end := slices.IndexFunc(job, func(l console.EventLine) bool { return l.ID == b.move.Event })
	if err := unbroken(job[:end+1], b.begins(job)); err != nil {
		return "", err
	}
	return fmt.Sprintf("all events of %s, and the job's without a gap", count(len(told), "lease")), nil
}

// begins is the number of the job's event with which a bundle begins.
func (b *opened) begins(job []console.EventLine) uint64 {
	for _, l := range job {
		e, err := l.Event()
		if slices.Contains(b.move.Record.Evidence, l.ID) || err == nil && !e.Time.Before(b.move.Record.Began) || l.ID == b.move.Event {
			return max(sequenceOf(l), console.Lead+2) - console.Lead
		}
	}
	return 0
}

// unbroken says whether lines of one aggregate are numbered without a gap, from a number on.
func unbroken(lines []console.EventLine, from uint64) error {
	for i, l := range lines {
		if i == 0 && sequenceOf(l) != from || i > 0 && !follows(lines[i-1], l) {
			return fmt.Errorf("events before %.100s are missing", l.ID)
		}
	}
	return nil
}

// sequenceOf is the number of an event in its aggregate, 0 for none.
func sequenceOf(l console.EventLine) uint64 {
	n, err := strconv.ParseUint(l.Sequence, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
