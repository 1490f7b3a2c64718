package provider

import (
	"errors"
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Kind says what a caller can do about a provider's failure. Adapters map every
// seller's error to one Kind.
type Kind uint8

// The eleven kinds. The zero value is the safe one.
const (
	UnknownOutcome Kind = iota // sent, answer lost or unclassified: reconcile by token before anything else
	NoCapacity                 // the pool is empty: cool it down, try another
	PriceTooLow                // under the market: refresh, raise within budget, or another pool
	OfferGone                  // lost the race: search again
	Quota                      // the account's limit: block the scope, tell a person
	Throttled                  // too fast: wait, slow the shared limiter
	Auth                       // keys, rights or funds: stop this seller, tell a person
	Invalid                    // our request is wrong: never repeat as it is
	Conflict                   // name or token taken: read what is there
	NotFound                   // gone, or not visible yet: success for Terminate
	Transient                  // their trouble: a few repeats; the only kind, with lost answers, that trips a breaker
)

var kindNames = [...]string{
	"unknown_outcome", "no_capacity", "price_too_low", "offer_gone", "quota", "throttled",
	"auth", "invalid", "conflict", "not_found", "transient",
}

// String is the kind's name in events, logs and metrics.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[UnknownOutcome]
}

// ParseKind reads what String writes; anything else is UnknownOutcome.
func ParseKind(s string) Kind {
	for i, n := range kindNames {
		if n == s {
			return Kind(i)
		}
	}
	return UnknownOutcome
}

// Error is a seller's failure in our terms.
type Error struct {
	Kind         Kind
	Op           string        // "offers", "launch", "terminate", "list", ...
	Scope        string        // what is affected: "pool", "zone", "region", "account", "seller"
	Pool         *events.Pool  // with scope "pool"
	RetryAfter   time.Duration // the seller's own wish; 0: none
	Code         string        // the seller's code, for people
	Message      string
	MaybeCreated bool // a machine may exist under the token
	Err          error
}

// Error says what was attempted, what it means, and the seller's words.
func (e *Error) Error() string {
	s := e.Op + ": " + e.Kind.String()
	if e.Pool != nil {
		s = fmt.Sprintf("%s in %s: %s", e.Op, e.Pool, e.Kind)
	}
	if e.Code != "" {
		s += " (" + e.Code + ")"
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the Kind of the outermost *Error in err's chain, or UnknownOutcome.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return UnknownOutcome
}

// Trips says whether a failure of this kind counts towards opening a breaker.
// The others are answers: the seller works, it only says no.
func (k Kind) Trips() bool { return k == Transient || k == UnknownOutcome }

// Repeatable says whether the same call may be made again without a new decision.
// A launch of unknown outcome is never repeated blindly; see the bidder.
func (k Kind) Repeatable() bool { return k == Transient || k == Throttled }
