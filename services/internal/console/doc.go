// Package console is what people ask the running system: the requests of the
// command line, their answers, and the read model that the answers come from.
//
// Requests travel as NATS request and reply on sf.api.<user>.<verb>; who asks is
// in the subject, which the credential guards. The read model is rebuilt from the
// streams at start and holds nothing that they do not.
package console
