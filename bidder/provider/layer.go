package provider

import (
	"context"

	"github.com/spotferry/spotferry/events"
)

// What a seller can be asked: the values of Error.Op and of the op label of metrics.
const (
	OpOffers    = "offers"
	OpLaunch    = "launch"
	OpTerminate = "terminate"
	OpList      = "list"
	OpRebid     = "rebid"
	OpMetered   = "metered"
	OpNotices   = "notices"
)

// Ops returns every operation, in the order of the contract.
func Ops() []string {
	return []string{OpOffers, OpLaunch, OpTerminate, OpList, OpRebid, OpMetered, OpNotices}
}

// layer is one wrapper: everything that is asked goes through around, which
// decides whether, when and how often do is called. It has the optional
// interfaces whatever it wraps; As and CapabilitiesOf say whether they lead anywhere.
type layer struct {
	next   Provider
	around func(ctx context.Context, op string, do func(context.Context) error) error
}

// Unwrap returns the provider underneath.
func (l *layer) Unwrap() Provider { return l.next }

// Capabilities are those of the provider underneath.
func (l *layer) Capabilities() Capabilities { return CapabilitiesOf(l.next) }

func (l *layer) Offers(ctx context.Context) ([]events.Offer, error) {
	return through(ctx, l, OpOffers, l.next.Offers)
}

func (l *layer) Launch(ctx context.Context, spec LaunchSpec, token string) (Instance, error) {
	return through(ctx, l, OpLaunch, func(ctx context.Context) (Instance, error) {
		return l.next.Launch(ctx, spec, token)
	})
}

func (l *layer) Terminate(ctx context.Context, id events.InstanceID) error {
	return l.around(ctx, OpTerminate, func(ctx context.Context) error { return l.next.Terminate(ctx, id) })
}

func (l *layer) List(ctx context.Context) (Listing, error) {
	return through(ctx, l, OpList, l.next.List)
}

func (l *layer) Rebid(ctx context.Context, id events.InstanceID, price events.PerInstanceHour) error {
	seller, ok := As[Rebidder](l.next)
	if !ok {
		return lacking(OpRebid)
	}
	return l.around(ctx, OpRebid, func(ctx context.Context) error { return seller.Rebid(ctx, id, price) })
}

func (l *layer) Metered(ctx context.Context, id events.InstanceID) (Reading, error) {
	seller, ok := As[Meter](l.next)
	if !ok {
		return Reading{}, lacking(OpMetered)
	}
	return through(ctx, l, OpMetered, func(ctx context.Context) (Reading, error) { return seller.Metered(ctx, id) })
}

func (l *layer) Notices(ctx context.Context, deliver func(Notice)) error {
	seller, ok := As[Notifier](l.next)
	if !ok {
		return lacking(OpNotices)
	}
	return l.around(ctx, OpNotices, func(ctx context.Context) error { return seller.Notices(ctx, deliver) })
}

func lacking(op string) *Error {
	return &Error{Kind: Invalid, Op: op, Scope: "seller", Message: "this seller has no such capability; ask CapabilitiesOf first"}
}

// through carries an answer out of around. An answer that comes with an error is dropped.
func through[A any](ctx context.Context, l *layer, op string, ask func(context.Context) (A, error)) (A, error) {
	var answer A
	err := l.around(ctx, op, func(ctx context.Context) error {
		var err error
		answer, err = ask(ctx)
		return err
	})
	if err != nil {
		var none A
		return none, err
	}
	return answer, nil
}

// As returns p as an optional interface (Rebidder, Meter, Notifier) or as
// anything else it is, looking through wrappers. A wrapper, or a remote client, counts
// as one of the three only if the seller behind it does.
func As[T any](p Provider) (T, bool) {
	for p != nil {
		if t, ok := p.(T); ok && advertised[T](p) {
			return t, true
		}
		w, ok := p.(interface{ Unwrap() Provider })
		if !ok {
			break
		}
		p = w.Unwrap()
	}
	var none T
	return none, false
}

func advertised[T any](p Provider) bool {
	c, ok := p.(interface{ Capabilities() Capabilities })
	if !ok {
		return true
	}
	switch any((*T)(nil)).(type) {
	case *Rebidder:
		return c.Capabilities().Rebid
	case *Meter:
		return c.Capabilities().Meter
	case *Notifier:
		return c.Capabilities().Notices
	}
	return true
}
