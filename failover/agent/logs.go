package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// The most that waits for the control plane to take it, and the most of one
// batch. The bytes of a batch stay below a message's limit however they are
// escaped: six bytes for one is the worst.
const (
	maxWaiting      = 20_000
	maxWaitingBytes = 8 << 20
	maxBatch        = 500
	maxBatchBytes   = 96 << 10
	maxTail         = 50 // lines that tail has at least, if there were as many
)

// logs numbers the lines of an epoch, keeps a bounded number of them until they
// are taken, and writes all of them to a file on the machine.
type logs struct {
	now  func() time.Time
	file *logFile
	most int               // lines waiting
	mask *strings.Replacer // of what no line may show; nil: nothing

	sending chan struct{} // full while batches are under way: whoever waits for that may wait long

	mu      sync.Mutex
	waiting []events.LogLine
	bytes   int
	next    int64 // number of waiting[0], or of the next line
	lost    int64 // dropped since the last batch that was taken
	epoch   int
	newest  []string // the last few lines, whether taken or not
}

func newLogs(epoch int, now func() time.Time, file *logFile) *logs {
	return &logs{epoch: epoch, now: now, file: file, next: 1, most: maxWaiting, sending: make(chan struct{}, 1)}
}

// stream returns a writer that splits into lines of this stream.
func (l *logs) stream(name string) *lines {
	return &lines{take: func(text string) { l.add(name, text) }}
}

// add appends a line, dropping the oldest ones when nobody takes them.
func (l *logs) add(stream, text string) {
	if l.mask != nil {
		text = l.mask.Replace(text)
	}
	text = bound(text, maxLine)
	line := events.LogLine{At: l.now().UTC(), Stream: stream, Text: text}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest = append(l.newest, text); len(l.newest) > 2*maxTail {
		l.newest = slices.Clone(l.newest[maxTail:])
	}
	l.file.add(line)
	l.waiting = append(l.waiting, line)
	l.bytes += len(text)
	for len(l.waiting) > l.most || l.bytes > maxWaitingBytes {
		l.drop(1)
		l.lost++
	}
}

// tail returns the newest lines, n at most.
func (l *logs) tail(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.newest[max(0, len(l.newest)-n):])
}

func (l *logs) drop(n int) {
	for _, line := range l.waiting[:n] {
		l.bytes -= len(line.Text)
	}
	l.waiting = l.waiting[n:]
	l.next += int64(n)
}

// batch returns the oldest waiting lines, at least one if there is any.
func (l *logs) batch() (events.LogBatch, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.waiting) && n < maxBatch && (n == 0 || size+len(l.waiting[n].Text) <= maxBatchBytes) {
		size += len(l.waiting[n].Text)
		n++
	}
	b := events.LogBatch{Epoch: l.epoch, First: l.next, Lost: l.lost, Lines: append([]events.LogLine(nil), l.waiting[:n]...)}
	return b, n > 0
}

// taken drops a batch that arrived, or that nobody will ever take.
func (l *logs) taken(b events.LogBatch, arrived bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Lines of the batch that were dropped while it was under way are counted as
	// lost already.
	overtaken := min(max(l.next-b.First, 0), int64(len(b.Lines)))
	if arrived {
		l.lost -= b.Lost + overtaken
	} else {
		l.lost += int64(len(b.Lines)) - overtaken
	}
	end := b.First + int64(len(b.Lines))
	if n := end - l.next; n > 0 {
		l.drop(int(n))
	}
}

// ship sends what is waiting until ctx ends, then once more what is left.
func (l *logs) ship(ctx context.Context, ctl Control, every, timeout time.Duration, turn func(string)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var allowed allowance
	for {
		select {
		case <-ctx.Done():
			// The last lines say why the agent ended; its caller waits for little.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			l.drain(last, ctl, time.Second, nil)
			return
		case now := <-tick.C:
			if ctx.Err() != nil {
				continue
			}
			turn("logs")
			allowed.raise(now)
			l.drain(ctx, ctl, timeout, &allowed)
		}
	}
}

// drain sends batches until none is waiting, one is not taken, or no more is allowed.
func (l *logs) drain(ctx context.Context, ctl Control, timeout time.Duration, allowed *allowance) {
	l.sending <- struct{}{}
	defer func() { <-l.sending }()
	l.send(ctx, ctl, timeout, allowed)
}

// flush sends what is waiting now, for at most so long. What it does not get rid
// of waits for the next tick, as ever.
func (l *logs) flush(ctx context.Context, ctl Control, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case l.sending <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-l.sending }()
	l.send(ctx, ctl, limit, &allowance{bytes: maxBurst})
}

// turn ends an epoch: what is waiting is sent while it still can be, adopt goes
// over, and numbers begin at 1 again.
func (l *logs) turn(ctx context.Context, ctl Control, timeout time.Duration, epoch int, adopt func() error) error {
	l.sending <- struct{}{}
	defer func() { <-l.sending }()
	l.send(ctx, ctl, timeout, nil)
	if err := adopt(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch, l.next, l.lost = epoch, 1, 0
	return nil
}

func (l *logs) send(ctx context.Context, ctl Control, timeout time.Duration, allowed *allowance) {
	for !allowed.spent() {
		b, ok := l.batch()
		if !ok || ctx.Err() != nil {
			return
		}
		try, cancel := context.WithTimeout(ctx, timeout)
		err := ctl.Log(try, b)
		cancel()
		if err != nil && !final(err) {
			return // the same lines again with the next tick
		}
		l.taken(b, err == nil)
		allowed.spend(b)
	}
}

// maxLogFile is when the file on the machine is put aside for a new one. One
// that was put aside before is given up.
const maxLogFile = 64 << 20

// logFile keeps lines on the machine, one JSON object each. It is for a person
// on the machine: that the disk is full stops nothing, and it goes on when there
// is room again. A nil one keeps nothing.
type logFile struct {
	path string
	f    *os.File
	size int64
}

func (l *logFile) add(line events.LogLine) {
	if l == nil {
		return
	}
	data, err := json.Marshal(line)
	if err != nil || l.open() != nil {
		return
	}
	n, _ := l.f.Write(append(data, '\n'))
	l.size += int64(n)
}

func (l *logFile) open() (err error) {
	if l.f != nil && l.size < maxLogFile {
		return nil
	}
	if l.f != nil {
		l.close()
		if err := os.Rename(l.path, l.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	l.f, err = os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	l.size = 0
	return err
}

func (l *logFile) close() {
	if l != nil && l.f != nil {
		l.f.Close()
		l.f = nil
	}
}
