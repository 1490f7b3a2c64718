// Package failover decides what happens to a job when something happens to its
// machine: the job's life as one pure state machine, and the Service around it.
//
// Laws. Only the job's own aggregate raises the epoch, and whoever appends to a
// job does it through Book.Apply: read, fold, Step, append. A commit or a
// completion of an old epoch is void at the fold, whoever let it through. What
// is owed to others is derived from the state and travels in the event that made it
// so; executors carry it out, and their outcome comes back as the next input. A
// wait is a due time in the state, never a sleep.
//
// Trouble that would only burn money pauses a job: no machine, everything kept,
// until a person resumes it. A person's act that makes no sense for the job as it
// is comes back as *Refused.
//
// The package buys nothing, saves nothing and talks to no machine.
package failover
