package aws

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// The most that is believed of one call: bytes of an answer, pages of a list.
const (
	maxReply = 8 << 20
	maxPages = 10_000
)

// replyError is an answer that is not one of EC2's.
type replyError struct{ why string }

func (e *replyError) Error() string { return "not an answer of EC2: " + e.why }

// bounded is an HTTP client whose answers end.
type bounded struct{ next *http.Client }

// Do implements the clients' HTTPClient. It sends a copy of the request's body:
// the seller's client closes its own as soon as the answer begins, and when the
// answer was quicker than the end of the sending, that broke the connection in
// the middle of the answer.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.WithContext(r.Context())
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
		r.Body = io.NopCloser(bytes.NewReader(text))
	}
	resp, err := b.next.Do(r)
	if err == nil {
		resp.Body = &body{ReadCloser: resp.Body, left: maxReply}
	}
	return resp, err
}

// body is an answer that is an error once it is longer than what is left.
type body struct {
	io.ReadCloser
	left int
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, &replyError{fmt.Sprintf("longer than %d bytes", maxReply)}
	}
	return n, err
}

// wholeReplies refuses answers with a good status that are another document, a
// proxy's page say, or only the beginning of one. The client would take the
// former for an empty answer, and nothing listed for nothing there.
func wholeReplies(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("WholeReplies", wholeReply), middleware.After)
}

func wholeReply(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
	middleware.DeserializeOutput, middleware.Metadata, error,
) {
	out, metadata, err := next.HandleDeserialize(ctx, in)
	resp, ok := out.RawResponse.(*smithyhttp.Response)
	if err != nil || !ok || resp.StatusCode/100 != 2 {
		return out, metadata, err
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return out, metadata, fmt.Errorf("reading the answer: %w", err)
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(text), resp.Body}
	return out, metadata, checkReply(middleware.GetOperationName(ctx), text)
}

// checkReply says whether text is a whole answer to the operation.
func checkReply(operation string, text []byte) error {
	want := operation + "Response"
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		t, err := d.Token()
		if err != nil {
			return &replyError{fmt.Sprintf("no XML: %v: %.100q", err, text)}
		}
		root, ok := t.(xml.StartElement)
		if !ok {
			continue
		}
		switch {
		case root.Name.Local != want:
			return &replyError{fmt.Sprintf("a document %.40q in place of %s: %.100q", root.Name.Local, want, text)}
		case !bytes.HasSuffix(bytes.TrimSpace(text), []byte("</"+want+">")):
			return &replyError{fmt.Sprintf("%s ends in the middle, after %d bytes", want, len(text))}
		}
		return nil
	}
}

// pages asks for one page after the other until there is no more. The last one's
// token is empty or missing.
func pages(ask func(token *string) (next *string, err error)) error {
	seen := map[string]bool{}
	var token *string
	for range maxPages {
		next, err := ask(token)
		if err != nil || next == nil || *next == "" {
			return err
		}
		if seen[*next] {
			return &replyError{fmt.Sprintf("page token %.40q comes round again", *next)}
		}
		seen[*next] = true
		token = next
	}
	return &replyError{fmt.Sprintf("more than %d pages", maxPages)}
}
