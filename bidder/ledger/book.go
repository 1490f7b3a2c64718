package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Draft is a money event that somebody wants to add.
type Draft struct {
	Fact        events.Fact
	Attribution events.Attribution
	Correlation events.JobID
	Causation   events.EventID
	Finality    events.Finality // "" is final
}

// Book keeps the folded money of organisations and adds to it. It reads only
// what is new since it last looked. It is safe for concurrent use; N processes
// may each have one, because every append is a compare-and-set against the fold
// that was decided on.
type Book struct {
	log    events.Log
	source string
	now    func() time.Time

	mu   sync.Mutex
	orgs map[events.OrgID]*page
}

// page is one organisation's money. Whoever reads or adds has the turn, and may
// have it for as long as the log takes to answer. A thousand jobs that lose their
// machines at once all want it, so nobody asks the log what somebody else has
// been answered since.
type page struct {
	turn  chan struct{} // full while somebody has it
	state *State
	asked atomic.Uint64 // questions to the log so far
	known uint64        // the newest of them that was answered: the fold is as new as that
}

func (p *page) enter(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *page) leave() { <-p.turn }

// NewBook returns a book over log. source is the ce-source of what it adds, now is control time.
func NewBook(log events.Log, source string, now func() time.Time) *Book {
	return &Book{log: log, source: source, now: now, orgs: map[events.OrgID]*page{}}
}

func (b *Book) page(org events.OrgID) *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.orgs[org]
	if !ok {
		p = &page{turn: make(chan struct{}, 1), state: &State{}}
		b.orgs[org] = p
	}
	return p
}

// View brings the fold up to date and calls read with it. read must not keep it.
func (b *Book) View(ctx context.Context, org events.OrgID, read func(*State)) error {
	p := b.page(org)
	before := p.asked.Load()
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.leave()
	if p.known <= before { // no question was asked and answered while we waited
		if err := b.refresh(ctx, org, p); err != nil {
			return err
		}
	}
	read(p.state)
	return nil
}

// Peek calls read with the fold as it was last seen. What another process added since is missing.
func (b *Book) Peek(org events.OrgID, read func(*State)) {
	p := b.page(org)
	p.turn <- struct{}{}
	defer p.leave()
	read(p.state)
}

// maxTries bounds how often one append is decided anew. Each lost race means
// that somebody else got through, so it is reached only when something is wrong.
const maxTries = 1000

// Append asks decide what to add, and adds it if nobody came between; else it
// brings the fold up to date and asks again. decide returns a nil draft when there is
// nothing to add, or an error, which is returned as it is; neither is taken for an
// answer of a fold that may be old. It must see for itself that its effect is already
// there: after a lost answer it is asked again. The event is zero when nothing was added.
func (b *Book) Append(ctx context.Context, org events.OrgID, decide func(*State) (*Draft, error)) (events.Event, error) {
	p := b.page(org)
	if err := p.enter(ctx); err != nil {
		return events.Event{}, err
	}
	defer p.leave()
	fresh := false // brought up to date by this call
	for range maxTries {
		if !fresh && p.state.Sequence() == 0 {
			if err := b.refresh(ctx, org, p); err != nil {
				return events.Event{}, err
			}
			fresh = true
		}
		draft, err := decide(p.state)
		if err != nil || draft == nil {
			if fresh {
				return events.Event{}, err
			}
			if err := b.refresh(ctx, org, p); err != nil {
				return events.Event{}, err
			}
			fresh = true
			continue
		}
		e, err := b.add(ctx, org, p, *draft)
		switch {
		case err == nil:
			return e, p.state.Apply(e)
		case !errors.Is(err, events.ErrConflict) && !errors.Is(err, events.ErrUnknown):
			return events.Event{}, fmt.Errorf("adding %T to the money of %s: %w", draft.Fact, org, err)
		case ctx.Err() != nil:
			return events.Event{}, ctx.Err()
		}
		if err := b.refresh(ctx, org, p); err != nil {
			return events.Event{}, err
		}
		fresh = true
	}
	return events.Event{}, fmt.Errorf("adding to the money of %s: %d races lost in a row", org, maxTries)
}

// add appends behind the fold. That the log takes it proves the fold to be the newest.
func (b *Book) add(ctx context.Context, org events.OrgID, p *page, d Draft) (events.Event, error) {
	e, err := b.follow(org, p.state, d)
	if err != nil {
		return events.Event{}, err
	}
	question := p.asked.Add(1)
	e, err = b.log.Append(ctx, p.state.last.Position, e)
	if err == nil {
		p.known = question
	}
	return e, err
}

func (b *Book) follow(org events.OrgID, s *State, d Draft) (events.Event, error) {
	var prev *events.Event
	if s.last.Sequence > 0 {
		prev = &s.last
	}
	e, err := events.Follow(events.MoneyAggregate(org), prev, d.Fact)
	if err != nil {
		return events.Event{}, err
	}
	// The event before may belong to another job: nothing of it is inherited.
	e.Source, e.Time = b.source, b.now()
	e.Attribution, e.Correlation, e.Causation = d.Attribution, string(d.Correlation), d.Causation
	if d.Finality != "" {
		e.Finality = d.Finality
	}
	return e, nil
}

// refresh applies what is new. A fold that no longer fits the log is thrown
// away and built anew once, so that only a log that is wrong itself is an error.
func (b *Book) refresh(ctx context.Context, org events.OrgID, p *page) error {
	question := p.asked.Add(1)
	err := b.catchUp(ctx, org, p.state)
	var broken *ChainError
	if errors.As(err, &broken) && p.state.Sequence() > 0 {
		p.state = &State{}
		err = b.catchUp(ctx, org, p.state)
	}
	if err == nil {
		p.known = question
	}
	return err
}

func (b *Book) catchUp(ctx context.Context, org events.OrgID, s *State) error {
	fresh, err := b.log.Read(ctx, events.MoneyAggregate(org), s.last.Position)
	if err != nil {
		return fmt.Errorf("reading the money of %s: %w", org, err)
	}
	for _, e := range fresh {
		if err := s.Apply(e); err != nil {
			return err
		}
	}
	return nil
}
