package retry

import (
	"errors"
	"io"
)

// source is the reader of a put, which may have to be read again.
type source struct {
	r       io.Reader
	seeker  io.Seeker // nil: it cannot go back
	at      int64     // where it stood
	watched *watched  // nil: it is in memory and cannot fail
}

func newSource(r io.Reader) *source {
	s := &source{r: r}
	if seeker, ok := r.(io.Seeker); ok {
		if at, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			s.seeker, s.at = seeker, at
		}
	}
	// What a store can do better with a reader in memory must not be hidden.
	if _, memory := r.(interface{ Len() int }); memory && s.seeker != nil {
		return s
	}
	s.watched = &watched{r: r}
	return s
}

// reader is what the store is given.
func (s *source) reader() io.Reader {
	switch {
	case s.watched == nil:
		return s.r
	case s.seeker != nil:
		return struct {
			io.Reader
			io.Seeker
		}{s.watched, s.seeker}
	}
	return s.watched
}

// back goes back to where the reader stood, if it can or never left.
func (s *source) back() bool {
	if s.seeker != nil {
		_, err := s.seeker.Seek(s.at, io.SeekStart)
		return err == nil
	}
	return !s.watched.touched
}

// failed is the reader's own error.
func (s *source) failed() error {
	if s.watched == nil {
		return nil
	}
	return s.watched.err
}

// watched is a reader that remembers.
type watched struct {
	r       io.Reader
	touched bool
	err     error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.touched = true
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}
