// Package bidder buys machines for jobs: what to buy, at which price, with
// whose money, and when to wait or to move instead.
//
// Decide is pure: given what a job needs, the offers, the money and the time, it
// returns the choice with everything it saw, so that the record of a decision
// replays to the same decision. A policy proposes; the deadline net (net.go) and
// the budget guard (guard.go) stand behind every policy and overrule it.
//
// Service carries decisions out. Its laws: money is reserved before anything
// is bought; the intent is written before every paid call, and the call's token
// is the lease id; an intent that stands after a freeze, or after a hold of its
// pool, is void, and nobody calls for it; an answer that never came is unknown until the seller's list
// or a repeated call with the same token tells; a machine is ours, and paid for,
// until the seller says that it is gone. Truth is in the log: any number of
// services may run, each may die at any point, and whoever looks next goes on from
// the events. What a service remembers besides is only speed.
//
// The package moves no job: it answers acquire and release commands, and may buy
// a machine for a voluntary move, which failover then accepts or gives back.
package bidder
