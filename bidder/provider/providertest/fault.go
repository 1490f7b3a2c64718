package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
)

// Mode is what goes wrong with one call.
type Mode uint8

// The modes. Those that act after the effect are the ones that leak money.
const (
	OK        Mode = iota
	Fail           // Kind, before anything happens
	FailAfter      // Kind, though it was done: the answer says no and a machine exists
	Lost           // done, and the answer never arrives: unknown outcome for a launch, transient for the rest
	Slow           // done at once, answered after For
	Hang           // done at once, never answered: the caller's context has to end
	Duplicate      // done twice: a launch makes two machines with one token
	Throttle       // refused as too fast, with RetryAfter For
	Garbage        // a proxy's HTML page instead of an answer, before anything happens
	Partial        // a list with a page missing, and it says so
)

// Fault is one row of a script.
type Fault struct {
	Mode Mode
	Kind provider.Kind // Fail, FailAfter
	For  time.Duration // Slow, Throttle
}

// Call is one call as a chaos function sees it.
type Call struct {
	Op    string
	N     int    // the n-th of this operation, from 1
	About string // token or instance id
}

// Script makes the next calls of op fail as told, one fault a call; with none,
// what is left of the script is forgotten.
func (f *Fake) Script(op string, faults ...Fault) {
	f.do(func() {
		if len(faults) == 0 {
			delete(f.scripts, op)
			return
		}
		f.scripts[op] = append(f.scripts[op], faults...)
	})
}

// Times is n times the same fault.
func Times(n int, fault Fault) []Fault {
	out := make([]Fault, n)
	for i := range out {
		out[i] = fault
	}
	return out
}

// call is one call under way.
type call struct {
	Call
	Fault
}

// begin counts the call and takes its fault from the script or from chaos.
func (f *Fake) begin(op, about string) call {
	var c call
	f.do(func() {
		f.calls[op]++
		c.Call = Call{Op: op, N: f.calls[op], About: about}
		if s := f.scripts[op]; len(s) > 0 {
			c.Fault, f.scripts[op] = s[0], s[1:]
		} else if f.cfg.Chaos != nil {
			c.Fault = f.cfg.Chaos(c.Call)
		}
		if f.locked && c.Mode == OK {
			c.Fault = Fault{Mode: Fail, Kind: provider.Auth}
		}
		if c.Mode != OK {
			f.faults[c.Mode]++
		}
	})
	return c
}

// before is the refusal of a call that does nothing.
func (c call) before(ctx context.Context) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, c.Op)
	}
	switch c.Mode {
	case Fail:
		return c.refusal(c.Kind, "scripted refusal")
	case Throttle:
		e := c.refusal(provider.Throttled, "rate exceeded")
		e.RetryAfter = c.For
		return e
	case Garbage:
		return errors.New("invalid character '<' looking for beginning of value: <html><head><title>502 Bad Gateway</title>" + strings.Repeat("<br>", 64))
	}
	return nil
}

// after waits as long as the answer takes and is the failure of a call that did what it was asked.
func (c call) after(ctx context.Context, takes time.Duration) error {
	if c.Mode == Slow {
		takes += c.For
	}
	if c.Mode == Hang {
		<-ctx.Done()
	}
	if takes > 0 {
		t := time.NewTimer(takes)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
	switch {
	case ctx.Err() != nil:
		return provider.Unanswered(c.Op, context.Cause(ctx))
	case c.Mode == Lost:
		return provider.Unanswered(c.Op, errors.New("connection reset by peer"))
	case c.Mode == FailAfter:
		e := c.refusal(c.Kind, "scripted refusal, after the effect")
		e.MaybeCreated = c.Op == provider.OpLaunch
		return e
	}
	return nil
}

func (c call) refusal(k provider.Kind, why string) *provider.Error {
	return &provider.Error{
		Kind: k, Op: c.Op, Scope: scopes[k], Message: why,
		Code: fmt.Sprintf("Fake%d", k),
	}
}

// scopes is what each kind usually affects.
var scopes = map[provider.Kind]string{
	provider.NoCapacity: "pool", provider.PriceTooLow: "pool", provider.OfferGone: "pool", provider.Quota: "region",
	provider.Throttled: "seller", provider.Auth: "account", provider.Transient: "seller",
}
