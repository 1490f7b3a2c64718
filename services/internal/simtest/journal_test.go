package simtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// journal is the seller as the control plane reaches it, with a note of every call.
type journal struct {
	provider.Provider
	w *world

	mu    sync.Mutex
	calls []*call
}

// call is one that reached the seller.
type call struct {
	op    string
	about string // token or instance
	at    time.Time
	done  time.Time // zero: it was never answered
	err   error
	list  *provider.Listing // of a list that was answered
}

func (j *journal) note(op, about string) *call {
	c := &call{op: op, about: about, at: time.Now()}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, c)
	return c
}

func (j *journal) answered(c *call, l *provider.Listing, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.done, c.list, c.err = time.Now(), l, err
}

// of returns the calls of one operation about one thing, oldest first.
func (j *journal) of(op, about string) []*call {
	var out []*call
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.calls {
		if c.op == op && c.about == about {
			out = append(out, c)
		}
	}
	return out
}

// open says whether a launch may have made a machine that nobody was told of.
func (c *call) open() bool {
	if c.done.IsZero() {
		return true
	}
	if c.err == nil {
		return false
	}
	e, ok := c.err.(*provider.Error) // the seller's own: nothing is around it yet
	return !ok || e.MaybeCreated || e.Kind == provider.UnknownOutcome
}

// lists counts the complete lists that were asked for in a stretch of time and have a
// machine, or have it not.
func (j *journal) lists(from, to time.Time, has bool, match func(provider.Instance) bool) int {
	n := 0
	for _, c := range j.calls {
		if c.op != provider.OpList || c.list == nil || !c.list.Complete || c.at.Before(from) || c.done.After(to) {
			continue
		}
		found := false
		for _, i := range c.list.Instances {
			found = found || match(i)
		}
		if found == has {
			n++
		}
	}
	return n
}

// Launch implements provider.Provider.
func (j *journal) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	turn("launch-" + token) // whoever waited for a limiter or a pause woke with others
	c := j.note(provider.OpLaunch, token)
	i, err := j.Provider.Launch(ctx, spec, token)
	j.answered(c, nil, err)
	return i, err
}

// Terminate implements provider.Provider.
func (j *journal) Terminate(ctx context.Context, id events.InstanceID) error {
	turn("terminate-" + string(id))
	c := j.note(provider.OpTerminate, string(id))
	if n := len(j.of(provider.OpTerminate, string(id))); j.w.chaotic() && j.w.chance.hits(j.w.opt.trouble.deaf, "deaf", id, n) {
		j.w.hits.add("seller: terminate accepted without effect")
		j.answered(c, nil, nil)
		return nil
	}
	err := j.Provider.Terminate(ctx, id)
	j.answered(c, nil, err)
	return err
}

// tear loses some machines of a list, and has it say so.
func (j *journal) tear(l *provider.Listing) {
	at := time.Now().UnixNano()
	if c := j.w.chance; j.w.chaotic() && c.hits(j.w.opt.trouble.partial, "partial", at) {
		j.w.hits.add("seller: list partial")
		l.Complete = false
		l.Instances = slices.DeleteFunc(l.Instances, func(i provider.Instance) bool { return c.hits(0.5, "torn", at, i.ID) })
	}
}

// List implements provider.Provider.
func (j *journal) List(ctx context.Context) (provider.Listing, error) {
	turn("list")
	c := j.note(provider.OpList, "")
	l, err := j.Provider.List(ctx)
	j.tear(&l)
	if err != nil {
		j.answered(c, nil, err)
	} else {
		j.answered(c, &l, nil)
	}
	return l, err
}

// wishes notes what the control plane wants, above everything that may hold it back.
type wishes struct {
	provider.Provider
	w *world
}

// Unwrap returns the seller.
func (s wishes) Unwrap() provider.Provider { return s.Provider }

// Launch implements provider.Provider.
func (s wishes) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	s.w.mu.Lock()
	s.w.wished[events.LeaseID(token)] = append(s.w.wished[events.LeaseID(token)], time.Now())
	s.w.mu.Unlock()
	return s.Provider.Launch(ctx, spec, token)
}

// deaf says whether the seller has accepted ends of a machine and done nothing, for longer than anybody
// should have to wait for one.
func (c *call) deaf(w *world, i providertest.Interval) bool {
	first := w.journal.of(provider.OpTerminate, string(i.Instance))[0]
	end := i.To.Control
	if end.IsZero() {
		end = time.Now()
	}
	return w.opt.trouble.deaf > 0 && end.Sub(first.at) > w.timers.GC/2
}
