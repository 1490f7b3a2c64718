// Package agent runs on a rented machine: one trainer process, watched and
// checkpointed, on a machine that may vanish.
//
// Its laws:
//
//   - It commits only while its hold is valid. The hold counts from when the
//     newest answered renewal was sent, on a clock that goes on while the machine
//     is suspended, and is looked at right before every commit. A hold that
//     lapsed stops commits and nothing else: the trainer trains on.
//   - An agent told that its epoch is over has its whole process tree dead within
//     Timers.Fence and commits nothing more.
//   - It never starts from zero on its own account. What to restore is in the
//     order; "committed, but none can be restored" is reported and ends there.
//   - Losing contact never stops a healthy trainer before Timers.Silence, or
//     before the machine is no longer paid for. Then it saves, stops, and leaves
//     the machine to end.
//   - A save is begun only if it can be finished in the time left.
//   - What would burn money if it went on is ended and reported, and nothing is
//     started again here: a trainer whose first step after a restore is below what
//     was restored, one that makes no progress, a machine whose GPU or disk is
//     broken. What is suspected and not known is evidence, and stops nothing.
//   - No deadline is a wall-clock time. The wall clock stamps log lines.
//
// The trainer is started from the user's script by argv, in a session of its own,
// and told where it is by environment: SPOTFERRY_JOB_ID, SPOTFERRY_EPOCH,
// SPOTFERRY_CHECKPOINT_DIR, SPOTFERRY_RESUME_FROM (a directory, empty for a fresh
// start), SPOTFERRY_NOTICE_FILE (there while a notice stands) and
// SPOTFERRY_PROGRESS_FILE (which it may write).
//
// How a machine is told that it will be taken differs by seller, and is read over
// plain HTTP: EC2's and Alibaba's metadata with tokens, Google's with a long poll,
// Azure's list of scheduled events; or it is a signal, or nothing. What cannot be
// read is neither a notice nor its withdrawal, ends nothing, and shows in the
// heartbeats. A hint is a reason to save and no more. Where a seller takes a
// machine early that agrees to it, that is after the last save is committed.
//
// The package knows no seller's software. Everything it touches stands behind
// four ports: Control, Metadata, Processes and checkpoint.Store.
package agent
