package checkpoint

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"lukechampine.com/blake3"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

// sink takes verified bytes of a chunk, once for every place they belong in.
type sink func(p part, plain []byte) error

// blame is an error with the file it was met in.
type blame struct {
	path string
	err  error
}

func (b *blame) Error() string { return b.path + ": " + b.err.Error() }
func (b *blame) Unwrap() error { return b.err }

// fetchAll does all jobs, several at a time, until one fails. What is bad is a
// *Rejection naming the file.
func (e *Engine) fetchAll(ctx context.Context, ref Ref, m Manifest, jobs []job, to sink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e.fetching.begin()
	defer e.fetching.end()
	var work sync.WaitGroup
	for _, j := range jobs {
		t, err := e.fetching.enter(ctx, e.fetching.memoryFor(j))
		if err != nil {
			break // ctx says why
		}
		work.Go(func() {
			defer t.close()
			if err := e.fetch(ctx, t, m, j, to); err != nil {
				path := m.Files[j.parts[0].file].Path
				if b, ok := errors.AsType[*blame](err); ok {
					path, err = b.path, b.err
				}
				cancel(judge(ref, path, err))
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

// fetch does one job. Of a pack that cannot be read at once its members are read
// one by one, to find the bad one.
func (e *Engine) fetch(ctx context.Context, t *ticket, m Manifest, j job, to sink) error {
	err := again(func() error { return e.fetchOnce(ctx, t, m, j, to) })
	if err == nil || len(j.parts) == 1 || j.parts[0].c.Pack == "" || !proves(err) {
		return err
	}
	for _, p := range j.parts {
		one := job{object: j.object, off: p.c.Off, n: p.c.stored(), parts: []part{p}}
		if err := again(func() error { return e.fetchOnce(ctx, t, m, one, to) }); err != nil {
			if _, named := errors.AsType[*blame](err); named {
				return err
			}
			return &blame{m.Files[p.file].Path, err}
		}
	}
	return nil
}

// fetchOnce reads, opens, decodes and verifies what a job is for, and only then
// gives it away.
func (e *Engine) fetchOnce(ctx context.Context, t *ticket, m Manifest, j job, to sink) error {
	var used [][]byte
	scratch := func(n int64) []byte {
		b := t.take(n)
		used = append(used, b)
		return b
	}
	defer func() { t.put(used) }()
	stored, err := e.readJob(ctx, j, scratch(j.n)[:j.n])
	if err != nil {
		return err
	}
	var plain []byte
	for i, p := range j.parts {
		if i == 0 || p.c != j.parts[i-1].c {
			bytes := stored[p.c.Off-min(j.off, p.c.Off):][:p.c.stored()]
			if p.c.Pack == "" {
				bytes = stored
			}
			var dst []byte
			if p.c.Codec != "" {
				dst = scratch(p.c.Size + sealing)
			}
			plain, err = e.plainOf(bytes, p.c, t.coder(), dst)
			if err == nil {
				err = rightly(e.cfg.Key, plain, p.c)
			}
			if err != nil {
				return &blame{m.Files[p.file].Path, err}
			}
		}
		if err := to(p, plain); err != nil {
			return &blame{m.Files[p.file].Path, err}
		}
		e.fetched.Add(p.c.Size)
	}
	return nil
}

// rightly reports whether plain is what c says.
func rightly(key chunk.Key, plain []byte, c Chunk) error {
	if int64(len(plain)) != c.Size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, len(plain), c.Size)
	}
	if got := key.Name(plain); got != c.Hash {
		return fmt.Errorf("%w: hash %s, want %s", ErrCorrupt, got, c.Hash)
	}
	return nil
}

// readJob reads a job's bytes. An object that is read whole must also end there.
func (e *Engine) readJob(ctx context.Context, j job, buf []byte) ([]byte, error) {
	if j.whole() {
		r, err := e.cfg.Store.Get(ctx, j.object.Name)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return exactly(r, buf)
	}
	r, err := e.cfg.Store.Range(ctx, j.object.Name, j.off, j.n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := io.ReadFull(r, buf); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: it ends before %d", ErrCorrupt, j.off+j.n)
	} else if err != nil {
		return nil, err
	}
	return buf, nil
}

// readEverything does all of a restore but the writing.
func (e *Engine) readEverything(ctx context.Context, ref Ref, m Manifest) error {
	if err := e.sized(ctx, ref, m, nil); err != nil {
		return err
	}
	jobs, err := e.plan(m)
	if err != nil {
		return judge(ref, "", err)
	}
	if err := e.fetchAll(ctx, ref, m, jobs, func(part, []byte) error { return nil }); err != nil {
		return err
	}
	for _, f := range m.Files {
		if f.Hash == "" {
			continue
		}
		if err := again(func() error { return e.fetchWhole(ctx, f, io.Discard) }); err != nil {
			return judge(ref, f.Path, err)
		}
	}
	return nil
}

// fetchWhole copies a file of schema 1 to w and returns nil only if it had the
// right bytes. What w got before an error is worthless.
func (e *Engine) fetchWhole(ctx context.Context, f File, w io.Writer) error {
	r, err := e.cfg.Store.Get(ctx, fileName(e.cfg.Tenant, f.Hash))
	if err != nil {
		return err
	}
	defer r.Close()
	h := blake3.New(hashLen/2, nil)
	n, err := io.CopyBuffer(onlyWriter{io.MultiWriter(h, w)}, io.LimitReader(withContext{ctx, r}, f.Size+1), make([]byte, 1<<20))
	if err != nil {
		return err
	}
	if n != f.Size {
		return fmt.Errorf("%w: %d bytes or more, want %d", ErrCorrupt, n, f.Size)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.Hash {
		return fmt.Errorf("%w: hash %s, want %s", ErrCorrupt, got, f.Hash)
	}
	e.fetched.Add(n)
	return nil
}

// onlyWriter hides ReadFrom, which would go around the buffer.
type onlyWriter struct{ io.Writer }
