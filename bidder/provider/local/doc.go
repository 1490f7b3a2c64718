// Package local is a seller of capacity whose machines are processes on this
// one: real ones, with real warnings and real kills, and a bill of its own.
//
// Each instance is a small host process, detached from whoever launched it, as a
// real machine is. It serves the metadata a machine finds on EC2, starts the
// agent, plays what the market has in store for it, kills the whole tree when
// the machine is taken back, and meters. A Seller is only the counter at which
// instances are bought: it can be killed at any moment and opened again.
//
// Its laws:
//
//   - The directory is the truth. An instance is one directory, named by its
//     token, that appears whole or not at all; the same token is the same
//     directory. Nothing is remembered elsewhere.
//   - A host holds a lock for as long as it lives. Processes are named by pid and
//     start time, never by pid alone.
//   - An instance is gone when no process of it is left and its bill is final,
//     not before. A host that dies takes its machine with it: the seller kills
//     what is left and calls the end a fault.
//   - The bill is the seller's own arithmetic. It shares none with the ledger,
//     which must come to the same micro-dollar.
//
// Linux only: it needs sub-reapers, pidfds and /proc.
package local
