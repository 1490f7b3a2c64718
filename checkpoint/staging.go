package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// staging is a tree that is being written. Files are opened for each piece and
// closed again, so that the number of pieces under way bounds the open files.
type staging struct {
	e    *Engine
	root *os.Root
	m    Manifest
	left []atomic.Int32 // pieces that a file still lacks
	had  []bool         // files that an interrupted stage left

	small []File
	many  bool // too many to sync one by one
}

// takeOver removes from what an interrupted stage left all that is not as the
// manifest says, and notes the files that may have content.
func (s *staging) takeOver() error {
	want := make(map[string]int, len(s.m.Files))
	for i, f := range s.m.Files {
		want[f.Path] = i
	}
	var extra []string
	err := fs.WalkDir(s.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, ok := want[p]
		switch {
		case ok && d.IsDir() && s.m.Files[i].Kind == Directory:
			return s.root.Chmod(p, 0o700) // comes before the directory is read
		case ok && d.Type().IsRegular() && s.m.Files[i].Kind == Regular && s.links(d) == 1:
			s.had[i] = true
			return s.root.Chmod(p, 0o600)
		}
		extra = append(extra, p)
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	for _, p := range extra {
		err = errors.Join(err, discard(s.root, p))
	}
	return err
}

// links counts the names of a file; one that has others is not ours alone.
func (s *staging) links(d fs.DirEntry) uint64 {
	info, err := d.Info()
	if err != nil {
		return 0
	}
	return linksOf(info)
}

// prepare makes everything but the content: directories, links, and files of
// their size with room for what will be written.
func (s *staging) prepare(jobs []job) error {
	s.count()
	for _, j := range jobs {
		for _, p := range j.parts {
			s.left[p.file].Add(1)
		}
	}
	for i, f := range s.m.Files {
		var err error
		switch {
		case f.Kind == Regular:
			err = s.makeFile(i, f)
		case f.Kind == Directory && f.Path != ".":
			if err = s.root.Mkdir(f.Path, 0o700); errors.Is(err, fs.ErrExist) {
				err = nil // taken over
			}
		case f.Kind == Symlink:
			err = s.root.Symlink(f.Link, f.Path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *staging) makeFile(i int, f File) error {
	flag := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if s.had[i] {
		flag = os.O_WRONLY
	}
	file, err := s.root.OpenFile(f.Path, flag, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if len(f.Chunks) == 0 { // empty, or of schema 1
		return s.finish(i, file)
	}
	if err := file.Truncate(f.Size); err != nil {
		return err
	}
	var off, run int64
	for _, c := range f.Chunks {
		if c.Hash == "" {
			if err := s.reserve(file, off-run, run, f.Size); err != nil {
				return err
			}
			run = -c.Size
		}
		off, run = off+c.Size, run+c.Size
	}
	if err := s.reserve(file, off-run, run, f.Size); err != nil {
		return err
	}
	if s.left[i].Load() == 0 { // nothing but holes
		return s.finish(i, file)
	}
	return nil
}

// reserve makes room for a run. Small files find theirs.
func (s *staging) reserve(file *os.File, off, n, size int64) error {
	if size < small || n == 0 {
		return nil
	}
	return reserve(file, off, n)
}

// fill fetches the content.
func (s *staging) fill(ctx context.Context, ref Ref, jobs []job) error {
	for i, f := range s.m.Files {
		if f.Hash == "" {
			continue
		}
		if err := again(func() error { return s.fetchWhole(ctx, i, f) }); err != nil {
			return judge(ref, f.Path, err)
		}
	}
	todo, err := s.missing(ctx, jobs)
	if err != nil {
		return err
	}
	return s.e.fetchAll(ctx, ref, s.m, todo, s.write)
}

func (s *staging) fetchWhole(ctx context.Context, i int, f File) error {
	file, err := s.root.OpenFile(f.Path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return full(err)
	}
	err = s.e.fetchWhole(ctx, f, file)
	if err == nil {
		err = s.finish(i, file)
	}
	return full(errors.Join(err, file.Close()))
}

// missing drops from jobs what an interrupted stage left complete.
func (s *staging) missing(ctx context.Context, jobs []job) ([]job, error) {
	keep := make([]job, len(jobs))
	g, gctx := errgroup.WithContext(ctx)
	s.e.fetching.begin()
	defer s.e.fetching.end()
	for i, j := range jobs {
		rest := j
		rest.parts = nil
		var check []part
		for _, p := range j.parts {
			if s.had[p.file] {
				check = append(check, p)
			} else {
				rest.parts = append(rest.parts, p)
			}
		}
		keep[i] = rest
		if len(check) == 0 {
			continue
		}
		t, err := s.e.fetching.enter(gctx, check[0].c.Size)
		if err != nil {
			break
		}
		g.Go(func() error {
			defer t.close()
			for _, p := range check {
				if !s.has(t, p) {
					keep[i].parts = append(keep[i].parts, p)
				} else if err := s.done(p, nil); err != nil {
					return full(err)
				}
			}
			return nil
		})
	}
	if err := errors.Join(g.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	var out []job
	for _, j := range keep {
		switch {
		case len(j.parts) == 0:
		case j.parts[0].c.Pack == "":
			out = append(out, j)
		default:
			out = append(out, j.runs()...)
		}
	}
	return out, nil
}

// has reports whether a piece is in its place already.
func (s *staging) has(t *ticket, p part) bool {
	file, err := s.root.Open(s.m.Files[p.file].Path)
	if err != nil {
		return false
	}
	defer file.Close()
	if from, _ := data(file, p.off, p.off+p.c.Size); from >= p.off+p.c.Size {
		return false // nothing was ever written there
	}
	b := t.take(p.c.Size)
	defer t.put([][]byte{b})
	b = b[:p.c.Size]
	_, err = file.ReadAt(b, p.off)
	return err == nil && rightly(s.e.cfg.Key, b, p.c) == nil
}

// write puts a verified piece into its place.
func (s *staging) write(p part, plain []byte) error {
	file, err := s.root.OpenFile(s.m.Files[p.file].Path, os.O_WRONLY, 0)
	if err != nil {
		return full(err)
	}
	if _, err = file.WriteAt(plain, p.off); err == nil {
		writeBack(file, p.off, int64(len(plain)))
		err = s.done(p, file)
	}
	return full(errors.Join(err, file.Close()))
}

// done counts a piece, and finishes a file that has all.
func (s *staging) done(p part, file *os.File) (err error) {
	if s.left[p.file].Add(-1) > 0 {
		return nil
	}
	if file == nil {
		if file, err = s.root.OpenFile(s.m.Files[p.file].Path, os.O_WRONLY, 0); err != nil {
			return err
		}
		defer file.Close()
	}
	return s.finish(p.file, file)
}
