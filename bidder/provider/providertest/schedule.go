package providertest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// due is something that happens at a control time.
type due struct {
	at  time.Time
	seq int
	act func()
}

// schedule books act; f.mu is held. What is due by now happens at once.
func (f *Fake) schedule(at time.Time, act func()) {
	if !at.After(f.now.Control) {
		act()
		return
	}
	f.dueSeq++
	f.due = append(f.due, due{at, f.dueSeq, act})
	slices.SortFunc(f.due, func(a, b due) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.seq, b.seq)) })
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// settle makes everything happen that is due by now.
func (f *Fake) settle() {
	for len(f.due) > 0 && !f.due[0].at.After(f.now.Control) {
		next := f.due[0]
		f.due = f.due[1:]
		next.act()
	}
}

// Run makes scheduled things happen at their time rather than at the next call.
// It ends with ctx.
func (f *Fake) Run(ctx context.Context) error {
	for {
		wait := time.Hour
		f.do(func() {
			if len(f.due) > 0 {
				wait = f.due[0].at.Sub(f.now.Control)
			}
		})
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-f.wake:
			t.Stop()
		case <-t.C:
		}
	}
}

// At makes act happen at a control time, outside every lock, so that it may call the fake.
func (f *Fake) At(at time.Time, act func()) {
	f.do(func() { f.schedule(at, func() { f.told = append(f.told, act) }) })
}

// Kill ends an instance now. by is "seller" (a reclaim without notice),
// "machine" (it ended itself) or "fault".
func (f *Fake) Kill(id events.InstanceID, by string) {
	f.do(func() { f.end(f.machines[id], by) })
}

// Warn tells that the instance will be taken at deadline, and takes nothing.
func (f *Fake) Warn(id events.InstanceID, deadline time.Time) {
	f.do(func() { f.notify(provider.Notice{Instance: id, Deadline: deadline}) })
}

// ReclaimAt takes an instance back at a control time, with a notice so long before; 0 is none.
func (f *Fake) ReclaimAt(id events.InstanceID, at time.Time, notice time.Duration) {
	f.do(func() {
		m := f.machines[id]
		if m == nil {
			return
		}
		m.doomed = true
		if notice > 0 {
			f.schedule(at.Add(-notice), func() {
				if m.doomed {
					f.notify(provider.Notice{Instance: id, Deadline: at})
				}
			})
		}
		f.schedule(at, func() {
			if m.doomed {
				f.end(m, "seller")
			}
		})
	})
}

// Withdraw calls a reclaim off and says so.
func (f *Fake) Withdraw(id events.InstanceID) {
	f.do(func() {
		if m := f.machines[id]; m != nil && m.State != provider.Gone {
			m.doomed = false
			f.notify(provider.Notice{Instance: id, Deadline: f.now.Control, Withdrawn: true})
		}
	})
}

// ReclaimPool takes everything in a pool back now; the zero pool means every pool.
func (f *Fake) ReclaimPool(p events.Pool) {
	f.do(func() {
		for _, m := range f.sortedMachines() {
			if !m.alien && (p == events.Pool{} || m.Pool == p) {
				f.end(m, "seller")
			}
		}
	})
}

// listener is one call of Notices.
type listener struct{ in chan provider.Notice }

func (f *Fake) notify(n provider.Notice) {
	if m := f.machines[n.Instance]; m == nil || m.State == provider.Gone {
		return
	}
	for _, l := range f.listeners {
		select {
		case l.in <- n:
		default: // notices are hints; a listener that sleeps loses them
		}
	}
	if f.cfg.OnNotice != nil {
		f.told = append(f.told, func() { f.cfg.OnNotice(n) })
	}
}

// Notices implements provider.Notifier.
func (f *Fake) Notices(ctx context.Context, deliver func(provider.Notice)) error {
	c := f.begin(provider.OpNotices, "")
	if err := c.before(ctx); err != nil {
		return err
	}
	l := &listener{in: make(chan provider.Notice, 256)}
	f.do(func() { f.listeners = append(f.listeners, l) })
	defer f.do(func() {
		f.listeners = slices.DeleteFunc(f.listeners, func(x *listener) bool { return x == l })
	})
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-l.in:
			deliver(n)
			if c.Mode == Duplicate {
				deliver(n)
			}
		}
	}
}
