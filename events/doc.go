// Package events is the vocabulary of the system: the facts services tell each
// other, the subjects those facts travel on, and the bytes they travel as.
//
// A fact is something that has happened, named in the past tense
// (LeaseLaunched, JobNoticed). It is immutable, carries an id derived from its
// aggregate and its place in it, and may be delivered more than once; every
// consumer must cope with that. Requests, which may be refused, are named as
// verbs (JoinRequest, SubmitRequest).
//
// An aggregate is one job, one lease, or the money of one organisation. Its
// events are numbered from 1 without gaps and each carries the hash of the one
// before, so a lost or altered event is seen by whoever reads the next.
//
// Fields are added, never renamed or repurposed. A change of meaning is a new
// type with a new version suffix; both are published until no consumer of the
// old one remains.
//
// The package does no I/O and knows no bus; it imports the standard library only.
package events
