// Package jobfile reads what a user writes, a SkyPilot task file with one key
// of ours (policy), into what the services work with (events.JobSpec), and
// packs the working directory that goes with it.
//
// Its laws:
//
//   - Nothing is silently ignored. Every key of the file is read, warned about
//     or refused, by one table (keys.go), with line, column, reason and remedy.
//   - All that is wrong with a file is said at once.
//   - Text stays text: an environment value of 1.10, 007 or yes reaches the
//     trainer as it was written.
//   - The file is hostile until read: its size, the number of its values and
//     what its aliases expand to are bounded, and nothing of it reaches a
//     terminal unescaped. Values that look like credentials are shown nowhere.
//
// It fills in no template, runs nothing, and decides nothing about prices or
// machines: whether a budget or a deadline can be met is the plan's question.
package jobfile
