package keyless

import (
	"context"
	"errors"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Living returns one of our machines that has not ended. Lists are asked if it is
// not known here.
func (d *Desk) Living(ctx context.Context, op string, id events.InstanceID) (provider.Instance, bool, error) {
	if m, ok := d.living(id); ok || d.knows(id) {
		return m, ok, nil
	}
	l, err := d.List(ctx)
	if err != nil {
		return provider.Instance{}, false, as(op, err)
	}
	m, ok := d.living(id)
	if !ok && !l.Complete {
		return m, false, &provider.Error{Kind: provider.Transient, Op: op, Scope: "seller", Code: "incomplete", Message: "the list of machines is incomplete: whose " + string(id) + " is cannot be told"}
	}
	return m, ok, nil
}

func as(op string, err error) error {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		out := *e
		out.Op = op
		return &out
	}
	return provider.Unanswered(op, err)
}

func (d *Desk) living(id events.InstanceID) (provider.Instance, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.sorted() {
		if m.id == id && m.ended.Control.IsZero() {
			return m.instance(), true
		}
	}
	return provider.Instance{}, false
}

func (d *Desk) knows(id events.InstanceID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.known {
		if k.id == id {
			return true
		}
	}
	return false
}

// Terminate implements that method of provider.Provider. What no list shows as ours
// is not touched, whoever asks.
func (d *Desk) Terminate(ctx context.Context, id events.InstanceID) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, provider.OpTerminate)
	}
	m, ours, err := d.Living(ctx, provider.OpTerminate, id)
	if err != nil || !ours {
		return err
	}
	if err := d.shop.Destroy(ctx, id); err != nil && provider.KindOf(err) != provider.NotFound {
		return err
	}
	at := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.known[key{id, m.Token}]; k != nil && k.asked.Control.IsZero() && k.ended.Control.IsZero() {
		k.asked, k.state = at, provider.Stopping
	}
	return nil
}

// Repriced takes the new price of a machine of ours.
func (d *Desk) Repriced(id events.InstanceID, price events.PerInstanceHour) {
	at := d.cfg.Now().Market
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.known {
		if m.id == id && m.ended.Control.IsZero() {
			m.reprice(price, at)
		}
	}
}
