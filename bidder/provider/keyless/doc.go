// Package keyless keeps the promise of the token for sellers whose create takes no
// idempotency key: two creates there are two machines.
//
// Laws. One purchase of a token is under way at a time. Each is preceded by a fresh
// and complete list that does not have the token. After an outcome that is not
// known, nothing more is bought under the token until three such lists over
// the settling time have not shown it; until then the outcome stays unknown.
//
// A machine carries a Record of its purchase, so a new process knows all of the
// machines that live. Such sellers forget those that ended; the Desk remembers
// them, and a new process does not. Nothing that lacks the environment's mark is
// touched: what a complete list does not show as ours is not terminated.
package keyless
