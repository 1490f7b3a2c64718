package input

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"
)

// errBusy: another machine brings the same file.
var errBusy = errors.New("another machine is fetching it")

// stage is a file while it is fetched: its parts in their places, and beside it
// a journal of those that are there. Whoever has it has a lock on it, which the
// kernel takes back from the dead.
type stage struct {
	path    string
	data    *os.File
	journal *os.File // nil: nobody goes on with it after us
	sums    [][32]byte
	have    []bool
	mu      sync.Mutex // of the journal
}

// keyName is how files are named for a key.
func keyName(key string) string {
	sum := blake3.Sum256([]byte(key))
	return hex.EncodeToString(sum[:20])
}

// openStage makes the stage of a file in a directory, or goes on with it.
func openStage(ctx context.Context, dir string, f File) (*stage, error) {
	s := &stage{path: stagePath(dir, f), sums: make([][32]byte, parts(f.Size)), have: make([]bool, parts(f.Size))}
	var err error
	if s.data, err = os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := s.lock(); err != nil {
		s.data.Close()
		return nil, err
	}
	if f.Whole {
		return s, s.data.Truncate(0)
	}
	if s.journal, err = os.OpenFile(s.path+".parts", os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		s.close()
		return nil, err
	}
	if err := errors.Join(s.resume(ctx, f.Size), s.data.Truncate(f.Size)); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openScratch makes the stage of a file that nothing tells from another.
func openScratch(dir string) (*stage, error) {
	f, err := os.CreateTemp(dir, "once-")
	if err != nil {
		return nil, err
	}
	return &stage{path: f.Name(), data: f}, nil
}

// lock takes the stage. Of a file that was given its name meanwhile, there is a
// lock but no stage.
func (s *stage) lock() error {
	if err := unix.Flock(int(s.data.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return errBusy
		}
		return fmt.Errorf("locking %s: %w", s.path, err)
	}
	locked, err := s.data.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Lstat(s.path); err != nil || !os.SameFile(locked, now) {
		return errBusy
	}
	return nil
}

// resume takes over the parts that the journal has and the file too. They are
// read: a machine may have died between writing them and telling its disk.
func (s *stage) resume(ctx context.Context, size int64) error {
	lines := bufio.NewScanner(s.journal)
	for lines.Scan() {
		var part int
		var text string
		if n, _ := fmt.Sscanf(lines.Text(), "%d %s", &part, &text); n != 2 || part < 0 || part >= len(s.have) || s.have[part] {
			continue // torn, or of another time
		}
		want, err := hex.DecodeString(text)
		if err != nil || len(want) != 32 {
			continue
		}
		got, err := sumPart(ctx, s.data, size, part)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && got == [32]byte(want) {
			s.sums[part], s.have[part] = got, true
		}
	}
	return nil // a line too long to be one of ours ends the reading, and costs parts
}

// take writes a part from what its source gives, and notes that it is there.
func (s *stage) take(ctx context.Context, r io.Reader, size int64, part int) error {
	off, n := within(size, part)
	sum, err := sumOf(ctx, r, io.NewOffsetWriter(s.data, off), n)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums[part], s.have[part] = sum, true
	if s.journal != nil {
		_, err = fmt.Fprintf(s.journal, "%d %x\n", part, sum)
	}
	return err
}

// takeAll writes a file of unknown size and returns that.
func (s *stage) takeAll(ctx context.Context, r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{s.data}, stopping{ctx, r}, make([]byte, 64<<10))
}

// missing are the parts that are not there.
func (s *stage) missing() (out []int) {
	for i, have := range s.have {
		if !have {
			out = append(out, i)
		}
	}
	return out
}

// named gives the file its name and ends the stage; the file stays open.
func (s *stage) named(path string) (*os.File, error) {
	err := s.data.Chmod(0o444)
	if err == nil {
		err = os.Rename(s.path, path)
	}
	if err != nil {
		return nil, err
	}
	_ = os.Remove(s.path + ".parts") // one that stays is swept up later
	if s.journal != nil {
		s.journal.Close()
	}
	// The lock goes with the name: whoever waits for it finds the file.
	_ = unix.Flock(int(s.data.Fd()), unix.LOCK_UN)
	return s.data, nil
}

// close leaves the stage as it is, for whoever goes on.
func (s *stage) close() {
	if s.journal != nil {
		s.journal.Close()
	}
	s.data.Close()
}

// remove ends the stage and what is in it.
func (s *stage) remove() {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = s.data.Truncate(0) // then at least it takes no room
	}
	_ = os.Remove(s.path + ".parts")
	s.close()
}
