// Package gateway is the one door between machines that are not ours and the
// job's record. It swaps bootstrap tokens for credentials, renews holds, checks
// and appends commits, and tells agents what their job's newest event owes them.
//
// Laws. Job and epoch come from the subject, which the credential guards; a body
// only ever narrows what they allow. Every reply to a renewal carries the whole
// order, so that a lost push costs one heartbeat. A commit is verified in the
// store before it is appended, and refused where it would become true: at the
// append, under the epoch of that moment. The credentials of an older epoch are
// revoked before the agent of a newer one is told to start.
//
// It is also who collects: checkpoints that a job does not keep any longer are
// dropped in the job's record first and deleted from the store a grace later, by
// rules under which no writer, restore or other gateway can come to need what goes:
// see docs/decisions/0014.
//
// It decides nothing about where a job runs, and holds no state that the log does not.
package gateway
