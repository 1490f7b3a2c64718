// Package trace is the market outside: what capacity costs at any moment, where
// there is some, and when a machine that somebody bought is taken back. It reads
// recorded markets from files and draws synthetic ones from a seed, and it holds
// the one conversion between market time and control time.
//
// Its laws:
//
//   - A Market is a pure function. The same question has the same answer at any
//     time, in any order and in any process, so a seller, a simulation, a backtest
//     and a host that was started again all see one and the same market.
//   - The age of the machine decides when it is taken: the hazard falls with age,
//     as it does in every trace that was measured. An on-demand machine is never taken.
//   - Times named market are market time. Lengths of warnings are control time,
//     because whoever is warned lives in it.
//
// The package buys nothing, keeps nothing and reads no clock.
package trace
