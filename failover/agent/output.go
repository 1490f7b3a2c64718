package agent

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxLine is where a line of output is cut, in bytes.
const maxLine = 16 << 10

// lines splits a stream of output. A carriage return begins the line anew, as on
// a terminal, so that a progress bar is one line and not a thousand. What is not
// UTF-8 is replaced. It is an io.Writer that never fails.
type lines struct {
	mu    sync.Mutex
	part  []byte
	take  func(string)
	heard func() // called when anything is written; nil: nobody wants to know
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard != nil {
		l.heard()
	}
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.add(p)
			break
		}
		l.add(p[:i])
		l.end()
		p = p[i+1:]
	}
	return n, nil
}

// Flush gives out a last line that had no end.
func (l *lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.end()
	}
}

// add takes a piece of a line, giving out what is too long for one.
func (l *lines) add(p []byte) {
	for len(p) > 0 {
		room := maxLine - len(l.part)
		if room == 0 {
			l.end()
			continue
		}
		k := min(room, len(p))
		if k < len(p) {
			k = whole(p, k)
		}
		if k == 0 { // there is room for a part of a character only
			l.end()
			continue
		}
		l.part = append(l.part, p[:k]...)
		p = p[k:]
		// A return at the very end may be half of a line's end.
		if i := bytes.LastIndexByte(l.part[:len(l.part)-1], '\r'); i >= 0 {
			l.part = append(l.part[:0], l.part[i+1:]...)
		}
	}
}

func (l *lines) end() {
	text := bytes.TrimSuffix(l.part, []byte("\r"))
	l.take(strings.ToValidUTF8(string(text), "\uFFFD"))
	l.part = l.part[:0]
}

// whole returns where to cut p near k without cutting a character in two.
func whole(p []byte, k int) int {
	for cut := k; cut >= 0 && cut > k-utf8.UTFMax; cut-- {
		if utf8.RuneStart(p[cut]) {
			return cut
		}
	}
	return k // it is no text
}
