package rehearse

import (
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Figures are what a rehearsal measured. A field that is nil was not.
type Figures struct {
	StepsPerS *float64 `json:"steps_per_second"` // median, without saves
	StepMS    *float64 `json:"step_ms"`          // one over that
	// SavePauseMS is how long the trainer stands still for a save: the step beside
	// it took that much longer than others. SaveWriteMS is how long its files were
	// written for, whether it stood still or not.
	SavePauseMS *int64 `json:"save_pause_ms"`
	SaveWriteMS *int64 `json:"save_write_ms"`
	SaveSteps   *int64 `json:"save_every_steps"` // between two saves in its own rhythm

	CheckpointBytes *int64 `json:"checkpoint_bytes"` // of the newest
	CheckpointFiles *int   `json:"checkpoint_files"`
	UploadMS        *int64 `json:"upload_ms"` // from complete on disk to all of it in the store, here a directory

	SetupMS      *int64 `json:"setup_ms"`  // with inputs
	InputsMS     *int64 `json:"inputs_ms"` // of it: working directory and mounts
	RestoreMS    *int64 `json:"restore_ms"`
	FirstStepMS  *int64 `json:"first_step_ms"`  // from the script's start, fresh, to its first step
	ResumeStepMS *int64 `json:"resume_step_ms"` // the same from a checkpoint
	PeakBytes    *int64 `json:"peak_memory_bytes"`
	GPUPeakMiB   *int64 `json:"gpu_peak_memory_mib"` // of all its GPUs together, as their driver said
}

// Measure takes the figures of a run.
func Measure(r Run) Figures {
	h := r.History
	f := Figures{PeakBytes: positive(r.PeakBytes), GPUPeakMiB: positive(gpuPeak(h.Words))}
	if d := stepTime(r.Lives, h.Commits); d > 0 {
		rate, ms := float64(time.Second)/float64(d), float64(d)/float64(time.Millisecond)
		f.StepsPerS, f.StepMS = &rate, &ms
		f.SavePauseMS = pause(r.Lives, h.Commits, d)
	}
	if n := len(h.Commits); n > 0 {
		newest := h.Commits[n-1].Checkpoint
		f.CheckpointBytes, f.CheckpointFiles = &newest.Bytes, &newest.Files
		f.SaveWriteMS = median(h.Commits, func(c Commit) int64 { return c.SaveMS })
		f.UploadMS = median(h.Commits, func(c Commit) int64 { return c.UploadMS })
		f.SaveSteps = rhythm(h.Commits)
	}
	var fresh, resumed, once []Life
	for _, l := range r.Lives {
		if l.Started.IsZero() {
			continue
		}
		if l.Resumed {
			resumed = append(resumed, l)
		} else {
			fresh = append(fresh, l)
		}
		if !slices.ContainsFunc(once, func(o Life) bool { return o.Lease == l.Lease }) {
			once = append(once, l) // setup is not run again for a restart in place
		}
	}
	f.SetupMS = median(once, func(l Life) int64 { return l.Clock.SetupMS })
	f.InputsMS = median(once, func(l Life) int64 { return l.Clock.InputsMS })
	f.RestoreMS = median(resumed, func(l Life) int64 { return l.Clock.RestoreMS })
	f.FirstStepMS = median(fresh, func(l Life) int64 { return l.Clock.FirstStepMS })
	f.ResumeStepMS = median(resumed, func(l Life) int64 { return l.Clock.FirstStepMS })
	return f
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// median of none is nil; of an even number it is the higher of the middle two.
func median[T any](all []T, of func(T) int64) *int64 {
	if len(all) == 0 {
		return nil
	}
	v := make([]int64, len(all))
	for i, x := range all {
		v[i] = of(x)
	}
	slices.Sort(v)
	return &v[len(v)/2]
}

// gap is the time between two steps that were told one after the other.
type gap struct {
	from, to int64
	took     time.Duration
}

func gaps(l Life) (out []gap) {
	told := ordered(l.Told)
	for i := 1; i < len(told); i++ {
		a, b := told[i-1], told[i]
		if took := b.At.Sub(a.At); took > 0 {
			out = append(out, gap{a.Step, b.Step, took})
		}
	}
	return out
}

// stepTime is the median time of a step over the gaps without a save; 0: unknown.
func stepTime(lives []Life, commits []Commit) time.Duration {
	var each []time.Duration
	for _, l := range lives {
		for _, g := range gaps(l) {
			if _, saves := savedIn(g, l.Epoch, commits); !saves {
				each = append(each, g.took/time.Duration(g.to-g.from))
			}
		}
	}
	if len(each) == 0 {
		return 0
	}
	slices.Sort(each)
	return each[len(each)/2]
}

// savedIn says whether a checkpoint may have been written in a gap: it is of the
// step before it or of the step after, as a trainer tells a step before its save or after.
func savedIn(g gap, epoch int, commits []Commit) (step int64, saves bool) {
	for _, c := range commits {
		if c.Epoch == epoch && g.from <= c.Checkpoint.Step && c.Checkpoint.Step <= g.to {
			return c.Checkpoint.Step, true
		}
	}
	return 0, false
}

// pause is the median over saves of how much longer the gaps beside them took than
// their steps should have.
func pause(lives []Life, commits []Commit, step time.Duration) *int64 {
	var each []int64
	for _, l := range lives {
		longest := map[int64]int64{}
		for _, g := range gaps(l) {
			if at, saves := savedIn(g, l.Epoch, commits); saves {
				extra := (g.took - step*time.Duration(g.to-g.from)).Milliseconds()
				longest[at] = max(longest[at], extra, 0)
			}
		}
		for _, c := range commits { // in an order that is the same every time
			if extra, ok := longest[c.Checkpoint.Step]; ok && c.Epoch == l.Epoch {
				each = append(each, extra)
			}
		}
	}
	return median(each, func(n int64) int64 { return n })
}

// rhythm is the median number of steps between saves that followed one another in
// one life. The last before a move is not in the trainer's rhythm.
func rhythm(commits []Commit) *int64 {
	var each []int64
	for i := 1; i < len(commits); i++ {
		if a, b := commits[i-1], commits[i]; a.Epoch == b.Epoch && !b.Final && b.Checkpoint.Step > a.Checkpoint.Step {
			each = append(each, b.Checkpoint.Step-a.Checkpoint.Step)
		}
	}
	return median(each, func(n int64) int64 { return n })
}

func gpuPeak(words []events.JobLastWords) (most int64) {
	for _, w := range words {
		if w.Heartbeat == nil {
			continue
		}
		all := int64(0)
		for _, g := range w.Heartbeat.GPUs {
			all += g.MemUsedMiB
		}
		most = max(most, all)
	}
	return most
}

// Restart is what a start from a checkpoint takes once a machine is there: inputs,
// setup, restore, and the script up to its first step. False: some of it was not measured.
func (f Figures) Restart() (time.Duration, bool) {
	if f.SetupMS == nil || f.RestoreMS == nil || f.ResumeStepMS == nil {
		return 0, false
	}
	return time.Duration(*f.SetupMS+*f.RestoreMS+*f.ResumeStepMS) * time.Millisecond, true
}

// GPUs are the machine's, as their driver called them in what machines said last.
func (r Run) GPUs() []string {
	out := []string{}
	for _, w := range r.History.Words {
		if w.Heartbeat != nil && len(w.Heartbeat.GPUs) > len(out) {
			out = out[:0]
			for _, g := range w.Heartbeat.GPUs {
				out = append(out, g.Name)
			}
		}
	}
	return out
}
