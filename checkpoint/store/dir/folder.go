package dir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"
)

// folder is one directory of the store that survives a power failure, open: what
// is done in it does not have to find it again.
type folder struct {
	root  *os.Root
	file  *os.File // the directory itself
	syncs group
}

// maxFolders is how many directories are kept open. Those let go are closed when
// nobody uses them any more.
const maxFolders = 128

func openFolder(in *os.Root, dir string) (*folder, error) {
	root, err := in.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	file, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &folder{root: root, file: file}, nil
}

func (f *folder) close() error { return errors.Join(f.file.Close(), f.root.Close()) }

// sync makes a directory's entries durable. Whoever asks while it is being done
// waits for the next time, together with all who ask meanwhile: one that has
// begun may have missed their entries.
func (f *folder) sync() error { return f.syncs.do(f.file.Sync) }

// folder opens a directory, and makes it and those above it if necessary. That
// one exists is not enough: another process may have made it and not yet synced
// its parent. So each is made, or found, and its parent synced once.
func (s *Store) folder(dir string) (*folder, error) {
	s.mu.Lock()
	f := s.folders[dir]
	s.mu.Unlock()
	if f != nil {
		return f, nil
	}
	if dir != "." {
		parent, err := s.folder(path.Dir(dir))
		if err != nil {
			return nil, err
		}
		if err := parent.root.Mkdir(path.Base(dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := parent.sync(); err != nil {
			return nil, err
		}
	}
	f, err := openFolder(s.root, dir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.folders[dir]; other != nil {
		return other, nil
	}
	for other := range s.folders {
		if len(s.folders) < maxFolders {
			break
		}
		delete(s.folders, other)
	}
	s.folders[dir] = f
	return f, nil
}

// group does the same thing for many callers at once.
type group struct {
	running sync.Mutex
	mu      sync.Mutex
	next    *batch // not begun yet
}

type batch struct {
	done chan struct{}
	err  error
}

// do returns the outcome of a call of f that began after do was called.
func (g *group) do(f func() error) error {
	g.mu.Lock()
	b := g.next
	if b != nil {
		g.mu.Unlock()
		<-b.done
		return b.err
	}
	b = &batch{done: make(chan struct{})}
	g.next = b
	g.mu.Unlock()

	g.running.Lock()
	defer g.running.Unlock()
	g.mu.Lock()
	g.next = nil
	g.mu.Unlock()
	b.err = f()
	close(b.done)
	return b.err
}
