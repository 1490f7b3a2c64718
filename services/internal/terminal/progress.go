package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// LineEvery is how often progress is said where nothing can be redrawn.
const LineEvery = 10 * time.Second

const barWidth = 24

// Progress shows how far something is: redrawn in place on a terminal, else a
// line now and then. total 0 means that nobody knows how much there is.
func (t *Terminal) Progress(done, total int64, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text = Safe(text)
	if !t.ErrTTY {
		if now := t.Now(); t.last.IsZero() || now.Sub(t.last) >= LineEvery {
			t.last = now
			fmt.Fprintln(t.Err, percent(done, total)+text)
		}
		return
	}
	line := Bar(done, total, barWidth) + " " + percent(done, total) + text
	if t.across > 0 {
		line = Cut(line, t.across-1) // a bar that wraps cannot be taken away
	}
	if line == t.bar {
		return
	}
	t.erase()
	io.WriteString(t.Err, line)
	t.bar = line
}

// Done takes the bar away.
func (t *Terminal) Done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
}

func percent(done, total int64) string {
	if total <= 0 {
		return ""
	}
	return fmt.Sprintf("%3d%% ", min(max(100*done/total, 0), 100))
}

// Bar draws a bar of the given width.
func Bar(done, total int64, width int) string {
	full := 0
	if total > 0 {
		full = int(min(max(done, 0), total) * int64(width) / total)
	}
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}

// Span draws where from..to lies in 0..total, at least one mark wide.
func Span(from, to, total int64, width int) string {
	if total <= 0 || width <= 0 {
		return ""
	}
	at := func(v int64) int { return int(min(max(v, 0), total) * int64(width) / total) }
	start := min(at(from), width-1)
	end := max(at(to), start+1)
	return strings.Repeat(" ", start) + strings.Repeat("=", end-start)
}
