// Package terminal is how the command line talks to whoever runs it: tables,
// colours, progress, questions, and documents for other programs.
//
// Its laws:
//
//   - What a job says is attacker text. Safe, SafeLine and SafeLines take out
//     what would move the cursor, hide or turn text around; tables, notes and
//     questions do so by themselves.
//   - A meaning is never carried by colour alone, and there is no colour where
//     NO_COLOR is set or nobody looks.
//   - Progress is redrawn in place only on a terminal. Elsewhere it is a line
//     every ten seconds.
//
// It knows nothing of jobs, machines or money.
package terminal
