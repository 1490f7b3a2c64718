package main

import (
	"strings"
	"time"

	"github.com/spotferry/spotferry/services/internal/terminal"
)

// statusNotes tells what happens to a job that is followed.
type statusNotes struct {
	zone *time.Location
	last string
}

// tell says an event in a line when somebody who watches wants to know it.
// Waiting for the same thing again is not news.
func (s *statusNotes) tell(to *terminal.Terminal, e entry) {
	mark, ok := noteworthy(e.Type)
	if !ok || (e.Type == "job.waiting" && e.Summary == s.last) {
		return
	}
	s.last = ""
	if e.Type == "job.waiting" {
		s.last = e.Summary
	}
	to.Mark(mark, e.Time.In(s.zone).Format("15:04:05")+" "+strings.TrimPrefix(e.Type, "job.")+":", "%s", terminal.Safe(e.Summary))
}

func noteworthy(kind string) (mark func(terminal.Style, string) string, ok bool) {
	switch kind {
	case "job.leased", "job.placed", "job.move-requested", "job.released":
		return terminal.Style.Dim, true
	case "job.waiting", "job.noticed", "job.exited", "job.stopping", "job.pausing", "job.paused", "job.drilled", "job.troubled":
		return terminal.Style.Warn, true
	case "job.lost", "job.checkpoint-rejected":
		return terminal.Style.Bad, true
	case "job.notice-withdrawn", "job.heard", "job.resumed", "job.failed-over":
		return terminal.Style.Good, true
	}
	return nil, false
}
