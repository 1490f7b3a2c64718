package azure

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// Put implements checkpoint.Store, for objects up to 64 MiB. It reads all of r
// before it sends a byte: the checksum goes ahead of the content, and a reader
// that breaks leaves nothing.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	client, err := s.blob(ctx, "putting", name)
	if err != nil {
		return err
	}
	data, err := wire.Whole(ctx, r, size, maxPut)
	if err != nil {
		return fmt.Errorf("putting %s: %w", name, err)
	}
	sum := md5.Sum(data) // Azure keeps it with the blob
	watched, watch := wire.NewWatch(ctx, wire.Stall)
	defer watch.End()
	_, err = client.Upload(watched, wire.NewMoving(data, watch), &blockblob.UploadOptions{
		TransactionalValidation: blob.TransferValidationTypeMD5(sum[:]),
		AccessConditions: &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}},
	})
	if err != nil {
		return fmt.Errorf("putting %s: %w", name, meaning(watched, err))
	}
	return nil
}

// Get implements checkpoint.Store.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.read(ctx, name, blob.HTTPRange{})
}

// Range implements checkpoint.Store.
func (s *Store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n <= 0 {
		return nil, fmt.Errorf("getting %q: no range of %d bytes from %d", name, n, off)
	}
	return s.read(ctx, name, blob.HTTPRange{Offset: off, Count: n})
}

func (s *Store) read(ctx context.Context, name string, part blob.HTTPRange) (io.ReadCloser, error) {
	client, err := s.blob(ctx, "getting", name)
	if err != nil {
		return nil, err
	}
	watched, watch := wire.NewWatch(ctx, wire.Stall)
	got, err := client.DownloadStream(watched, &blob.DownloadStreamOptions{Range: part})
	switch {
	case err != nil:
		err = meaning(watched, err)
	case got.ContentLength == nil:
		err = errors.Join(errors.New("the answer has no length"), got.Body.Close())
	case part.Count > 0 && *got.ContentLength != part.Count:
		err = errors.Join(fmt.Errorf("%w: it ends before %d bytes from %d", checkpoint.ErrCorrupt, part.Count, part.Offset), got.Body.Close())
	}
	if err != nil {
		watch.End()
		return nil, fmt.Errorf("getting %s: %w", name, err)
	}
	return wire.NewObject(watched, watch, got.Body, *got.ContentLength, "getting "+name), nil
}

// Stat implements checkpoint.Store.
func (s *Store) Stat(ctx context.Context, name string) (int64, error) {
	client, err := s.blob(ctx, "looking at", name)
	if err != nil {
		return 0, err
	}
	got, err := client.GetProperties(ctx, nil)
	if err == nil && got.ContentLength == nil {
		err = errors.New("the answer has no length")
	}
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", name, meaning(ctx, err))
	}
	return *got.ContentLength, nil
}

// List implements checkpoint.Store. Azure's lists are not late.
func (s *Store) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	ask, ok := askable(prefix)
	if !ok {
		return nil, ctx.Err()
	}
	var found []checkpoint.Object
	pages := s.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: to.Ptr(s.prefix + ask)})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing %q: %w", prefix, meaning(ctx, err))
		}
		for _, item := range page.Segment.BlobItems {
			if item.Name == nil || item.Properties == nil || item.Properties.ContentLength == nil {
				return nil, fmt.Errorf("listing %q: a blob without a name or length", prefix)
			}
			if name := strings.TrimPrefix(*item.Name, s.prefix); strings.HasPrefix(name, prefix) && checkpoint.ObjectName(name) {
				found = append(found, checkpoint.Object{Name: name, Size: *item.Properties.ContentLength})
			}
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
	client, err := s.blob(ctx, "deleting", name)
	if err != nil {
		return err
	}
	_, err = client.Delete(ctx, nil)
	if err = meaning(ctx, err); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}
