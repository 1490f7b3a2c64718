// Package vast sells what Vast.ai's hosts offer: slices of other people's machines,
// on demand or for a bid.
//
// A pool is a slice of one machine, since price, capacity and reclaims are the
// host's. What a search finds is bought by an id that does not live long; it is
// looked up again when it is gone. A bid that is outbid pauses its machine
// without a word, and the machine runs again by itself when the bid wins: it is
// Stopping, ended by its seller, until it is destroyed.
//
// The API has no idempotency key, so purchases go through package keyless. The label
// of an instance is sf1:<mark>:<token>; the record of its purchase is in its
// environment. Labels are matched here and not by the list's filter, which knows
// equality only, and every machine's label is another.
package vast
