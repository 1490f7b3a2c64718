// Package remote is the seller contract between two processes: Serve puts a
// provider on the bus as a NATS micro service, Client is that provider for everyone else.
//
// Only the serving process holds the seller's keys. Requests go to
// sf.provider.<seller>.<op> as JSON; an answer is one or more pages, because
// thousands of offers do not fit one message. Notices are published on
// sf.provider.<seller>.notices, at most once: they are hints.
//
// What a failure means survives the journey: kind, scope, pool, RetryAfter,
// code, MaybeCreated. Failures of the journey itself are told apart by whether
// the request was sent. Nobody listening, or no connection: not sent, Transient.
// Sent and not answered: UnknownOutcome for a launch, Transient for the rest.
//
// A launch once begun is carried through, whether or not the caller still
// waits; the same request for the same token, meanwhile, waits for the same answer.
package remote
