package keyless

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Shop is what a Desk needs of an adapter. Errors are *provider.Error.
type Shop interface {
	// Look lists every machine that carries the mark. A page that fails after the
	// first makes it incomplete.
	Look(ctx context.Context) (Look, error)
	// Buy makes one machine for the record, fills in its start, price and terms, and
	// returns its id. An id beside an error is of something that should not be there.
	Buy(ctx context.Context, spec provider.LaunchSpec, r Record) (events.InstanceID, Record, error)
	// Destroy ends a machine. One that is gone may be NotFound.
	Destroy(ctx context.Context, id events.InstanceID) error
}

// Look is one look at everything of ours.
type Look struct {
	Sights   []Sight
	Complete bool
}

// Sight is a machine in a list.
type Sight struct {
	ID      events.InstanceID
	State   provider.State
	EndedBy string                 // by whom, of one that is Stopping or Gone
	Price   events.PerInstanceHour // at the moment; 0: the seller does not say
	Record  Record
}

// Config configures a Desk. Zero durations mean their defaults.
type Config struct {
	Mark   string
	Now    func() events.Moment
	Settle time.Duration // how long a new machine may be missing from lists; 180 s
	Memory time.Duration // how long an ended machine is listed; 2 h
	Log    *zap.Logger
}

// Desk sells one machine for a token. It is safe for concurrent use.
type Desk struct {
	cfg  Config
	shop Shop

	mu     sync.Mutex
	turns  map[string]chan struct{} // one purchase of a token at a time
	doubts map[string]doubt
	known  map[key]*machine
	looks  int // complete ones so far
}

// key tells machines apart even if a seller uses an id again.
type key struct {
	id    events.InstanceID
	token string
}

// doubt is a purchase of which nobody knows whether it happened.
type doubt struct {
	at    time.Time // control
	looks int
}

// looksOfAbsence is how many complete lists show that nothing is there.
const looksOfAbsence = 3

// Open opens a desk.
func Open(shop Shop, cfg Config) *Desk {
	if cfg.Settle == 0 {
		cfg.Settle = 180 * time.Second
	}
	if cfg.Memory == 0 {
		cfg.Memory = 2 * time.Hour
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Desk{cfg: cfg, shop: shop, turns: map[string]chan struct{}{}, doubts: map[string]doubt{}, known: map[key]*machine{}}
}

// Launch implements that method of provider.Provider.
func (d *Desk) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	none := provider.Instance{}
	if ctx.Err() != nil {
		return none, provider.HeldBack(ctx, provider.OpLaunch)
	}
	if err := check(spec, token); err != nil {
		return none, err
	}
	done, err := d.turn(ctx, token)
	if err != nil {
		return none, err
	}
	defer done()
	listing, err := d.List(ctx)
	if err != nil {
		return none, NotBought(err)
	}
	if m, ok := d.find(token); ok {
		return m, d.same(m, spec, token)
	}
	if !listing.Complete {
		return none, NotBought(&provider.Error{Kind: provider.Transient, Scope: "seller", Code: "incomplete", Message: "the list of machines is incomplete: whether one has this token cannot be told"})
	}
	if err := d.settled(token); err != nil {
		return none, err
	}
	return d.buy(ctx, spec, token)
}

func check(spec provider.LaunchSpec, token string) error {
	err := events.CheckToken("token", token)
	if err == nil && spec.MaxPrice <= 0 {
		err = fmt.Errorf("max_price is %s: name the most that an hour may cost", spec.MaxPrice)
	}
	if err != nil {
		return &provider.Error{Kind: provider.Invalid, Op: provider.OpLaunch, Pool: &spec.Pool, Code: "request", Err: err}
	}
	return nil
}

// NotBought is the error of a launch that never came to its purchase, made of that of
// what came before. It says nothing about an earlier one of the same token.
func NotBought(err error) error {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok {
		return provider.Unanswered(provider.OpLaunch, err)
	}
	out := *e
	out.Op, out.MaybeCreated = provider.OpLaunch, false
	if out.Kind == provider.UnknownOutcome {
		out.Kind = provider.Transient
	}
	if out.Err == nil {
		out.Err = fmt.Errorf("looking before buying: %w", provider.ErrHeldBack)
	} else if !errors.Is(out.Err, provider.ErrHeldBack) {
		out.Err = fmt.Errorf("looking before buying: %w: %w", provider.ErrHeldBack, out.Err)
	}
	return &out
}

// turn waits until no other purchase of the token is under way.
func (d *Desk) turn(ctx context.Context, token string) (done func(), err error) {
	for {
		d.mu.Lock()
		busy, taken := d.turns[token]
		if !taken {
			mine := make(chan struct{})
			d.turns[token] = mine
			d.mu.Unlock()
			return func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				delete(d.turns, token)
				close(mine)
			}, nil
		}
		d.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, provider.HeldBack(ctx, provider.OpLaunch)
		}
	}
}

// same refuses another request under a token that is taken.
func (d *Desk) same(i provider.Instance, spec provider.LaunchSpec, token string) error {
	d.mu.Lock()
	asked := ""
	if m := d.known[key{i.ID, token}]; m != nil {
		asked = m.Request
	}
	d.mu.Unlock()
	if asked == "" || asked == spec.Digest() {
		return nil
	}
	return &provider.Error{
		Kind: provider.Conflict, Op: provider.OpLaunch, Scope: "pool", Pool: &spec.Pool, Code: "token taken",
		Message: fmt.Sprintf("token %s is of another request, for %s: read that, or use another token", token, i.Pool),
	}
}

// settled refuses to buy again while an earlier purchase may still turn up.
func (d *Desk) settled(token string) error {
	now := d.cfg.Now().Control
	d.mu.Lock()
	defer d.mu.Unlock()
	since, doubtful := d.doubts[token]
	if !doubtful {
		return nil
	}
	left := since.at.Add(d.cfg.Settle).Sub(now)
	if left <= 0 && d.looks-since.looks >= looksOfAbsence {
		delete(d.doubts, token)
		return nil
	}
	return &provider.Error{
		Kind: provider.UnknownOutcome, Op: provider.OpLaunch, Code: "unsettled", RetryAfter: max(left, time.Second), MaybeCreated: true,
		Message: "an earlier purchase of this token was not answered and may still appear: nothing more is bought under it until lists have shown that it did not",
		Err:     provider.ErrHeldBack,
	}
}

func (d *Desk) buy(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	now := d.cfg.Now()
	r := Record{Token: token, Mark: d.cfg.Mark, Request: spec.Digest(), Pool: spec.Pool, Labels: spec.Labels}.At(now)
	id, r, err := d.shop.Buy(ctx, spec, r)
	if err == nil {
		m := d.remember(id, r, now)
		d.cfg.Log.Info("machine bought", zap.String("token", token), zap.String("instance", string(id)), zap.Stringer("pool", spec.Pool), zap.Stringer("price", r.Price))
		return m, nil
	}
	if id != "" {
		d.remember(id, r, now)
		d.spoil(ctx, id)
		return provider.Instance{}, err
	}
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Kind == provider.UnknownOutcome || e.MaybeCreated {
		d.mu.Lock()
		d.doubts[token] = doubt{now.Control, d.looks}
		d.mu.Unlock()
	}
	return provider.Instance{}, err
}

// spoilTime is how long a machine that came with a refusal is tried to be destroyed.
const spoilTime = 30 * time.Second

// spoil destroys what came with a refusal. The caller's context may have ended, and
// the machine costs money: it is not waited for.
func (d *Desk) spoil(ctx context.Context, id events.InstanceID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spoilTime)
	defer cancel()
	if err := d.Terminate(ctx, id); err != nil {
		d.cfg.Log.Error("a refused purchase left a machine that could not be destroyed", zap.String("instance", string(id)), zap.Error(err))
	}
}
