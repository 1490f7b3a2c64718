package ops

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Book reads and adds to the decisions of organisations. It reads only what is
// new since it last looked, from the leader. It is safe for concurrent use; any
// number of processes may have one.
type Book struct {
	log    events.Log
	source string
	now    func() time.Time

	mu   sync.Mutex
	orgs map[events.OrgID]*page
}

// page is one organisation's decisions. Whoever asks the log has the turn.
type page struct {
	turn chan struct{}
	all  []events.Event // oldest first; there are few
	at   State          // after all of them
}

// NewBook returns a book over log. source is the ce-source of what it adds, now is control time.
func NewBook(log events.Log, source string, now func() time.Time) *Book {
	return &Book{log: log, source: source, now: now, orgs: map[events.OrgID]*page{}}
}

// State returns the decisions in force, as the leader has them.
func (b *Book) State(ctx context.Context, org events.OrgID) (State, error) {
	p, err := b.enter(ctx, org)
	if err != nil {
		return State{}, err
	}
	defer p.leave()
	if err := b.refresh(ctx, org, p); err != nil {
		return State{}, err
	}
	return p.at, nil
}

// At returns the decisions in force now and those that were when the event at a
// position of their stream was appended.
func (b *Book) At(ctx context.Context, org events.OrgID, position uint64) (then, now State, err error) {
	p, err := b.enter(ctx, org)
	if err != nil {
		return State{}, State{}, err
	}
	defer p.leave()
	if err := b.refresh(ctx, org, p); err != nil {
		return State{}, State{}, err
	}
	for _, e := range p.all {
		if e.Position < position {
			then = Fold(then, e)
		}
	}
	return then, p.at, nil
}

// maxTries bounds how often one decision is made anew. Each lost race means that
// somebody else got through, so it is reached only when something is wrong.
const maxTries = 1000

// Append adds what decide says on the decisions in force, and asks again when
// somebody else was faster. A nil fact adds nothing; an error of decide is
// returned as it is. It returns the state afterwards.
func (b *Book) Append(ctx context.Context, org events.OrgID, decide func(State) (events.Fact, error)) (State, error) {
	p, err := b.enter(ctx, org)
	if err != nil {
		return State{}, err
	}
	defer p.leave()
	for range maxTries {
		if err := b.refresh(ctx, org, p); err != nil {
			return State{}, err
		}
		fact, err := decide(p.at)
		if err != nil || fact == nil {
			return p.at, err
		}
		err = b.append(ctx, org, p, fact)
		switch {
		case err == nil:
			return p.at, nil
		case !errors.Is(err, events.ErrConflict) && !errors.Is(err, events.ErrUnknown):
			return State{}, fmt.Errorf("adding %T to the decisions of %s: %w", fact, org, err)
		case ctx.Err() != nil:
			return State{}, ctx.Err()
		}
	}
	return State{}, fmt.Errorf("adding to the decisions of %s: %d races lost in a row", org, maxTries)
}

func (b *Book) append(ctx context.Context, org events.OrgID, p *page, fact events.Fact) error {
	var prev *events.Event
	if n := len(p.all); n > 0 {
		prev = &p.all[n-1]
	}
	e, err := events.Follow(events.OpsAggregate(org), prev, fact)
	if err != nil {
		return err
	}
	e.Source, e.Time, e.Attribution = b.source, b.now(), events.Attribution{Org: org}
	if e, err = b.log.Append(ctx, p.position(), e); err != nil {
		return err
	}
	p.take(e)
	return nil
}

func (b *Book) enter(ctx context.Context, org events.OrgID) (*page, error) {
	b.mu.Lock()
	p, ok := b.orgs[org]
	if !ok {
		p = &page{turn: make(chan struct{}, 1)}
		b.orgs[org] = p
	}
	b.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *Book) refresh(ctx context.Context, org events.OrgID, p *page) error {
	fresh, err := b.log.Read(ctx, events.OpsAggregate(org), p.position())
	if err != nil {
		return fmt.Errorf("reading the decisions of %s: %w", org, err)
	}
	for _, e := range fresh {
		p.take(e)
	}
	return nil
}

func (p *page) take(e events.Event) {
	p.all = append(p.all, e)
	p.at = Fold(p.at, e)
}

func (p *page) position() uint64 {
	if n := len(p.all); n > 0 {
		return p.all[n-1].Position
	}
	return 0
}

func (p *page) leave() { <-p.turn }
