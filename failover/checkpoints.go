package failover

import (
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Which checkpoints a job keeps, and who says so. Dropping one is a fact of the
// job's own record, so that it and every pin, commit and placement stand in one
// order; its objects are deleted later, by whoever reads that it was dropped.
type (
	// Pin keeps a checkpoint whatever the policy says. A Holder is one restore,
	// which renews its pin while it lasts; "" is people's own.
	Pin struct {
		Name, Holder, By, Reason string
		Until                    time.Time // control time; zero: until it is taken off
	}
	// Unpin takes a pin off.
	Unpin struct{ Name, Holder, By, Reason string }
	// Drop gives checkpoints up for good.
	Drop struct {
		Names      []string
		By, Reason string
	}
	// Collect drops what the policy does not keep any longer. By and Reason are of the person who asked, if one did.
	Collect struct {
		Retention
		By, Reason string
	}
	// Verified is Committed of a checkpoint that was looked at when Drops
	// checkpoints of the job had been dropped. With any dropped since, it
	// changes nothing: what it relies on may be going, and is to be looked at again.
	Verified struct {
		Committed
		Drops int
	}
)

// Retention says how long what nothing else keeps is kept, in control time.
type Retention struct {
	Evidence time.Duration // a checkpoint that did not restore
	Result   time.Duration // an ended job's newest; 0: until somebody drops it
}

// Held is a pin in force.
type Held struct {
	Name, Holder, By, Reason string
	At, Until                time.Time
}

// Dropped is a checkpoint that is gone.
type Dropped struct {
	Name       string
	At         time.Time // control time
	By, Reason string
}

// What a running job keeps beside what is pinned. A writer may rely on the
// checkpoint before the newest while it does not know yet that the newest is true.
const (
	keepDefault = 3
	keepLeast   = 2
)

// mostDropped bounds one event.
const mostDropped = 500

// keeps is how many good checkpoints the policy keeps, not counting pinned ones beyond them.
func (j Job) keeps() int {
	switch n := j.Spec.Policy.Checkpoint.Keep; {
	case j.Over():
		return 1 // the result
	case n == 0:
		return keepDefault
	default:
		return max(n, keepLeast)
	}
}

// dropped returns how a checkpoint went, or nil.
func (j Job) dropped(name string) *Dropped {
	i := slices.IndexFunc(j.Drops, func(d Dropped) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &j.Drops[i]
}

// Pinned returns a pin that keeps a checkpoint at a time, people's own first; nil if nothing does.
func (j Job) Pinned(name string, now time.Time) *Held {
	var found *Held
	for i, p := range j.Pins {
		if p.Name == name && p.inForce(now) && (found == nil || p.Holder == "") {
			found = &j.Pins[i]
		}
	}
	return found
}

func (h Held) inForce(now time.Time) bool { return h.Until.IsZero() || now.Before(h.Until) }

// Kept lists the committed checkpoints that are not dropped, oldest first: what
// must be whole in the store, but for those that did not restore.
func (j Job) Kept() []events.Checkpoint {
	gone := j.gone(false)
	return slices.DeleteFunc(slices.Clone(j.Commits), func(c events.Checkpoint) bool { return gone[c.Name] })
}

// gone is the set of what is dropped and, if bad, of what did not restore.
func (j Job) gone(bad bool) map[string]bool {
	gone := make(map[string]bool, len(j.Drops)+len(j.Rejected))
	for _, d := range j.Drops {
		gone[d.Name] = true
	}
	if bad {
		for _, n := range j.Rejected {
			gone[n] = true
		}
	}
	return gone
}

// restoring says whether some machine may be restoring any checkpoint of the
// job: one is on its way and fetches ahead, or the one that has the job has not
// committed in its epoch yet, so that nobody knows which it restored.
func (j Job) restoring() bool {
	if j.Over() {
		return false
	}
	return j.Next != nil || j.Current != nil &&
		!slices.ContainsFunc(j.Commits, func(c events.Checkpoint) bool { return c.Epoch == j.Epoch })
}

// Collectable lists what the policy drops now, oldest first, and why.
func (j Job) Collectable(now time.Time, r Retention) (names []string, reason string) {
	if j.restoring() {
		return nil, ""
	}
	stays := map[string]bool{}
	good := j.Resume()
	for i, c := range good {
		stays[c.Name] = i < j.keeps() && !(j.Over() && r.Result > 0 && !now.Before(j.Ended.Add(r.Result)))
	}
	for i, n := range j.Rejected {
		stays[n] = now.Before(j.RejectAt[i].Add(r.Evidence))
	}
	for _, c := range j.Kept() {
		if !stays[c.Name] && j.Pinned(c.Name, now) == nil && len(names) < mostDropped {
			names = append(names, c.Name)
		}
	}
	if reason = "policy.checkpoint.keep"; j.Over() {
		reason = "the job has ended"
	}
	return names, reason
}

// retain carries out what people and the collection want of checkpoints; Refuse
// has let a person's act pass.
func (s *stepper) retain(in Input) {
	j, now := s.j, s.now.Control
	if Refuse(j, s.now, in) != nil {
		return
	}
	switch in := in.(type) {
	case Collect:
		if names, reason := j.Collectable(now, in.Retention); len(names) > 0 {
			if in.Reason != "" {
				reason += ": " + in.Reason
			}
			s.record(events.JobCheckpointsDropped{Names: names, Reason: reason, By: in.By})
		}
	case Drop:
		names := slices.DeleteFunc(slices.Clone(in.Names), func(n string) bool { return j.dropped(n) != nil })
		if len(names) > 0 {
			s.record(events.JobCheckpointsDropped{Names: names, Reason: in.Reason, By: in.By})
		}
	case Pin:
		if !j.holdsPin(in, now) {
			s.record(events.JobCheckpointPinned{Name: in.Name, Pinned: true, Holder: in.Holder, By: in.By, Reason: in.Reason, Until: in.Until})
		}
	case Unpin:
		if slices.ContainsFunc(j.Pins, func(p Held) bool { return p.Name == in.Name && p.Holder == in.Holder && p.inForce(now) }) {
			s.record(events.JobCheckpointPinned{Name: in.Name, Holder: in.Holder, By: in.By, Reason: in.Reason})
		}
	}
}

// holdsPin says whether the very same pin is in force.
func (j Job) holdsPin(in Pin, now time.Time) bool {
	return slices.ContainsFunc(j.Pins, func(p Held) bool {
		return p.inForce(now) && p.Until.Equal(in.Until) && in == Pin{p.Name, p.Holder, p.By, p.Reason, in.Until}
	})
}

func foldPinned(j Job, f events.JobCheckpointPinned, at time.Time) Job {
	j.Pins = slices.DeleteFunc(slices.Clone(j.Pins), func(p Held) bool {
		return !p.inForce(at) || p.Name == f.Name && p.Holder == f.Holder
	})
	j.Unpinned = f
	if f.Pinned && j.committed(f.Name) != nil && j.dropped(f.Name) == nil {
		j.Pins = append(j.Pins, Held{Name: f.Name, Holder: f.Holder, By: f.By, Reason: f.Reason, At: at, Until: f.Until})
		j.Unpinned = events.JobCheckpointPinned{}
	}
	return j
}

func foldDropped(j Job, f events.JobCheckpointsDropped, at time.Time) Job {
	j.Drops = slices.Clone(j.Drops)
	for _, n := range f.Names {
		if j.committed(n) != nil && j.dropped(n) == nil {
			j.Drops = append(j.Drops, Dropped{Name: n, At: at, By: f.By, Reason: f.Reason})
		}
	}
	return j
}
