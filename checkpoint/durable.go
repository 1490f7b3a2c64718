package checkpoint

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sync/errgroup"
)

// finish gives a file its mode and makes it durable. Small ones wait for
// syncSmall.
func (s *staging) finish(i int, file *os.File) error {
	f := s.m.Files[i]
	switch {
	case f.Size >= small:
		return errors.Join(file.Chmod(fs.FileMode(f.Mode)), file.Sync())
	case s.many:
		return file.Chmod(fs.FileMode(f.Mode))
	}
	return nil
}

// manySmall is from how many small files syncing the whole file system takes
// less than syncing each.
const manySmall = 64

// count lists the small files and decides how to sync them.
func (s *staging) count() {
	for _, f := range s.m.Files {
		if f.Kind == Regular && f.Size < small {
			s.small = append(s.small, f)
		}
	}
	s.many = len(s.small) >= manySmall && canSyncAll
}

func (s *staging) syncSmall() error {
	if s.many {
		d, err := s.root.Open(".")
		if err != nil {
			return err
		}
		return errors.Join(syncAll(d), d.Close())
	}
	var g errgroup.Group
	g.SetLimit(16)
	for _, f := range s.small {
		g.Go(func() error {
			file, err := s.root.OpenFile(f.Path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return errors.Join(file.Chmod(fs.FileMode(f.Mode)), file.Sync(), file.Close())
		})
	}
	return g.Wait()
}
