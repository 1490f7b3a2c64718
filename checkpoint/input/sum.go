package input

import (
	"context"
	"crypto/sha1" // of Git, which names its objects by it
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"
	"lukechampine.com/blake3"
)

// partSize is how much of a file is fetched by one request, and lost with it.
const partSize = 8 << 20

// parts is how many a file of a size has.
func parts(size int64) int { return int((size + partSize - 1) / partSize) }

// within is the place of a part in a file.
func within(size int64, part int) (off, n int64) {
	off = int64(part) * partSize
	return off, min(partSize, size-off)
}

// contentID names a content by the BLAKE3 of its parts, so that neither fetching
// nor verifying has to go through it in order.
func contentID(size int64, sums [][32]byte) string {
	h := blake3.New(32, nil)
	var head [16]byte
	binary.LittleEndian.PutUint64(head[:], uint64(size))
	binary.LittleEndian.PutUint64(head[8:], partSize)
	_, _ = h.Write(head[:]) // a hash takes everything
	for _, s := range sums {
		_, _ = h.Write(s[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sumPart reads a part of a file.
func sumPart(ctx context.Context, f *os.File, size int64, part int) (sum [32]byte, err error) {
	off, n := within(size, part)
	return sumOf(ctx, io.NewSectionReader(f, off, n), nil, n)
}

// sumOf reads n bytes, gives them on if anybody wants them, and returns their BLAKE3.
func sumOf(ctx context.Context, r io.Reader, w io.Writer, n int64) (sum [32]byte, err error) {
	h := blake3.New(32, nil)
	var to io.Writer = h
	if w != nil {
		to = io.MultiWriter(w, h)
	}
	// 16 KiB: the hash starts goroutines for what is longer, on cores that train.
	m, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{stopping{ctx, io.LimitReader(r, n)}}, make([]byte, 16<<10))
	if err == nil && m < n {
		err = io.ErrUnexpectedEOF
	}
	h.Sum(sum[:0])
	return sum, err
}

// stopping is a reader that ends with its context.
type stopping struct {
	ctx context.Context
	r   io.Reader
}

func (s stopping) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// identify reads a whole file, several parts at once, and names its content.
func identify(ctx context.Context, f *os.File, size int64, workers int) (string, error) {
	sums := make([][32]byte, parts(size))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i := range sums {
		g.Go(func() (err error) {
			sums[i], err = sumPart(ctx, f, size, i)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	return contentID(size, sums), nil
}

// fulfils reads a whole file and reports what it has instead of what it must have; "": that.
func fulfils(ctx context.Context, f *os.File, size int64, sum string) (has string, err error) {
	kind, want, _ := strings.Cut(sum, ":")
	var h hash.Hash
	switch kind {
	case "":
		return "", nil
	case "sha256":
		h = sha256.New()
	case "blake3":
		h = blake3.New(32, nil)
	case "git":
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
	default:
		return "", fmt.Errorf("a sum of kind %q", kind)
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, stopping{ctx, io.NewSectionReader(f, 0, size)}, make([]byte, 16<<10)); err != nil {
		return "", err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return kind + ":" + got, nil
	}
	return "", nil
}
