package checkpoint

import (
	"io/fs"
	"sync"
)

// cache remembers the pieces of files that were read, so that a file that has
// not changed costs one look at its inode and no reading.
//
// A file counts as unchanged if device, inode, size, time of modification and
// time of status change are the same, to the nanosecond. The last is the one
// that matters: whoever puts the time of modification back after an edit, as
// rsync -t, touch -d and utimes do, moves it, and no call sets it.
//
// It is not trusted, and the file read again, where it proves nothing:
//
//   - if it lay less than settled before the reading began, since clocks of file
//     systems advance in steps of some milliseconds, and another edit within the
//     same step would not show;
//   - on file systems other than Linux's local ones, whose servers keep time, or
//     not, as they like;
//   - on every Rehash-th upload.
//
// What is not caught before that one: stores through a shared writable mapping
// into a page that was already dirty when the file was read, which move no time
// until the kernel has written the page back (at most some 30 s; on tmpfs,
// never); edits below the file system, on the block device; and a wall clock
// set back to the same nanosecond. A framework that writes its checkpoint
// through mappings and closes them before it counts as complete is safe.
//
// A hard link made or removed moves the time of status change too. Then the file
// is read again, and nothing of it sent.
type cache struct {
	mu     sync.Mutex
	files  map[inode]*read
	saves  int // uploads so far
	rehash int
	path   string // of the file that outlives the process; empty: none
	owner  string // whose it is
	dirty  bool
	sent   sent
}

// sent is what a new process of an epoch has to know when the store cannot be
// listed: see knowledge.
type sent struct {
	Epoch         int
	Named, Newest []string
}

// inode names a file of this machine.
type inode struct{ Dev, Ino uint64 }

// stamp is by what a change shows.
type stamp struct {
	inode
	Size, Mtime, Ctime int64 // nanoseconds since 1970
}

// read is what a file had when it was read.
type read struct {
	stamp  stamp
	pieces []piece
	used   int // in which upload last
}

// piece is a run of a file's bytes and what it is called; without a name, they
// are zeros.
type piece struct {
	hash string
	size int64
}

// settled is how long ago a file must have changed for its time of status change
// to tell the next change from that one: some ticks of the slowest kernel clock.
const settled = 50_000_000 // nanoseconds

// forgotten is how many uploads without a file make the cache forget it.
const forgotten = 8

// begin starts an upload and reports whether it may use what is remembered.
func (c *cache) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saves++
	for ino, r := range c.files {
		if c.saves-r.used > forgotten {
			delete(c.files, ino)
			c.dirty = true
		}
	}
	return c.saves%c.rehash != 0
}

// get returns the pieces of a file that has not changed since it was read.
func (c *cache) get(info fs.FileInfo) ([]piece, bool) {
	s, ok := stampOf(info)
	if !ok {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.files[s.inode]
	if r == nil || r.stamp != s {
		return nil, false
	}
	r.used = c.saves
	return r.pieces, true
}

// put remembers a file that was read after the moment began and looks like info
// now.
func (c *cache) put(info fs.FileInfo, began int64, pieces []piece) {
	s, ok := stampOf(info)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty = true
	if began-s.Ctime < settled {
		delete(c.files, s.inode)
		return
	}
	c.files[s.inode] = &read{s, pieces, c.saves}
}

func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files, c.dirty = map[inode]*read{}, true
}

// note takes what has been sent.
func (c *cache) note(epoch int, named, newest []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent, c.dirty = sent{epoch, named, newest}, true
}

// remains returns what an earlier process of the epoch has noted. Without a note
// there was none, on this machine.
func (c *cache) remains(epoch int) remains {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := remains{found: map[string]int64{}, named: map[string]bool{}, spent: map[string]bool{}, unlisted: true}
	if c.sent.Epoch != epoch {
		return l
	}
	l.resumed = true
	for _, hash := range c.sent.Named {
		l.named[hash], l.spent[hash] = true, true
	}
	for _, hash := range c.sent.Newest {
		delete(l.spent, hash)
	}
	return l
}
