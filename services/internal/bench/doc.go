// Package bench measures what the architecture page promises: how soon a notice
// is a signal at the trainer, what the control plane adds to a failover, how it
// takes a thousand notices at once, and what it holds in memory. It has nothing
// but tests.
//
// A figure is worth what it is compared with. Each is taken beside a floor that
// the same run measures on the same cores and the same disk: what the same
// bytes, the same fsyncs and the same round trips cost without the system.
//
//	make bench                                                       all of it, as a table
//	go test ./services/internal/bench -v -count=1 -args -figures     the table alone
//
// Without -figures the same code runs with small numbers, and has to be right.
package bench
