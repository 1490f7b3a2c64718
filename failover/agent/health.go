package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
)

// health is what is known of the machine itself. All of it is the loop's.
type health struct {
	bad         *finding // the machine is faulty, for as long as it lives
	kernel      []string // the newest lines of the kernel's log that may matter
	kernelRead  time.Duration
	reading     bool // the kernel's log is being read
	gpus        gpuWatch
	gpusKnown   chan struct{} // closed when the first samples have been judged; nil: there are none
	outOfMemory time.Duration // when the kernel last killed a process for want of memory
	lookFull    bool          // a checkpoint could not be held for want of room
	probeFull   bool          // nor could a small file be written
	counted     bool          // gpusKnown is closed
	failing     int           // probes in a row that found the disk broken
}

// lookAfterMachine starts what watches the machine, as far as it is configured.
func (a *agent) lookAfterMachine() {
	if a.cfg.KernelLog != "" {
		k, err := openKernelLog(a.cfg.KernelLog)
		if err != nil {
			a.cfg.Log.Info("the kernel's log is not read", zap.Error(err))
		} else {
			a.reading = true
			a.spawn(func(ctx context.Context) { a.followKernel(ctx, k) })
		}
	}
	if a.cfg.NvidiaSMI != "" {
		a.spawn(a.sampleGPUs)
	}
	if a.cfg.Probe != nil {
		a.spawn(a.probeDisk)
	}
}

// everySo calls f at once and then again and again, until ctx ends or it says no.
func (a *agent) everySo(ctx context.Context, part string, pause time.Duration, f func() bool) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		a.cfg.Turn(part)
		if !f() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *agent) followKernel(ctx context.Context, k *kernelLog) {
	defer k.close()
	a.everySo(ctx, "kernel", a.cfg.WatchEvery, func() bool {
		at := a.now()
		lines, err := k.news()
		a.post(func() { a.kernelSaid(lines, at, err == nil) })
		if err != nil {
			a.cfg.Log.Warn("the kernel's log is not read any more", zap.Error(err))
		}
		return err == nil
	})
}

// kernelSaid takes new lines of the kernel's log.
func (a *agent) kernelSaid(lines []string, at time.Duration, more bool) {
	a.kernelRead, a.reading = at, more
	var faults []string
	for _, l := range lines {
		x, ok := parseXid(l)
		fault := x.fault()
		if switchFault.MatchString(l) {
			fault = "an NVSwitch failed"
		}
		if fault != "" {
			faults = append(faults, fault)
		}
		if killedForMemory.MatchString(l) {
			a.outOfMemory = max(at, 1)
		}
		if ok || fault != "" || killedForMemory.MatchString(l) || diskTells.MatchString(l) {
			a.kernel = append(a.kernel, bound(l, maxEvidenceLine))
			a.kernel = a.kernel[max(0, len(a.kernel)-20):]
			a.say("kernel: " + l)
		}
	}
	if len(faults) > 0 {
		a.blame(a.gpuFault(faults[0], a.kernelLines()))
	}
}

func (a *agent) kernelLines() []string { return slices.Clone(a.kernel) }

// kernelHeard reports whether the kernel's log has been looked at since a moment:
// what ended a trainer may be in it.
func (a *agent) kernelHeard(since time.Duration) bool {
	return !a.reading || a.kernelRead > since
}

func (a *agent) sampleGPUs(ctx context.Context) {
	s := &sampler{path: a.cfg.NvidiaSMI, processes: a.cfg.Processes, dir: a.place.base, env: systemEnvironment(a.cfg.Env), timeout: a.cfg.SampleEvery}
	said := ""
	a.everySo(ctx, "gpus", a.cfg.SampleEvery, func() bool {
		gpus, err := s.sample(ctx)
		if ctx.Err() != nil {
			return false
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != said {
			a.cfg.Log.Info("sampling GPUs", zap.Error(err))
		}
		said = text
		a.beat.update(func(h *events.Heartbeat) { h.GPUs = gpus })
		a.post(func() { a.sampled(gpus, err) })
		return !errors.Is(err, os.ErrNotExist)
	})
}

func (a *agent) sampled(gpus []events.GPUSample, err error) {
	what := a.gpus.judge(gpus, err)
	if what != "" {
		a.blame(a.gpuFault(what, a.kernelLines()))
	}
	unknown := err != nil && !errors.Is(err, errGPUGone)
	if !a.counted && (what != "" || unknown || a.gpus.absent == 0) {
		a.counted = true
		close(a.gpusKnown)
	}
}

// awaitGPUs waits until it is known whether the machine has the GPUs that the job
// asked for. On one that lacks some the trainer would fail in ways that look like its own.
func (a *agent) awaitGPUs(ctx context.Context) error {
	if a.gpusKnown == nil {
		return nil
	}
	select {
	case <-a.gpusKnown:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// systemEnvironment is what a program of the system needs of the agent's own.
func systemEnvironment(env []string) []string {
	return []string{"PATH=" + searchPath(Config{Env: env}), "LC_ALL=C"}
}

// Probe writes a little in dir and makes sure that it is there.
type Probe func(dir string) error

// ProbeDisk is Probe by a small file, flushed to the disk and removed.
func ProbeDisk(dir string) (err error) {
	path := dir + "/.probe-" + strconv.Itoa(os.Getpid())
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(path))
}

func (a *agent) probeDisk(ctx context.Context) {
	a.everySo(ctx, "disk", a.cfg.ProbeEvery, func() bool {
		err := a.cfg.Probe(a.place.base)
		a.post(func() { a.probed(err) })
		return true
	})
}

// probed takes what a probe of the disk showed. One error may be a moment's; two
// in a row are the disk's end.
func (a *agent) probed(err error) {
	a.probeFull = noRoom(err)
	if err == nil {
		a.lookFull, a.failing = false, 0 // the next look says it again if it is so
	}
	if !diskFault(err) {
		return
	}
	if a.failing++; a.failing >= 2 {
		a.blame(a.hostFault("the machine's disk cannot be written", err))
	}
}

// noRoom reports whether err means that a disk is full.
func noRoom(err error) bool {
	return errors.Is(err, checkpoint.ErrNoSpace) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func (a *agent) diskFull() bool { return a.lookFull || a.probeFull }

// tellTrouble has renewals tell why saves stand still, or that they do not.
func (a *agent) tellTrouble() {
	what := ""
	switch {
	case a.diskFull():
		what = "the machine's disk is full: no new checkpoint can be kept, the last committed one stays"
	case a.ship.full > 0:
		what = "the checkpoint store is full: new checkpoints wait, the last committed one stays"
	}
	was := a.beat.get().Trouble
	if was == what {
		return
	}
	a.beat.update(func(h *events.Heartbeat) { h.Trouble = what })
	if what == "" {
		what = fmt.Sprintf("saves go on: %s is over", was)
	}
	a.say(what)
	a.cfg.Log.Warn("saves", zap.String("trouble", what))
	a.renewSoon()
}
