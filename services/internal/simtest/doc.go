// Package simtest runs the whole system in one process under virtual time: the
// control plane in its production wiring, the embedded bus and its client, the
// real agent on every machine, against a seller, a network and trainers that
// misbehave as a seed tells. Then everything heals, and oracles look.
//
// Its laws:
//
//   - The same seed gives the same history: every message, header and time on
//     every stream. Each actor runs at an instant of its own within a
//     millisecond, so that no two ever wake together, and every draw is a function of the
//     seed and of what it is about, never of the order of calls. With two
//     replicas of the control plane that holds but for one thing: which of them
//     the bus gives an event to. Every promise holds whichever it is.
//   - Oracles read the seller's meter, the trainers' side log and the bare
//     messages of the streams, never what a service believes.
//   - A run that met no trouble proves nothing: every kind of fault is counted,
//     and one that was never met over all seeds fails.
//
// Everything is in tests: 'make sim SEEDS=100', or 'make sim SEED=7 SEEDS=1' for
// one that failed. Every second seed has its seller in a program of its own,
// behind the bus, and every second pair two replicas of the control plane.
// Beside the seeds, which mix all trouble, stand worlds with one sort of it each.
//
// museum/ has ten planted bugs, as patches; 'make museum' proves that the checks see
// them.
package simtest
