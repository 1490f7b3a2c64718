package signed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// Put implements checkpoint.Store. An access that has ended is replaced in the
// middle of a put only if r can go back to where it was, or was not touched.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if size < 0 {
		return fmt.Errorf("putting %s: %w: %d bytes", name, checkpoint.ErrSize, size)
	}
	c, err := s.call(ctx, checkpoint.VerbPut, "putting", name, size)
	if err != nil {
		return err
	}
	touched, back := false, rewinding(r)
	err = c.try(ctx, func(a checkpoint.Access) (err error) {
		touched, err = s.put(ctx, a, r, size)
		return err
	}, func() bool { return !touched || back() })
	if err == nil {
		s.grants.drop(checkpoint.VerbPut, c.object)
		return nil
	}
	if unsure(err) {
		// A 409 is a put of that name that has won, or one in flight; Azurite says
		// that a right to create does not reach when it meets an object; a cut is how
		// a service refuses a body it does not want to read on, or a lost answer.
		if _, serr := s.Stat(ctx, name); serr == nil {
			return fmt.Errorf("putting %s: %w", name, checkpoint.ErrExists)
		}
	}
	return err
}

func unsure(err error) bool {
	e, answered := errors.AsType[*wire.Error](err)
	return answered && (e.Status == http.StatusConflict || e.Code == "AuthorizationPermissionMismatch") || wire.Cut(err)
}

// rewinding returns what takes a reader back to where it stands now, if it can.
func rewinding(r io.Reader) func() bool {
	seeker, ok := r.(io.Seeker)
	if !ok {
		return func() bool { return false }
	}
	at, err := seeker.Seek(0, io.SeekCurrent)
	return func() bool {
		if err == nil {
			_, err = seeker.Seek(at, io.SeekStart)
		}
		return err == nil
	}
}

func (s *Store) put(ctx context.Context, a checkpoint.Access, r io.Reader, size int64) (touched bool, err error) {
	watched, w := wire.NewWatch(ctx, s.cfg.Stall)
	defer w.End()
	body := wire.NewBody(ctx, r, size, w.Moved)
	sent := body
	if size == 0 {
		if err := body.Empty(); err != nil {
			return true, err
		}
		sent = nil
	}
	resp, err := s.send(watched, a, sent, nil, http.StatusOK, http.StatusCreated)
	if err != nil {
		w.End() // and so the body
	} else {
		err = resp.Body.Close()
	}
	if broken := body.Wait(); broken != nil && err != nil {
		err = broken // why the body failed comes first
	}
	if err != nil {
		err = meaning(watched, w, err)
	}
	return !body.Untouched(), err
}

// meaning is a request's error as the caller has to see it.
func meaning(watched context.Context, w *wire.Watch, err error) error {
	if _, answered := errors.AsType[*wire.Error](err); answered && w.Meaning(watched, nil) == nil {
		return err
	}
	return wire.Broken(w.Meaning(watched, err))
}

// Get implements checkpoint.Store.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.get(ctx, name, nil, http.StatusOK, func(resp *http.Response) (int64, error) {
		if resp.ContentLength < 0 {
			return 0, errors.New("the answer does not say how long it is: something between here and the service takes out Content-Length")
		}
		return resp.ContentLength, nil
	})
}

// Range implements checkpoint.Store.
func (s *Store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n <= 0 || off > 1<<62 || n > 1<<62 {
		return nil, fmt.Errorf("getting %q: no range of %d bytes from %d", name, n, off)
	}
	span := map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", off, off+n-1)}
	return s.get(ctx, name, span, http.StatusPartialContent, func(resp *http.Response) (int64, error) {
		return n, wire.Span(resp.Header.Get("Content-Range"), off, n)
	})
}

// get opens an object; size says how many bytes have to come.
func (s *Store) get(ctx context.Context, name string, header map[string]string, good int, size func(*http.Response) (int64, error)) (io.ReadCloser, error) {
	c, err := s.call(ctx, checkpoint.VerbGet, "getting", name, 0)
	if err != nil {
		return nil, err
	}
	var o *wire.Object
	err = c.try(ctx, func(a checkpoint.Access) error {
		watched, w := wire.NewWatch(ctx, s.cfg.Stall)
		resp, err := s.send(watched, a, nil, header, good)
		if err != nil {
			defer w.End()
			return meaning(watched, w, err)
		}
		n, err := size(resp)
		if o = wire.NewObject(watched, w, resp.Body, n, c.doing); err != nil {
			return errors.Join(err, o.Close())
		}
		return nil
	}, always)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Stat implements checkpoint.Store.
func (s *Store) Stat(ctx context.Context, name string) (int64, error) {
	c, err := s.call(ctx, checkpoint.VerbHead, "looking at", name, 0)
	if err != nil {
		return 0, err
	}
	var size int64
	err = c.try(ctx, func(a checkpoint.Access) error {
		watched, w := wire.NewWatch(ctx, s.cfg.Stall)
		defer w.End()
		resp, err := s.send(watched, a, nil, nil, http.StatusOK)
		if err != nil {
			return meaning(watched, w, err)
		}
		if size = resp.ContentLength; size < 0 {
			err = errors.New("the answer has no size")
		}
		return errors.Join(err, resp.Body.Close())
	}, always)
	return size, err
}
