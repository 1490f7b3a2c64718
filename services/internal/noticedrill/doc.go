// Package noticedrill takes machines away with notices of every length, over links
// of every speed, and judges what was saved. It has nothing but tests.
//
// A seed draws every run before the first begins: how long the notice is, what the
// link carries, how much the trainer saves, in which rhythm, and when the notice
// comes. Then real agents, each with a real trainer's processes, save through a
// line of that speed to a real S3 service, and are cut off at the deadline to the
// moment.
//
//	make drill-notice                       two hundred runs
//	make drill-notice RUNS=40 SEED=7
//
// What is judged, from the trainer's own log, the gateway's record and the store:
//
//   - where all bytes of a checkpoint over the line's bandwidth take no more than
//     0.8 of the notice, what the trainer had when the notice came is committed before
//     the deadline, in 99 of 100 runs at least;
//   - in every run the newest committed checkpoint restores, byte for byte what the
//     trainer saved at that step;
//   - in every run the loss that the record tells is the one that the trainer's log
//     shows, up to the steps of the last moment.
package noticedrill
