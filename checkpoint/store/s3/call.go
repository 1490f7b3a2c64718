package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// call is one request on its way through the client, which hides from us the
// header of an answer and from the transport the body of a put.
type call struct {
	ctx   context.Context // watched
	watch *wire.Watch
	doing string
	body  *wire.Body    // of a put
	after time.Duration // what the answer asked to wait
}

type callKey struct{}

// transport gives a call's own body to the one below, and keeps what its answer
// asked to wait.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, _ := r.Context().Value(callKey{}).(*call)
	if c == nil {
		return t.next.RoundTrip(r)
	}
	if c.body != nil && r.Body != nil {
		r.Body = c.body.Take()
	}
	resp, err := t.next.RoundTrip(r)
	c.watch.Moved()
	if err == nil {
		c.after = wire.RetryAfter(resp.Header)
	}
	return resp, err
}

// end ends a call with its error, in the contract's terms.
func (c *call) end(err error) error {
	defer c.watch.End()
	return c.fail(err)
}

func (c *call) fail(err error) error {
	if err == nil {
		return nil
	}
	if meant := c.watch.Meaning(c.ctx, nil); meant != nil {
		return fmt.Errorf("%s: %w", c.doing, meant)
	}
	return fmt.Errorf("%s: %w", c.doing, c.meaning(err))
}

func (c *call) meaning(err error) error {
	told, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok || told.StatusCode == 0 {
		return wire.Broken(c.watch.Meaning(c.ctx, err))
	}
	e := &wire.Error{Status: told.StatusCode, Code: told.Code, Detail: told.Message, After: c.after}
	if e.Code == http.StatusText(e.Status) || e.Code == fmt.Sprint(e.Status, " ", http.StatusText(e.Status)) {
		e.Code = ""
	}
	return wire.Means(e)
}
