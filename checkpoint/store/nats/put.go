package nats

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/checkpoint"
)

// window is how many chunks of one put are on their way at a time, and in memory.
const window = 4

// Put implements checkpoint.Store. It takes 4 MiB of memory.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := s.check(ctx, "putting", name); err != nil {
		return err
	}
	if size < 0 || size > maxObject {
		return fmt.Errorf("putting %s: %w: %d bytes, at most %d", name, checkpoint.ErrTooLarge, size, maxObject)
	}
	if err := s.put(ctx, name, r, size); err != nil {
		return fmt.Errorf("putting %s: %w", name, meaning(ctx, err))
	}
	return nil
}

func (s *Store) put(ctx context.Context, name string, r io.Reader, size int64) error {
	was, err := s.describe(ctx, name)
	switch {
	case errors.Is(err, errNone):
	case was.sequence > 0 && !was.info.Deleted: // damaged ones, too
		return checkpoint.ErrExists
	case err != nil:
		return err
	}
	// What Sweep finds without a description after StaleAfter must never get one.
	deadline, cancel := context.WithTimeoutCause(ctx, s.cfg.StaleAfter/2, errTooLong)
	defer cancel()
	p := &upload{store: s, id: s.cfg.ID(), body: exactly{ctx, r}}
	err = p.send(deadline, size)
	if err == nil {
		err = p.describe(deadline, name, size, was.sequence)
	}
	if errors.Is(err, errUnknown) { // it may be there: its chunks stay
		return err
	}
	if err != nil {
		err = errors.Join(err, p.undo())
	}
	if ctx.Err() == nil && deadline.Err() != nil {
		err = errors.Join(errTooLong, err)
	}
	return err
}

var (
	errTooLong = errors.New("the put took longer than half of StaleAfter")
	errBetween = errors.New("another put or deletion of this name came between")
	errUnknown = errors.New("the bus did not answer whether the object is there now")
)

// upload is one put.
type upload struct {
	store *Store
	id    string
	body  exactly

	acks  []jetstream.PubAckFuture // of chunks on their way, oldest first
	where []string                 // sequences of those that arrived
	sum   [sha256.Size]byte
}

// send puts the chunks.
func (p *upload) send(ctx context.Context, size int64) error {
	digest := sha256.New()
	var buffers [window][]byte // each is the bus' until its chunk is acknowledged
	for n := 0; size > 0; n++ {
		if len(p.acks) == window {
			if err := p.arrived(ctx); err != nil {
				return err
			}
		}
		b := &buffers[n%window]
		if *b == nil {
			*b = make([]byte, min(int64(p.store.chunk), size))
		}
		data := (*b)[:min(int64(len(*b)), size)]
		if err := p.body.fill(data); err != nil {
			return err
		}
		digest.Write(data)
		ack, err := p.store.js.PublishMsgAsync(&nats.Msg{Subject: p.store.chunks(p.id), Data: data})
		if err != nil {
			return err
		}
		p.acks = append(p.acks, ack)
		size -= int64(len(data))
	}
	if err := p.body.ended(); err != nil {
		return err
	}
	for len(p.acks) > 0 {
		if err := p.arrived(ctx); err != nil {
			return err
		}
	}
	digest.Sum(p.sum[:0])
	return nil
}

// exactly is a reader that has to keep the promise of its size.
type exactly struct {
	ctx context.Context // of the put
	r   io.Reader
}

func (e exactly) fill(p []byte) error {
	_, err := io.ReadFull(e.r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: fewer bytes than announced", checkpoint.ErrSize)
	}
	return errors.Join(e.ctx.Err(), err)
}

func (e exactly) ended() error {
	n, err := io.ReadFull(e.r, make([]byte, 1))
	if n > 0 {
		return fmt.Errorf("%w: more bytes than announced", checkpoint.ErrSize)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(e.ctx.Err(), err)
}

// arrived waits for the oldest chunk on its way.
func (p *upload) arrived(ctx context.Context) error {
	select {
	case ack := <-p.acks[0].Ok():
		p.where = append(p.where, strconv.FormatUint(ack.Sequence, 10))
		p.acks = p.acks[1:]
		return nil
	case err := <-p.acks[0].Err():
		p.acks = p.acks[1:]
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// describe publishes the message that makes the object exist, if its subject's
// last one still is the one we know of.
func (p *upload) describe(ctx context.Context, name string, size int64, last uint64) error {
	data, err := json.Marshal(&jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Metadata: map[string]string{sequences: strings.Join(p.where, " ")},
			Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(p.store.chunk)}},
		Bucket: p.store.cfg.Bucket, NUID: p.id, Size: uint64(size), Chunks: uint32(len(p.where)), Digest: digest(p.sum),
	})
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: p.store.named(name), Data: data, Header: nats.Header{}}
	if last > 0 {
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject) // in place of the marker of a deletion
	}
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = p.store.js.PublishMsg(soon, m, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithRetryAttempts(0))
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && wrongLast(refused.ErrorCode):
		return p.isOurs(ctx, name, errBetween)
	case errors.As(err, &refused), errors.Is(err, jetstream.ErrNoStreamResponse):
		return err
	}
	return p.isOurs(ctx, name, fmt.Errorf("%w: %w", errUnknown, err))
}

// isOurs looks who won: a publish may have arrived twice, or its answer been
// lost. otherwise is the error when it was not us.
func (p *upload) isOurs(ctx context.Context, name string, otherwise error) error {
	d, err := p.store.describe(ctx, name)
	switch {
	case err == nil && d.info.NUID == p.id && !d.info.Deleted:
		return nil
	case err == nil && !d.info.Deleted:
		return checkpoint.ErrExists
	}
	return otherwise
}

// undo removes the chunks of an object that will not be. It outlives the
// caller's context: the chunks would hold room until they are swept.
func (p *upload) undo() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience/6)
	defer cancel()
	for len(p.acks) > 0 { // one that arrives afterwards would stay
		if err := p.arrived(ctx); err != nil && ctx.Err() != nil {
			return nil // swept later
		}
	}
	_ = p.store.purge(ctx, p.store.chunks(p.id)) // or swept later
	return nil
}
