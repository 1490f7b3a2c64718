package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// Get implements checkpoint.Store.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.get(ctx, name, minio.GetObjectOptions{}, func(size int64, _ string) (int64, error) { return size, nil })
}

// Range implements checkpoint.Store.
func (s *Store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n <= 0 || off > 1<<62 || n > 1<<62 {
		return nil, fmt.Errorf("getting %q: no range of %d bytes from %d", name, n, off)
	}
	var opts minio.GetObjectOptions
	opts.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	return s.get(ctx, name, opts, func(_ int64, span string) (int64, error) { return n, wire.Span(span, off, n) })
}

// get opens an object; size says how many bytes have to come.
func (s *Store) get(ctx context.Context, name string, opts minio.GetObjectOptions, size func(length int64, span string) (int64, error)) (io.ReadCloser, error) {
	ctx, c, err := s.begin(ctx, "getting", name)
	if err != nil {
		return nil, err
	}
	body, info, header, err := s.core.GetObject(ctx, s.cfg.Bucket, s.prefix+name, opts)
	if err != nil {
		return nil, c.end(err)
	}
	n, err := size(info.Size, header.Get("Content-Range"))
	if err == nil && n < 0 {
		err = errors.New("the answer does not say how long it is: something between here and the service takes out Content-Length")
	}
	o := wire.NewObject(ctx, c.watch, body, n, c.doing)
	if err != nil {
		_ = o.Close()
		return nil, fmt.Errorf("%s: %w", c.doing, err)
	}
	return o, nil
}

// Stat implements checkpoint.Store.
func (s *Store) Stat(ctx context.Context, name string) (int64, error) {
	ctx, c, err := s.begin(ctx, "looking at", name)
	if err != nil {
		return 0, err
	}
	info, err := s.core.StatObject(ctx, s.cfg.Bucket, s.prefix+name, minio.StatObjectOptions{})
	if err == nil && info.Size < 0 {
		err = fmt.Errorf("the answer has the size %s", strconv.FormatInt(info.Size, 10))
	}
	return info.Size, c.end(err)
}

// List implements checkpoint.Store. What is in the bucket and has no object's
// name is not listed.
func (s *Store) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if prefix != "" && !checkpoint.ObjectName(prefix) && !checkpoint.ObjectName(prefix+"x") {
		return nil, nil // no object's name begins so
	}
	watched, w := wire.NewWatch(ctx, s.cfg.Stall)
	c := &call{ctx: watched, watch: w, doing: fmt.Sprintf("listing %q", prefix)}
	ctx = context.WithValue(watched, callKey{}, c)
	var found []checkpoint.Object
	for o := range s.core.ListObjectsIter(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, c.end(o.Err)
		}
		name, ours := strings.CutPrefix(o.Key, s.prefix)
		if ours && strings.HasPrefix(name, prefix) && checkpoint.ObjectName(name) {
			found = append(found, checkpoint.Object{Name: name, Size: o.Size})
		}
	}
	if err := ctx.Err(); err != nil { // the iteration just ends
		return nil, c.end(err)
	}
	slices.SortFunc(found, func(a, b checkpoint.Object) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(found), c.end(nil)
}

// Delete implements checkpoint.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	ctx, c, err := s.begin(ctx, "deleting", name)
	if err != nil {
		return err
	}
	err = c.end(s.core.RemoveObject(ctx, s.cfg.Bucket, s.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil
	}
	return err
}
