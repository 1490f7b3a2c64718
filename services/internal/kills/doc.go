// Package kills ends jobs at random moments, most of them inside a save, an upload
// or a commit, and judges whether each went on from a checkpoint that was whole. It
// has nothing but tests.
//
// A seed draws the plan before any job starts, and the plan is written down first:
// which job, at which operation of which phase, and what dies there. Every layout of
// package frameworktest is a job on the real system: the control plane in one
// process, the local seller's machines, agents and trainers as processes of their
// own. Whoever comes by the place that the plan names next kills the victim himself,
// with SIGKILL and at once, so that a kill hits an operation and not some moment near it.
//
//	make kills                                a thousand kills
//	make kills N=200 SEED=7 EVIDENCE=./out
//
// The trainer's state follows from the seed and the steps made, and what it saves
// follows from that state, so that a trainer which was restored sees in every byte
// whether its checkpoint is whole and of the step it claims to be. What is judged,
// from the trainers' side log, our own log of kills and a record of the streams that
// is kept beside the system:
//
//   - every trainer after a kill goes on from a checkpoint that it compared byte by byte,
//     never from less than was committed before the kill;
//   - what is lost is at most one interval, and the one whose save was under way;
//   - every step ever made has the state of a run that nobody disturbed, up to the last;
//   - every commit, as it is made and at the end, is read in full, restored and compared;
//   - epochs only rise, and no commit stands behind a later epoch's placement.
package kills
