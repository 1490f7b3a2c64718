// Package natsbus is the bus: events.Log over JetStream, the server that one
// machine needs in its own process, and the accounts that keep jobs apart.
//
// Its laws:
//
//   - An append ends in exactly one event or in a typed error. What the broker
//     answers is never believed when it can mean two things: a time-out, a lost
//     race and a duplicate are read back through the leader and compared by
//     message id, which carries a hash of the content.
//   - Truth is read through the stream's leader, never from a replica.
//   - A consumer acknowledges last, reports progress while it works, lets what
//     failed come back later, sets aside what cannot be read, and is rebuilt
//     when someone deletes it.
//   - A stream that is shorter or other than it was stops the service:
//     HighWater knows, because it keeps its marks outside the streams.
//
// Everything but a TCP listener also works inside a testing/synctest bubble.
// One bubble at a time, and no server outside it meanwhile: natsbustest.Bubble
// says why and does the rest.
//
// The package knows no service and decides nothing. It imports events only.
package natsbus
