package nats

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/checkpoint"
)

// digest is a sum as NATS writes it.
func digest(sum [sha256.Size]byte) string {
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])
}

// Get implements checkpoint.Store. The digest is checked at the end.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := s.check(ctx, "getting", name); err != nil {
		return nil, err
	}
	d, err := s.found(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("getting %s: %w", name, meaning(ctx, err))
	}
	return &object{ctx: ctx, store: s, name: name, d: d, end: int64(d.info.Size), sum: sha256.New()}, nil
}

// Range implements checkpoint.Store. It reads the chunks that the range lies in,
// from their beginning.
func (s *Store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := s.check(ctx, "getting", name); err != nil {
		return nil, err
	}
	d, err := s.found(ctx, name)
	if err == nil && (off < 0 || n <= 0 || off > int64(d.info.Size)-n) {
		err = fmt.Errorf("%w: %d bytes, want %d from %d", checkpoint.ErrCorrupt, d.info.Size, n, off)
	}
	if err != nil {
		return nil, fmt.Errorf("getting %s: %w", name, meaning(ctx, err))
	}
	return &object{ctx: ctx, store: s, name: name, d: d, at: off, end: off + n}, nil
}

// object is an object, or a range of one, being read. It has one chunk in memory.
type object struct {
	ctx   context.Context // of the Get, whose reader fails once it ends
	store *Store
	name  string
	d     description

	at, end int64
	rest    []byte    // of the chunk that at lies in
	sum     hash.Hash // of a whole object
	closed  bool
}

func (o *object) Read(p []byte) (int, error) {
	n, err := o.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("getting %s: %w", o.name, meaning(o.ctx, err))
	}
	return n, err
}

func (o *object) read(p []byte) (int, error) {
	if o.closed {
		return 0, errors.New("read after close")
	}
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	if o.at == o.end {
		return 0, o.ended()
	}
	if len(o.rest) == 0 {
		if err := o.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(p[:min(int64(len(p)), o.end-o.at)], o.rest)
	if o.sum != nil {
		o.sum.Write(p[:n])
	}
	o.rest = o.rest[n:]
	o.at += int64(n)
	return n, nil
}

// ended is io.EOF, unless the object is not what was put.
func (o *object) ended() error {
	if o.sum == nil {
		return io.EOF
	}
	if got := digest([sha256.Size]byte(o.sum.Sum(nil))); got != o.d.info.Digest {
		return fmt.Errorf("%w: its digest is %s, not %s", checkpoint.ErrCorrupt, got, o.d.info.Digest)
	}
	return io.EOF
}

// fetch gets the chunk that at lies in.
func (o *object) fetch() error {
	each := int64(o.d.info.Opts.ChunkSize)
	n := o.at / each
	data, err := o.store.message(o.ctx, o.d.chunks[n], o.store.chunks(o.d.info.NUID))
	if errors.Is(err, errNone) {
		return o.lost(n)
	}
	if err != nil {
		return err
	}
	if want := min(each, int64(o.d.info.Size)-n*each); int64(len(data)) != want {
		return fmt.Errorf("%w: chunk %d has %d bytes, not %d", checkpoint.ErrCorrupt, n, len(data), want)
	}
	o.rest = data[o.at-n*each:]
	return nil
}

// lost says why a chunk is not there: the object was deleted meanwhile, or it is damaged.
func (o *object) lost(n int64) error {
	d, err := o.store.found(o.ctx, o.name)
	if err != nil {
		return err
	}
	if d.sequence != o.d.sequence {
		return checkpoint.ErrNotFound
	}
	return fmt.Errorf("%w: chunk %d is gone from the bus", checkpoint.ErrCorrupt, n)
}

func (o *object) Close() error {
	o.closed, o.rest = true, nil
	return nil
}

// message returns what the stream has at a place, if it is of that subject.
func (s *Store) message(ctx context.Context, sequence uint64, subject string) ([]byte, error) {
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := s.stream.GetMsg(soon, sequence) // from any replica, and not as JSON
	if err == nil {
		if m.Subject != subject {
			return nil, errNone
		}
		return m.Data, nil
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, err
	}
	l, err := s.leader(ctx, fmt.Sprintf(`{"seq":%d}`, sequence)) // that replica may have been behind
	if err == nil && l.Subject != subject {
		err = errNone
	}
	return l.Data, err
}
