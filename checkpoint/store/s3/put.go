package s3

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// Put implements checkpoint.Store.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if size < 0 {
		return fmt.Errorf("putting %s: %w: %d bytes", name, checkpoint.ErrSize, size)
	}
	if s.cfg.Unconditional {
		if err := s.free(ctx, name); err != nil {
			return err
		}
	}
	var err error
	if size > s.cfg.Part {
		err = s.putParts(ctx, name, r, size)
	} else {
		err = s.putWhole(ctx, name, r, size)
	}
	if s.unsure(err) {
		// A 409 is a put of that name that has won, or one in flight. A connection
		// that is cut is how a service refuses a body it does not want to read on,
		// or an answer that was lost.
		if free := s.free(ctx, name); errors.Is(free, checkpoint.ErrExists) {
			return free
		}
	}
	return err
}

// unsure reports whether a put failed in a way that leaves open whether its name
// is taken.
func (s *Store) unsure(err error) bool {
	e, answered := errors.AsType[*wire.Error](err)
	return answered && e.Status == http.StatusConflict || wire.Cut(err)
}

// free looks whether a name is free, where a put cannot.
func (s *Store) free(ctx context.Context, name string) error {
	_, err := s.Stat(ctx, name)
	switch {
	case err == nil:
		return fmt.Errorf("putting %s: %w", name, checkpoint.ErrExists)
	case errors.Is(err, checkpoint.ErrNotFound):
		return nil
	}
	return err
}

func (s *Store) putWhole(ctx context.Context, name string, r io.Reader, size int64) error {
	ctx, c, err := s.begin(ctx, "putting", name)
	if err != nil {
		return err
	}
	opts := s.options()
	sum, err := s.checksum(r, size)
	if err != nil {
		return c.end(err)
	}
	if sum != "" {
		opts.UserMetadata = map[string]string{"X-Amz-Checksum-Crc32c": sum}
	}
	return c.end(c.send(r, size, func(body io.Reader) error {
		_, err := s.core.PutObject(ctx, s.cfg.Bucket, s.prefix+name, body, size, "", "", opts)
		return err
	}))
}

// send makes a request whose body is size bytes of r, and returns when nothing
// reads r any more. Why the body failed comes before what became of the request.
func (c *call) send(r io.Reader, size int64, request func(io.Reader) error) error {
	c.body = wire.NewBody(c.watch.Caller(), r, size, c.watch.Moved)
	if size == 0 {
		if err := c.body.Empty(); err != nil {
			return err
		}
	}
	err := request(c.body)
	if err != nil {
		c.watch.End() // and so the body
	}
	if broken := c.body.Wait(); broken != nil && err != nil {
		return broken
	}
	return err
}

func (s *Store) options() minio.PutObjectOptions {
	opts := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true, DisableMultipart: true}
	if !s.cfg.Unconditional {
		opts.SetMatchETagExcept("*")
	}
	return opts
}

// checksum reads what can be read twice, and returns to where it stood.
func (s *Store) checksum(r io.Reader, size int64) (string, error) {
	again, ok := r.(io.ReadSeeker)
	if !ok || s.secure && !s.cfg.Checksum {
		return "", nil
	}
	at, err := again.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", nil // such as a pipe, which has a Seek that fails
	}
	from := io.LimitReader(again, size)
	if ahead, ok := r.(io.ReaderAt); ok { // a reader that counts or slows what is sent is not to take this for it
		from = io.NewSectionReader(ahead, at, size)
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.Copy(sum, from)
	if err == nil && n < size {
		err = fmt.Errorf("%w: %d bytes, not %d", checkpoint.ErrSize, n, size)
	}
	if err != nil {
		return "", err
	}
	if _, err := again.Seek(at, io.SeekStart); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum.Sum32())), nil
}

// putParts puts a large object in parts, one after the other and without
// keeping any. The client's own way would forget the condition.
func (s *Store) putParts(ctx context.Context, name string, r io.Reader, size int64) error {
	if (size+s.cfg.Part-1)/s.cfg.Part > 10_000 {
		return fmt.Errorf("putting %s: %w: %d bytes are more than 10,000 parts of %d", name, checkpoint.ErrTooLarge, size, s.cfg.Part)
	}
	ctx, c, err := s.begin(ctx, "putting", name)
	if err != nil {
		return err
	}
	opts := s.options()
	upload, err := s.core.NewMultipartUpload(ctx, s.cfg.Bucket, s.prefix+name, minio.PutObjectOptions{ContentType: opts.ContentType})
	if err != nil {
		return c.end(err)
	}
	parts, err := s.sendParts(ctx, c, name, upload, r, size)
	if err == nil {
		c.body, err = nil, nil
		_, err = s.core.CompleteMultipartUpload(ctx, s.cfg.Bucket, s.prefix+name, upload, parts, opts)
	}
	if err != nil {
		err = c.fail(err)
		s.abort(ctx, name, upload)
	}
	c.watch.End()
	return err
}

func (s *Store) sendParts(ctx context.Context, c *call, name, upload string, r io.Reader, size int64) ([]minio.CompletePart, error) {
	whole := wire.NewBody(c.watch.Caller(), r, size, c.watch.Moved)
	var parts []minio.CompletePart
	for off := int64(0); off < size; off += s.cfg.Part {
		n := min(s.cfg.Part, size-off)
		part := io.LimitReader(whole, n)
		err := c.send(part, n, func(body io.Reader) error {
			done, err := s.core.PutObjectPart(ctx, s.cfg.Bucket, s.prefix+name, upload, len(parts)+1, body, n,
				minio.PutObjectPartOptions{DisableContentSha256: true})
			parts = append(parts, minio.CompletePart{PartNumber: len(parts) + 1, ETag: done.ETag})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// abort removes the parts of an upload that failed. It must run although the
// caller's context may have ended: they are paid for, and no list shows them.
func (s *Store) abort(ctx context.Context, name, upload string) {
	ctx, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), callKey{}, nil), 10*time.Second)
	defer cancel()
	_ = s.core.AbortMultipartUpload(ctx, s.cfg.Bucket, s.prefix+name, upload) // the bucket's lifecycle rule is the second chance
}
