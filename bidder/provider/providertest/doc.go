// Package providertest is the seller contract as something that runs: Suite,
// the checks that every adapter passes near and remote, and Fake, a seller in
// memory that behaves by the contract and misbehaves by script.
//
// The fake is a peer for simulations too. It is deterministic (same calls, same
// moments, same answers; instance ids come from tokens), it waits only on
// package time, so it lives in a synctest bubble, and it starts no goroutine: Run,
// if it is called, is the only one that makes scheduled things happen on
// time; without it they happen at the next call.
//
// Its meter is ground truth: Bill works out what an instance costs with
// arithmetic of its own, and nothing of it is shared with the ledger.
package providertest
