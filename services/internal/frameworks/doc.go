// Package frameworks has real training frameworks taken from machine to machine,
// and compares what they compute with what they compute undisturbed.
//
// The scripts in testdata are what a user would write: Hugging Face's Trainer with
// a LoRA adapter of PEFT, Lightning, FSDP with torch.distributed.checkpoint on two
// ranks, and DeepSpeed's engine on two ranks, all on CPUs, all with dropout,
// shuffling and a decaying schedule. Each is run once in a plain shell. Then it is
// a job of the real system, whose machine is taken away again and again at drawn
// points, with a notice and without. A checkpoint that forgets anything, be it the
// place in the data or the state of the random numbers, shows in the next loss, so
// every loss that any rank of any trainer computed must be the one that the
// undisturbed run computed at that step. That a forgotten state does show is proved
// each time: the same job, with the random numbers taken out of the checkpoint it is
// resumed from, has to come to different losses.
//
// install.sh puts the frameworks, gigabytes of them, into a directory of its own, so
// the tests are asked for; see frameworks_test.go.
package frameworks
