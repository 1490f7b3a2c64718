package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/input"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
)

// Changes returns a channel that gets a value soon after a file in dir is
// replaced or written, and is closed some time after ctx ended. A value that is
// not taken in time is worth as much as many.
type Changes func(ctx context.Context, dir string) (<-chan struct{}, error)

// Config is what an agent is made of. The zero value of a field means the
// default given beside it.
type Config struct {
	Bootstrap events.Bootstrap
	Dir       string // absolute; the job's directory, its home and everything else of the machine is made in it

	Control   Control
	Metadata  Metadata // nil: this machine has no notices
	Processes Processes
	OpenStore func(events.StoreGrant) (checkpoint.Store, error) // OpenStore
	// OpenSource opens what file_mounts name; input.Open.
	OpenSource func(input.Source, input.OpenConfig) (input.Remote, error)

	// InputCache is a directory where this machine keeps what jobs read for the
	// jobs after them; "": the one that the grant gives, if that is here.
	InputCache string
	InputLimit int64 // bytes of it; 0: as package input says

	Executable string   // absolute path of this program; its directory comes first in the trainer's PATH
	Env        []string // the agent's own environment, of which the trainer gets a known few

	NoticeEvery time.Duration // between looks for a notice; 500 ms, at most 1 s
	NoticeCap   time.Duration // the longest warning the seller gives; 120 s
	WatchEvery  time.Duration // between looks at the checkpoint directory; 150 ms
	ReadEvery   time.Duration // between looks at the trainer's progress file; WatchEvery
	Changes     Changes       // tells of new progress at once; nil: it is found by looking
	TellEvery   time.Duration // least time between renewals that only tell a step; a 25th of a heartbeat
	Quiet       time.Duration // how long a checkpoint must be still to be complete; 2 s, negative: two looks
	LogEvery    time.Duration // between batches of output; 250 ms
	NvidiaSMI   string        // path of nvidia-smi; "": this machine's GPUs are not looked at
	SharedGPUs  bool          // this machine is a part of another: how many GPUs there are says nothing
	SampleEvery time.Duration // between samples of the GPUs, and the longest that one may take; a heartbeat, at least 5 s
	KernelLog   string        // KernelLogPath, or a file like it; "": what the kernel says is not read
	// Load tells what the machine's processors do, so that uploads leave them to
	// the trainer; nil: only the link is shared.
	Load       func() (Load, bool)
	Probe      Probe         // tells whether the machine's disk still takes what is written; nil: that is found out by writing
	ProbeEvery time.Duration // between probes; 30 s
	Grace      time.Duration // from SIGTERM to SIGKILL, and a third of what a save without a deadline may take; 10 s

	Now func() time.Time // the wall clock, for stamps only; time.Now
	// Elapsed is the machine's monotonic clock from any origin. It goes on while
	// the machine is suspended; CLOCK_BOOTTIME. A test in a bubble passes time.Since.
	Elapsed func() time.Duration
	Log     *zap.Logger // none: silence

	// Turn, if set, is called before each timer-driven round of the named part: a
	// simulation gives every part its own instant.
	Turn func(part string)
}

// Validate reports what is missing or out of range, and what to give instead.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("agent: "+format, args...))
		}
	}
	if err := checkBootstrap(c.Bootstrap); err != nil {
		errs = append(errs, fmt.Errorf("agent: %w", err))
	}
	refuse(!filepath.IsAbs(c.Dir), "Dir is %q: give the absolute path of a directory on this machine", c.Dir)
	refuse(c.Control == nil, "Control is nil: give a connection to the gateway")
	refuse(c.Processes == nil, "Processes is nil: give NewLinux()")
	refuse(c.Executable != "" && !filepath.IsAbs(c.Executable), "Executable is %q: give an absolute path", c.Executable)
	refuse(c.NoticeEvery < 0 || c.NoticeEvery > time.Second, "NoticeEvery is %v: give at most 1s, sellers warn for as little as 30s", c.NoticeEvery)
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"NoticeCap", c.NoticeCap}, {"WatchEvery", c.WatchEvery}, {"ReadEvery", c.ReadEvery}, {"TellEvery", c.TellEvery}, {"LogEvery", c.LogEvery}, {"Grace", c.Grace}, {"SampleEvery", c.SampleEvery}, {"ProbeEvery", c.ProbeEvery}} {
		refuse(d.value < 0, "%s is %v: give a duration from 0", d.name, d.value)
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.NoticeEvery, 500 * time.Millisecond},
		{&c.NoticeCap, 2 * time.Minute},
		{&c.WatchEvery, 150 * time.Millisecond},
		{&c.Quiet, 2 * time.Second},
		{&c.LogEvery, 250 * time.Millisecond},
		{&c.Grace, 10 * time.Second},
		{&c.SampleEvery, max(c.Bootstrap.Timers.Heartbeat, 5*time.Second)},
		{&c.ProbeEvery, 30 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.ReadEvery == 0 {
		c.ReadEvery = c.WatchEvery
	}
	c.Quiet = max(c.Quiet, 0)
	if c.OpenStore == nil {
		c.OpenStore = OpenStore
	}
	if c.OpenSource == nil {
		c.OpenSource = input.Open
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Elapsed == nil {
		c.Elapsed = bootTime
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Turn == nil {
		c.Turn = func(string) {}
	}
	c.Log = c.Log.With(zap.String("job", string(c.Bootstrap.Job)), zap.Int("epoch", c.Bootstrap.Epoch), zap.String("lease", string(c.Bootstrap.Lease)))
	return c
}

// OpenStore opens what a grant names, as far as it needs no vendor's software.
func OpenStore(g events.StoreGrant) (checkpoint.Store, error) {
	if g.Kind != "dir" {
		return nil, fmt.Errorf("store of kind %q: this agent knows dir; update the agent", g.Kind)
	}
	return dir.Open(dir.Config{Path: g.Path})
}
