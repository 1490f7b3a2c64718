package natsbus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

// ErrFull says that the bus has no room: nothing was written, and nothing is lost.
var ErrFull = errors.New("the bus has no room")

const (
	stateFormat = 1
	stateFile   = "bus.json"
	lockFile    = "lock"
	portFile    = "port"
	urlFile     = "url"
	// keepFree is what must be left on the disk for a write to be tried: consumer
	// positions, indexes and the server's own bookkeeping need room, too.
	keepFree = 64 << 20
)

// stateDir is the directory of one embedded server: whose it is, which version
// wrote it, and that nobody else uses it.
type stateDir struct {
	dir  string
	lock *os.File
}

type stateMark struct {
	Product string `json:"product"`
	Format  int    `json:"format"`
}

func openStateDir(dir string) (*stateDir, error) {
	if dir == "" {
		return nil, errors.New("bus directory: none given")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("bus directory %s: %w", dir, err)
	}
	s := &stateDir{dir: dir}
	if err := s.room(); err != nil {
		return nil, err
	}
	if err := s.checkMark(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("bus directory %s: %w", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("bus directory %s is in use by another process: stop it, or give another directory", dir)
	}
	s.lock = f
	return s, nil
}

func (s *stateDir) release() { _ = s.lock.Close() }

// checkMark refuses a directory that is not a bus's, or a newer version's.
func (s *stateDir) checkMark() error {
	path := filepath.Join(s.dir, stateFile)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.mark(path)
	case err != nil:
		return fmt.Errorf("bus directory %s: %w", s.dir, err)
	}
	var m stateMark
	if err := json.Unmarshal(b, &m); err != nil || m.Product != "spotferry-bus" || m.Format < 1 {
		return fmt.Errorf("%s is not readable as the mark of a bus directory: restore it, or give another directory", path)
	}
	if m.Format > stateFormat {
		return fmt.Errorf("bus directory %s has format %d, this program knows %d: use the newer program that wrote it", s.dir, m.Format, stateFormat)
	}
	return nil
}

func (s *stateDir) mark(path string) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("bus directory %s: %w", s.dir, err)
	}
	for _, e := range entries {
		if n := e.Name(); n != lockFile && n != stateFile+".new" {
			return fmt.Errorf("bus directory %s holds %s but no %s, so it is not a bus directory: give an empty or a new one", s.dir, n, stateFile)
		}
	}
	b, err := json.Marshal(stateMark{"spotferry-bus", stateFormat})
	if err == nil {
		err = writeFile(path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("bus directory %s: %w", s.dir, err)
	}
	return nil
}

// choosePort returns the port to listen on, or that the one asked for is taken.
func (s *stateDir) choosePort(c EmbeddedConfig) (int, error) {
	switch {
	case !c.Listen:
		return 0, nil
	case c.Port != 0:
		if !free(c.host(), c.Port) {
			return 0, fmt.Errorf("port %d on %s is taken: choose another, or stop what uses it", c.Port, c.host())
		}
		return c.Port, nil
	}
	b, err := os.ReadFile(filepath.Join(s.dir, portFile))
	if err == nil {
		if p, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && p > 0 && p < 1<<16 && free(c.host(), p) {
			return p, nil
		}
	}
	return server.RANDOM_PORT, nil
}

func free(host string, port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func (s *stateDir) publishPort(port int, url string) error {
	err := writeFile(filepath.Join(s.dir, portFile), []byte(strconv.Itoa(port)+"\n"), 0o644)
	if err == nil {
		err = writeFile(filepath.Join(s.dir, urlFile), []byte(url+"\n"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing where the bus listens: %w", err)
	}
	return nil
}

func (s *stateDir) room() error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return fmt.Errorf("asking for the free space of %s: %w", s.dir, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < keepFree {
		return fmt.Errorf("%w: %d MiB are free under %s, %d are kept for its bookkeeping: make room; it goes on by itself",
			ErrFull, free>>20, s.dir, int64(keepFree)>>20)
	}
	return nil
}
