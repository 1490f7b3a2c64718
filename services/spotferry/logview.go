package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// logView reads a job's output and prints it.
type logView struct {
	env    *environment
	out    func(line string)
	tty    bool // somebody looks: what a job prints is made safe
	style  terminal.Style
	stamps bool
	// document prints every item as an object for a program.
	document bool
	epoch    int       // only this one; 0: all
	since    time.Time // only lines from then on
	tail     int       // at first only so many; 0: all

	lineup lineup
	places map[int]string
	after  uint64
	caught bool      // the past has been read once
	held   []logItem // the tail of it
	marks  []logItem // marks that wait for a line
}

// newLogView prints on the output, or beside it when the output is for a program.
func newLogView(e *environment) *logView {
	v := &logView{env: e, out: e.term.Print, tty: e.term.OutTTY, style: e.term.Style, places: map[int]string{}}
	if e.format.forProgram() {
		v.out, v.tty, v.style = func(s string) { io.WriteString(e.term.Err, s+"\n") }, e.term.ErrTTY, e.term.Notes
	}
	return v
}

// placed remembers where an epoch runs. A nil view remembers nothing.
func (v *logView) placed(e entry) {
	if f, ok := fact[events.JobPlaced](e, "job.placed"); ok && v != nil {
		from := "from the beginning"
		if f.Resume != nil {
			from = fmt.Sprintf("resumes step %d", f.Resume.Step)
		}
		v.places[f.Epoch] = f.Pool.String() + ", " + from
	}
}

// read prints the output that is new, and says whether there was none.
func (v *logView) read(ctx context.Context, l *link, job string) (idle bool, err error) {
	idle = true
	if v == nil {
		return idle, nil
	}
	for {
		p, err := ask[console.LogPage](ctx, l, console.GetLogs, console.Query{Job: job, Epoch: v.epoch, After: v.after})
		if err != nil {
			return idle, err
		}
		for _, b := range p.Batches {
			for _, item := range v.lineup.take(b) {
				idle = false
				v.add(item)
			}
		}
		more := p.More && p.Next > v.after
		if v.after = max(v.after, p.Next); !more {
			v.caughtUp()
			return idle, nil
		}
	}
}

// add shows an item. With a time to begin at, a mark waits for the first line
// that it stands before.
func (v *logView) add(i logItem) {
	if i.Kind == "line" && i.At.Before(v.since) {
		v.marks = slices.DeleteFunc(v.marks, func(m logItem) bool { return m.Kind == "gap" })
		return
	}
	if i.Kind == "epoch" {
		v.marks = nil
	}
	v.marks = append(v.marks, i)
	if i.Kind != "line" && !v.since.IsZero() {
		return
	}
	for _, m := range v.marks {
		v.put(m)
	}
	v.marks = nil
}

// put prints an item, or holds it while only the tail is wanted.
func (v *logView) put(i logItem) {
	if v.caught || v.tail == 0 {
		v.print(i)
		return
	}
	if v.held = append(v.held, i); len(v.held) > 2*v.tail {
		v.held = v.lastHeld()
	}
}

// lastHeld keeps the last lines, and the marks among them.
func (v *logView) lastHeld() []logItem {
	lines := 0
	for i := len(v.held) - 1; i >= 0; i-- {
		if v.held[i].Kind != "line" {
			continue
		}
		if lines++; lines == v.tail {
			return v.held[i:]
		}
	}
	return v.held
}

func (v *logView) caughtUp() {
	if v.caught {
		return
	}
	v.caught = true
	for _, i := range v.lastHeld() {
		v.print(i)
	}
	v.held = nil
}

func (v *logView) print(i logItem) {
	i.Place = ""
	if i.Kind == "epoch" {
		i.Place = v.places[i.Epoch]
	}
	if v.document {
		_, _ = v.env.stream(i)
		return
	}
	v.out(v.text(i))
}

func (v *logView) text(i logItem) string {
	switch i.Kind {
	case "epoch":
		return v.style.Bold(fmt.Sprintf("--- epoch %d%s ---", i.Epoch, labelled(": ", terminal.Safe(i.Place))))
	case "gap":
		return v.style.Warn(fmt.Sprintf("--- %s%s of epoch %d missing from line %d on ---", late(i), count(int(min(i.Missing, mostLines)), "line"), i.Epoch, i.Line))
	}
	text := i.Text
	if v.tty {
		text = terminal.SafeLine(text)
	} else {
		text = strings.TrimRight(text, "\r\n")
	}
	if v.stamps {
		text = i.At.In(v.env.zone()).Format("15:04:05.000") + " " + text
	}
	if i.Stream == "agent" {
		text = v.style.Dim("[agent] ") + text
	}
	return late(i) + text
}

// late marks a line that comes after the next epoch's mark.
func late(i logItem) string {
	if i.late {
		return fmt.Sprintf("(epoch %d) ", i.Epoch)
	}
	return ""
}
