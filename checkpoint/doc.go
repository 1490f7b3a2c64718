// Package checkpoint saves a job's state while the machine under it lives, and
// proves and restores that state on the next machine.
//
// Its laws:
//
//   - A checkpoint is committed only when the Committer has accepted its Ref.
//     Every byte is durable in the Store before the manifest is written, the
//     manifest is written before the Committer is asked, and nothing is ever
//     overwritten. Whatever dies in between leaves objects nobody refers to.
//   - Which checkpoints exist is what the job's own record says. A Store is
//     never listed to find that out: a list may be late, and an object without a
//     commit is only an object.
//   - Nothing is exposed before every byte of it has been verified. A restore
//     stages into a hidden directory and renames.
//   - A checkpoint is passed over only on proof that it is bad: an object that
//     is missing or has other bytes than it should. A store that does not answer
//     proves nothing, so its error is returned and no work is given up.
//   - "Committed, but none can be restored" is [ErrNoneRestorable]. Beginning
//     again from step zero is never decided here.
//
// What is kept of a tree is what a trainer reads back: content, size, permission
// bits, directories and the text of symbolic links. Owners, times, hard links
// and holes are not kept, and the setuid, setgid and sticky bits are dropped,
// because a restore may run with more rights than the job had. Anything that
// cannot be carried faithfully, such as a FIFO, a link that leaves the tree or a
// name that is not UTF-8, fails the save with the file's name.
//
// This engine sends whole files named by their hash, so a file that did not
// change is sent once. It knows no framework: when a directory is complete is
// package framework's business.
package checkpoint
