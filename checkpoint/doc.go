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
//   - A save relies only on objects that nobody may delete: those of the newest
//     manifest it knows, and what its own epoch has put since. See
//     docs/decisions/0014.
//   - Nothing is exposed before every byte of it has been verified. A restore
//     stages into a hidden directory and renames.
//   - A checkpoint is passed over only on proof that it is bad: an object that
//     is missing or has other bytes than it should. A store that does not answer
//     proves nothing, so its error is returned and no work is given up.
//   - "Committed, but none can be restored" is [ErrNoneRestorable]. Beginning
//     again from step zero is never decided here.
//
// What is kept of a tree is what a trainer reads back: content, size, holes,
// permission bits, directories and the text of symbolic links. Owners, times and
// hard links are not kept, and the setuid, setgid and sticky bits are dropped,
// because a restore may run with more rights than the job had. Anything that
// cannot be carried faithfully, such as a FIFO, a link that leaves the tree or a
// name that is not UTF-8, fails the save with the file's name.
//
// A file is cut into chunks, called by the hash of their bytes; each is an
// object, and small ones share a pack. Each byte is read and hashed once, on the
// buffer that is put, and a chunk that the store has is not put again. The memory
// for that is bounded, whatever the tree: see Config. What is read, sent and
// fetched can be interrupted at any byte and gone on with.
//
// A file that has not changed since it was read is not read again. It has not if
// device, inode, size, time of modification and time of status change are the
// same: an edit of the same size whose time is put back moves the last, and so
// does a store through a mapping into a clean page. Where that time proves
// nothing, because the file changed within the clock's last ticks or lies on
// another file system than Linux's local ones, the file is read. What is not seen
// before the next upload that reads everything (Config.Rehash): stores through a
// shared mapping into pages that were dirty already when the file was read and
// have not been written back, and whatever happens below the file system.
//
// The engine knows no framework: when a directory is complete is package
// framework's business.
package checkpoint
