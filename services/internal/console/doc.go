// Package console is what people ask the running system: the requests of the
// command line, their answers, and the read model that the answers come from.
//
// Requests travel as NATS request and reply on sf.api.<role>.<user>.<verb>; who
// asks, and in which role, is in the subject, which the credential guards. What
// each role may ask is one table, in rights.go. Whoever changes something says
// why, and an event keeps who and why. The read model is rebuilt from the
// streams at start and holds nothing that they do not.
package console
