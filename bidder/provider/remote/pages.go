package remote

import (
	"encoding/json"
	"fmt"

	"github.com/spotferry/spotferry/bidder/provider"
)

const (
	pageOverhead = 1024     // the envelope around the items, headers included
	maxPages     = 1024     // of one answer
	maxAnswer    = 64 << 20 // bytes of one answer
)

// paginate packs items into pages whose bodies stay below limit bytes. There is always at least one page.
func paginate[T any](op string, items []T, meta *listMeta, limit int) ([][]byte, error) {
	limit -= pageOverhead
	var packs [][]json.RawMessage
	var pack []json.RawMessage
	size := 0
	for n, item := range items {
		raw, err := json.Marshal(item)
		if err != nil {
			return nil, &provider.Error{Kind: provider.Transient, Op: op, Message: fmt.Sprintf("item %d cannot be written as JSON", n), Err: err}
		}
		if len(raw) > limit {
			return nil, &provider.Error{
				Kind: provider.Transient, Op: op, Code: "item_too_large",
				Message: fmt.Sprintf("item %d has %d bytes, more than the bus carries in a message (%d)", n, len(raw), limit),
			}
		}
		if size+len(raw)+1 > limit {
			packs, pack, size = append(packs, pack), nil, 0
		}
		pack, size = append(pack, raw), size+len(raw)+1
	}
	packs = append(packs, pack)
	out := make([][]byte, len(packs))
	for n := range packs {
		body, err := json.Marshal(page{Page: n, Pages: len(packs), Items: packs[n], List: meta})
		if err != nil {
			return nil, &provider.Error{Kind: provider.Transient, Op: op, Message: "the answer cannot be written as JSON", Err: err}
		}
		out[n] = body
	}
	return out, nil
}

// book collects the pages of one answer, in whatever order and however often they arrive.
type book struct {
	pages []*page
	have  int
	bytes int
}

// add takes one message. done says that all are there.
func (b *book) add(body []byte) (done bool, err error) {
	if b.bytes += len(body); b.bytes > maxAnswer {
		return false, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	var p page
	if err := json.Unmarshal(body, &p); err != nil {
		return false, fmt.Errorf("the answer is not JSON: %w", err)
	}
	if p.Error != nil {
		b.pages, b.have = []*page{&p}, 1
		return true, nil
	}
	if p.Pages < 1 || p.Pages > maxPages || p.Page < 0 || p.Page >= p.Pages || (b.pages != nil && p.Pages != len(b.pages)) {
		return false, fmt.Errorf("page %d of %d does not belong to this answer", p.Page, p.Pages)
	}
	if b.pages == nil {
		b.pages = make([]*page, p.Pages)
	}
	if b.pages[p.Page] == nil {
		b.pages[p.Page] = &p
		b.have++
	}
	return b.have == len(b.pages), nil
}

// items reads every item of a complete answer.
func items[T any](b *book) ([]T, error) {
	var out []T
	for _, p := range b.pages {
		for _, raw := range p.Items {
			var item T
			if err := json.Unmarshal(raw, &item); err != nil {
				return nil, fmt.Errorf("item %d of the answer: %w", len(out), err)
			}
			out = append(out, item)
		}
	}
	return out, nil
}
