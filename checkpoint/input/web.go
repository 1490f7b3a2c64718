package input

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// page is one file at an address.
type page struct {
	source Source
	client client
}

// List implements [Remote]. It reads the first byte: some addresses, signed ones
// among them, answer no other question.
func (p *page) List(ctx context.Context) ([]File, error) {
	doing := "looking at " + p.source.String()
	a, err := p.client.get(ctx, doing, p.source.Place, map[string]string{"Range": span(0, 1)}, http.StatusRequestedRangeNotSatisfiable)
	if err != nil {
		return nil, err
	}
	defer a.close()
	f := File{Size: -1, mark: mark(a.Header)}
	switch a.StatusCode {
	case http.StatusPartialContent:
		if f.Size = total(a.Header.Get("Content-Range")); f.Size < 0 {
			return nil, fmt.Errorf("%s: a part of the file came, and not how large that is", doing)
		}
	case http.StatusRequestedRangeNotSatisfiable: // nothing has no first byte
		f.Size = max(total(a.Header.Get("Content-Range")), 0)
	default:
		f.Size, f.Whole = a.ContentLength, true
	}
	switch {
	case p.source.SHA256 != "":
		f.Sum = "sha256:" + p.source.SHA256
		f.Key = f.Sum
	case f.mark != "" && f.Size >= 0:
		f.Key = fmt.Sprintf("%s %s %d", p.source.Place, f.mark, f.Size)
	}
	return []File{f}, nil
}

// Open implements [Remote].
func (p *page) Open(ctx context.Context, f File, off, n int64) (io.ReadCloser, error) {
	r, _, err := p.client.part(ctx, "fetching "+p.source.String(), p.source.Place, nil, f, off, n)
	return r, err
}
