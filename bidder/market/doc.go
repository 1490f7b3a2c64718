// Package market knows what capacity costs and how often it is taken back.
//
// The Watcher polls sellers and publishes what changed; the Book is what
// everyone else makes of those events; ReclaimRate learns from leases how long
// machines live; CoolDowns remembers which pools just failed.
//
// Laws. Only quotes that make sense reach the Book: what does not is
// quarantined with an event, by the watcher, and refused again by the book. Zero is not
// free and silence is not a price: a feed that fails lets its offers expire. Newest
// effective time wins, whatever the order of arrival.
//
// The package buys nothing and knows no seller's API: it needs the one method of
// a seller that returns its offers.
package market
