// Package input brings to a machine what a job reads and does not write: files
// of buckets, of the web and of model hubs, and archives from the store.
//
// A [Source] is where files come from, as a job file writes it. A [Remote] lists
// and reads them. A [Bringer] puts them where the job wants them: in parts, many
// at once, each in its place in a file that has its name only when it is whole.
// What was fetched before an interruption is not fetched again: a journal beside
// the file says which parts are there, and each is read again before it counts.
//
// A [Cache] keeps by content what machines of one region or one host have
// fetched for one tenant. Its laws:
//
//   - What is used is verified by BLAKE3 first. An entry that is not what it was
//     is dropped and fetched again.
//   - Entries appear by rename, whole, so any number of machines may fill it at
//     once; of those that want the same file one fetches and the others wait for
//     as long as that gets on.
//   - No tenant sees another's entries, and knowing a name is not enough: a file
//     is found by what its source says it is now, and the source says that only
//     to who may read it.
//   - It is bounded. What was used least recently goes first, never what a
//     machine's files still share, and a disk that is full means no cache and not
//     no job.
//
// Brought files can be read and not written (mode 0444): a file may share its
// bytes with the cache and so with other machines. It is cloned where the file
// system can, linked where nobody can write through the mode, and else copied. A
// script that wants to change one replaces it; the directories are its own.
//
// Nothing is ever written outside the root that is passed in. Requests are not
// signed with anything but the job's own secrets.
package input
