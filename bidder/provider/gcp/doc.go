// Package gcp sells what Compute Engine has: machines with GPUs, spot and on
// demand, in every zone of a project.
//
// A machine's name is made from the environment's mark and the lease's token, and
// the request id from both, so that the same token is the same request however often
// it is sent. What a list needs to tell of a machine stands in its metadata; of one that
// is deleted nothing is left but the zone's operations, which Google keeps for two
// weeks and which say when it ended and by whom. A client that saw the machine alive
// adds what it remembers; nothing depends on that.
//
// An insertion that Google has accepted is not a machine yet: lack of capacity
// and of quota is told by the operation, minutes later. Launch waits for it, and then
// asks whether a machine is there, whatever the operation said.
//
// It has no meter, since Google says what a machine cost a day later and for all of
// them together, and no notices from outside: the machine's own metadata has them.
package gcp
