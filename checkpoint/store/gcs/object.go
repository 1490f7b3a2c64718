package gcs

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// Put implements checkpoint.Store, for objects up to 64 MiB. It reads all of r
// before it sends a byte: the checksum goes ahead of the content, and a reader
// that breaks leaves nothing.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	once, object, err := s.object(ctx, "putting", name)
	if err != nil {
		return err
	}
	data, err := wire.Whole(ctx, r, size, maxPut)
	if err != nil {
		return fmt.Errorf("putting %s: %w", name, err)
	}
	once, watch := wire.NewWatch(once, wire.Stall)
	defer watch.End()
	w := object.If(storage.Conditions{DoesNotExist: true}).NewWriter(once)
	w.ChunkSize = 0 // one request, where the SDK would open a resumable upload
	w.ContentType = "application/octet-stream"
	w.CRC32C, w.SendCRC32C = crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)), true
	_, err = io.Copy(w, wire.NewMoving(data, watch))
	if err := errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("putting %s: %w", name, meaning(once, err))
	}
	return nil
}

// Get implements checkpoint.Store. The SDK checks the CRC32C of an object that
// is read to its end.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.read(ctx, name, 0, -1)
}

// Range implements checkpoint.Store.
func (s *Store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n <= 0 {
		return nil, fmt.Errorf("getting %q: no range of %d bytes from %d", name, n, off)
	}
	return s.read(ctx, name, off, n)
}

func (s *Store) read(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	once, object, err := s.object(ctx, "getting", name)
	if err != nil {
		return nil, err
	}
	watched, watch := wire.NewWatch(once, wire.Stall)
	r, err := object.NewRangeReader(watched, off, n)
	if err == nil && n > 0 && r.Attrs.Size-off < n {
		err = errors.Join(fmt.Errorf("%w: %d bytes, want %d from %d", checkpoint.ErrCorrupt, r.Attrs.Size, n, off), r.Close())
	} else if err != nil {
		err = meaning(watched, err)
	}
	if err != nil {
		watch.End()
		return nil, fmt.Errorf("getting %s: %w", name, err)
	}
	return wire.NewObject(watched, watch, summed{r}, r.Remain(), "getting "+name), nil
}

// summed names the one error of a Reader that is about the object.
type summed struct{ *storage.Reader }

func (s summed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && strings.Contains(err.Error(), "bad CRC") { // the SDK has no value for it
		err = fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	return n, err
}

// Stat implements checkpoint.Store.
func (s *Store) Stat(ctx context.Context, name string) (int64, error) {
	once, object, err := s.object(ctx, "looking at", name)
	if err != nil {
		return 0, err
	}
	attrs, err := object.Attrs(once)
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", name, meaning(ctx, err))
	}
	return attrs.Size, nil
}

// List implements checkpoint.Store. Google's lists are not late.
func (s *Store) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	ask, ok := askable(prefix)
	if !ok {
		return nil, ctx.Err()
	}
	query := &storage.Query{Prefix: s.prefix + ask}
	if err := query.SetAttrSelection([]string{"Name", "Size"}); err != nil {
		return nil, err
	}
	var found []checkpoint.Object
	for it := s.bucket.Objects(ctx, query); ; {
		attrs, err := it.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("listing %q: %w", prefix, meaning(ctx, err))
		}
		if name := strings.TrimPrefix(attrs.Name, s.prefix); strings.HasPrefix(name, prefix) && checkpoint.ObjectName(name) {
			found = append(found, checkpoint.Object{Name: name, Size: attrs.Size})
		}
	}
	slices.SortFunc(found, func(a, b checkpoint.Object) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// askable is what to ask for to find every name with a prefix: as much of it as
// is text, for it may end inside a character. It is false when no object can
// have such a name.
func askable(prefix string) (string, bool) {
	ask := prefix
	for !utf8.ValidString(ask) {
		ask = ask[:len(ask)-1]
	}
	return ask, checkpoint.ObjectName(ask) || checkpoint.ObjectName(ask+"x")
}

// Delete implements checkpoint.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	once, object, err := s.object(ctx, "deleting", name)
	if err != nil {
		return err
	}
	err = meaning(ctx, object.Delete(once))
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}
