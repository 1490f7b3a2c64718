// Package chaos kills the separate programs, for real, while jobs train, and
// judges by records that none of them can touch. It has nothing but tests.
//
// A seed draws the plan: which program dies, in calm or inside a failover, and
// for how long it is away. The plan is the same for a seed; time is real. Beside the
// plan, programs kill themselves at points named in their code, an agent is held
// still for longer than its hold, disks fill up, a clock is wrong, and nonsense is
// written to every subject.
//
//	make chaos                                  one of each program
//	make chaos REPLICAS=2                       two of every service
//	make chaos SEED=7 KILLS=20 EVIDENCE=./out
//
// What is judged, from the trainers' side log, the seller's meter, our own log of
// kills, and what a recorder of ours saw on the streams:
//
//   - no kill of the control plane restarts a trainer;
//   - every job succeeds, once, with the weights of a run that nobody disturbed;
//   - the ledger equals the meter to the micro-dollar;
//   - nothing is left: no machine, no process, no open lease, no money set aside;
//   - every event that was once acknowledged is still there, unchanged.
package chaos
