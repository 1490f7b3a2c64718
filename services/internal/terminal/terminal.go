package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Terminal is the three streams of a command and what is known of them. Its
// methods may be called by several goroutines.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer

	InTTY, OutTTY, ErrTTY bool // somebody sits there
	Columns               int  // of Out; 0: not known, nothing is cut

	Style Style // of Out
	Notes Style // of Err

	// Now paces the lines that stand in for a progress bar.
	Now func() time.Time

	across int // columns of Err
	mu     sync.Mutex
	bar    string // on the last line of Err now
	last   time.Time
}

// Open looks at the streams. env is the environment: NO_COLOR and TERM count.
func Open(in io.Reader, out, err io.Writer, env func(string) string, now func() time.Time) *Terminal {
	t := &Terminal{In: in, Out: out, Err: err, Now: now}
	t.InTTY, _ = look(in)
	t.OutTTY, t.Columns = look(out)
	t.ErrTTY, t.across = look(err)
	dumb := env("TERM") == "dumb"
	colour := env("NO_COLOR") == "" && !dumb
	t.Style, t.Notes = Style{colour && t.OutTTY}, Style{colour && t.ErrTTY}
	if dumb {
		t.ErrTTY = false // no bar can be redrawn
	}
	return t
}

func look(stream any) (tty bool, columns int) {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		columns = 0
	}
	return true, columns
}

// Print writes a line for the reader or the next program in the pipe. The text
// is written as it is: give it to Safe first if it came from outside.
func (t *Terminal) Print(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.above(t.Out, line)
}

// Note writes a line about what is going on, beside the output. Control
// characters are taken out.
func (t *Terminal) Note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.above(t.Err, SafeLines(fmt.Sprintf(format, args...)))
}

// Mark is Note with its first word set apart by m.
func (t *Terminal) Mark(m func(Style, string) string, word, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.above(t.Err, m(t.Notes, Safe(word))+" "+SafeLines(fmt.Sprintf(format, args...)))
}

// above writes a line where the bar stands, and the bar again below it.
func (t *Terminal) above(w io.Writer, line string) {
	shown := t.bar
	t.erase()
	io.WriteString(w, strings.TrimSuffix(line, "\n")+"\n")
	if shown != "" {
		io.WriteString(t.Err, shown)
		t.bar = shown
	}
}

func (t *Terminal) erase() {
	if t.bar != "" {
		io.WriteString(t.Err, "\r\x1b[K")
		t.bar = ""
	}
}

// Clear begins a new screen, where there is one.
func (t *Terminal) Clear() {
	if t.OutTTY {
		io.WriteString(t.Out, "\x1b[H\x1b[2J\x1b[3J")
	}
}
