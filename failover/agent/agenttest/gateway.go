// Package agenttest has the agent's surroundings as small fakes that behave: a
// gateway that can be cut off, a seller that warns, a machine whose programs are
// functions, and a trainer that writes real checkpoints in virtual time. All of
// them run inside a testing/synctest bubble.
package agenttest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// ErrCut is what a gateway that cannot be reached answers.
var ErrCut = errors.New("no answer: the gateway is cut off")

// Gateway is agent.Control for one agent. Its fields are set before it is used;
// what has happened is read through its methods.
type Gateway struct {
	Joined events.JoinReply
	Now    func() time.Duration // stamps the record; nil: none
	hints  chan struct{}

	mu     sync.Mutex
	cut    bool
	fenced bool
	refuse map[events.Verb]*events.Refusal
	lose   map[events.Verb]int // answers still to be lost after their effect
	reply  events.RenewReply
	record Record
}

// Record is everything a gateway was asked that it let through.
type Record struct {
	Joins    int
	Beats    []events.Heartbeat
	BeatAt   []time.Duration
	Notices  []events.NoticeRequest
	Commits  []events.CommitRequest
	CommitAt []time.Duration
	Rejects  []events.RejectRequest
	Dones    []events.DoneRequest
	Troubles []events.TroubleRequest
	Lines    []events.LogLine
	Batches  []events.LogBatch
	Adopted  []int
}

// NewGateway returns a gateway that lets the agent join with this reply.
func NewGateway(join events.JoinReply, now func() time.Duration) *Gateway {
	return &Gateway{Joined: join, Now: now, hints: make(chan struct{}, 1), refuse: map[events.Verb]*events.Refusal{}, lose: map[events.Verb]int{}}
}

// Order sets what renewals say from now on, and hints at it.
func (g *Gateway) Order(o events.Order, id string, resume ...events.Checkpoint) {
	g.change(func() { g.reply.Order, g.reply.OrderID, g.reply.Resume = o, id, resume })
	g.Hint()
}

// Reply changes what renewals say from now on.
func (g *Gateway) Reply(f func(*events.RenewReply)) { g.change(func() { f(&g.reply) }) }

// Cut takes the gateway away, or brings it back.
func (g *Gateway) Cut(yes bool) { g.change(func() { g.cut = yes }) }

// Fence says from now on that the epoch is over.
func (g *Gateway) Fence() { g.change(func() { g.fenced = true }) }

// Refuse answers a verb with a refusal; nil ends that.
func (g *Gateway) Refuse(v events.Verb, r *events.Refusal) { g.change(func() { g.refuse[v] = r }) }

// Lose takes the next n requests of a verb and loses the answers.
func (g *Gateway) Lose(v events.Verb, n int) { g.change(func() { g.lose[v] = n }) }

// Hint tells the agent to renew.
func (g *Gateway) Hint() {
	select {
	case g.hints <- struct{}{}:
	default:
	}
}

func (g *Gateway) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// Record returns a copy of what has happened.
func (g *Gateway) Record() Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.record
	r.Beats, r.Notices, r.Commits = slices.Clone(r.Beats), slices.Clone(r.Notices), slices.Clone(r.Commits)
	r.Rejects, r.Dones, r.Lines = slices.Clone(r.Rejects), slices.Clone(r.Dones), slices.Clone(r.Lines)
	r.CommitAt, r.BeatAt = slices.Clone(r.CommitAt), slices.Clone(r.BeatAt)
	r.Troubles = slices.Clone(r.Troubles)
	r.Batches, r.Adopted = slices.Clone(r.Batches), slices.Clone(r.Adopted)
	return r
}

func (g *Gateway) now() time.Duration {
	if g.Now == nil {
		return 0
	}
	return g.Now()
}

// take lets a request through or says why not.
func (g *Gateway) take(ctx context.Context, v events.Verb, effect func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.cut:
		return ErrCut
	case g.fenced:
		return &events.Refusal{Code: events.RefusedFenced, Message: "this epoch is over"}
	case g.refuse[v] != nil:
		return g.refuse[v]
	}
	effect()
	if g.lose[v] > 0 {
		g.lose[v]--
		return ErrCut
	}
	return nil
}

// Hints implements agent.Control.
func (g *Gateway) Hints() <-chan struct{} { return g.hints }

// Join implements agent.Control.
func (g *Gateway) Join(ctx context.Context, _ events.JoinRequest) (events.JoinReply, error) {
	err := g.take(ctx, events.VerbJoin, func() { g.record.Joins++ })
	return g.Joined, err
}

// Renew implements agent.Control.
func (g *Gateway) Renew(ctx context.Context, h events.Heartbeat) (r events.RenewReply, err error) {
	err = g.take(ctx, events.VerbRenew, func() {
		g.record.Beats = append(g.record.Beats, h)
		g.record.BeatAt = append(g.record.BeatAt, g.now())
		r = g.reply
	})
	return r, err
}

// Notice implements agent.Control.
func (g *Gateway) Notice(ctx context.Context, r events.NoticeRequest) error {
	return g.take(ctx, events.VerbNotice, func() { g.record.Notices = append(g.record.Notices, r) })
}

// Commit implements agent.Control.
func (g *Gateway) Commit(ctx context.Context, r events.CommitRequest) error {
	return g.take(ctx, events.VerbCommit, func() {
		g.record.Commits = append(g.record.Commits, r)
		g.record.CommitAt = append(g.record.CommitAt, g.now())
	})
}

// Reject implements agent.Control.
func (g *Gateway) Reject(ctx context.Context, r events.RejectRequest) error {
	return g.take(ctx, events.VerbReject, func() { g.record.Rejects = append(g.record.Rejects, r) })
}

// Done implements agent.Control.
func (g *Gateway) Done(ctx context.Context, r events.DoneRequest) error {
	return g.take(ctx, events.VerbDone, func() { g.record.Dones = append(g.record.Dones, r) })
}

// Trouble implements agent.Control.
func (g *Gateway) Trouble(ctx context.Context, r events.TroubleRequest) error {
	return g.take(ctx, events.VerbTrouble, func() { g.record.Troubles = append(g.record.Troubles, r) })
}

// Log implements agent.Control.
func (g *Gateway) Log(ctx context.Context, b events.LogBatch) error {
	return g.take(ctx, events.VerbLog, func() {
		g.record.Batches = append(g.record.Batches, b)
		g.record.Lines = append(g.record.Lines, b.Lines...)
	})
}

// Adopt implements agent.Control.
func (g *Gateway) Adopt(epoch int, _ string) error {
	g.change(func() { g.record.Adopted = append(g.record.Adopted, epoch) })
	return nil
}
