package process

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// Faults are what a test makes a program suffer from inside. Its flags are hidden,
// and nothing happens unless one is given.
type Faults struct {
	program string
	crash   string        // directory; see Point
	skew    time.Duration // by which the program's wall clock is wrong
}

// faults declares the hidden flags.
func (f *Flags) faults() {
	f.Faults.program = f.Name()
	f.StringVar(&f.Faults.crash, "crash-dir", "", "directory of the points at which the program is to kill itself")
	f.DurationVar(&f.Faults.skew, "clock-skew", 0, "by which the program's wall clock is ahead")
	for _, name := range []string{"crash-dir", "clock-skew"} {
		f.Lookup(name).Hidden = true
	}
}

// Now is the program's wall clock.
func (f Faults) Now() time.Time { return time.Now().Add(f.skew) }

// Point kills the process, as kill -9 would, if a file of the program's and the
// point's name lies in the crash directory: "bidder.after-intent". The file goes
// to the directory's "hit" first, so that it works once, for one replica.
func (f Faults) Point(point string) {
	if f.crash == "" {
		return
	}
	name := f.program + "." + strings.ReplaceAll(point, " ", "-")
	if os.Rename(filepath.Join(f.crash, name), filepath.Join(f.crash, "hit", name)) != nil {
		return // nobody asked for it
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the kernel takes a moment
}

// Wrap puts a point before a shared consumer's handler and one after it, before
// the acknowledgement: "after failover on lease.launched".
func (f Faults) Wrap(s events.Subscription, h natsbus.Handler) natsbus.Handler {
	if f.crash == "" || s.Name == "" {
		return h
	}
	return func(ctx context.Context, e events.Event) error {
		row, _ := events.TypeOf(e.Fact)
		what := s.Name + " on " + row.Family + "." + row.Event
		f.Point("before " + what)
		err := h(ctx, e)
		f.Point("after " + what)
		return err
	}
}
