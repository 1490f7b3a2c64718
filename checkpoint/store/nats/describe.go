package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/checkpoint"
)

// sequences is the key of the chunks' sequences in a description.
const sequences = "spotferry-sequences"

// description is the message that makes an object exist.
type description struct {
	info     jetstream.ObjectInfo
	chunks   []uint64 // where they are in the stream
	sequence uint64   // its own
}

// describe returns an object's description, or errNone. One that NATS' own
// client left behind when it deleted the object comes with its Deleted set.
func (s *Store) describe(ctx context.Context, name string) (description, error) {
	request, err := json.Marshal(map[string]string{"last_by_subj": s.named(name)})
	if err != nil {
		return description{}, err
	}
	m, err := s.leader(ctx, string(request))
	if err != nil {
		return description{}, err
	}
	return decode(m)
}

// decode reads a description.
func decode(m stored) (description, error) {
	d := description{sequence: m.Sequence}
	if err := json.Unmarshal(m.Data, &d.info); err != nil {
		return d, fmt.Errorf("%w: its description is not one: %w", checkpoint.ErrCorrupt, err)
	}
	if d.info.Deleted {
		return d, nil
	}
	for field := range strings.FieldsSeq(d.info.Metadata[sequences]) {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return d, fmt.Errorf("%w: its description lists %q as a chunk", checkpoint.ErrCorrupt, field)
		}
		d.chunks = append(d.chunks, n)
	}
	size, each := d.info.Size, uint64(0)
	if d.info.Opts != nil {
		each = uint64(d.info.Opts.ChunkSize)
	}
	if size > maxObject || each == 0 || uint64(len(d.chunks)) != (size+each-1)/each {
		return d, fmt.Errorf("%w: %d chunks of %d bytes are described for %d: it was put by another client than this",
			checkpoint.ErrCorrupt, len(d.chunks), each, size)
	}
	return d, nil
}

// found is describe for callers who want an object that is there.
func (s *Store) found(ctx context.Context, name string) (description, error) {
	d, err := s.describe(ctx, name)
	if errors.Is(err, errNone) || err == nil && d.info.Deleted {
		return d, checkpoint.ErrNotFound
	}
	return d, err
}

// Stat implements checkpoint.Store.
func (s *Store) Stat(ctx context.Context, name string) (int64, error) {
	if err := s.check(ctx, "looking at", name); err != nil {
		return 0, err
	}
	d, err := s.found(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", name, meaning(ctx, err))
	}
	return int64(d.info.Size), nil
}

// List implements checkpoint.Store. It is never late, and reads the description
// of every object of the bucket, one after the other.
func (s *Store) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	var found []checkpoint.Object
	err := s.all(ctx, func(d description) {
		if strings.HasPrefix(d.info.Name, prefix) && checkpoint.ObjectName(d.info.Name) {
			found = append(found, checkpoint.Object{Name: d.info.Name, Size: int64(d.info.Size)})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", prefix, meaning(ctx, err))
	}
	slices.SortFunc(found, func(a, b checkpoint.Object) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// all visits every description that can be read, also of objects that are damaged.
func (s *Store) all(ctx context.Context, visit func(description)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for next := uint64(1); ; {
		m, err := s.leader(ctx, fmt.Sprintf(`{"seq":%d,"next_by_subj":"$O.%s.M.>"}`, next, s.cfg.Bucket))
		if errors.Is(err, errNone) {
			return nil
		}
		if err != nil {
			return err
		}
		if d, _ := decode(m); d.info.Name != "" && !d.info.Deleted { // what is damaged is for Get to tell
			visit(d)
		}
		next = m.Sequence + 1
	}
}

// Delete implements checkpoint.Store. It leaves no marker: names are not used
// again, and markers would stay for good.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := s.check(ctx, "deleting", name); err != nil {
		return err
	}
	d, err := s.describe(ctx, name)
	switch {
	case errors.Is(err, errNone), err == nil && d.info.Deleted:
		return nil
	case err != nil && d.sequence == 0: // not one that is there and damaged
		return fmt.Errorf("deleting %s: %w", name, meaning(ctx, err))
	}
	// Up to this description and no further: by now there may be a new one.
	err = s.purge(ctx, s.named(name), jetstream.WithPurgeSequence(d.sequence+1))
	if err == nil && d.info.NUID != "" {
		err = s.purge(ctx, s.chunks(d.info.NUID))
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", name, meaning(ctx, err))
	}
	return nil
}
