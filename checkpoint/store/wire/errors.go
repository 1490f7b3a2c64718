package wire

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
)

// Error is an answer that was not the one hoped for.
type Error struct {
	Status int
	Code   string        // the service's own word for it, if it had one
	Detail string        // the service's own sentence
	After  time.Duration // how long it asked to wait; 0: it did not
	Remedy string        // what a person changes
	Kind   error         // the contract's error; nil: trouble that may pass
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Kind != nil {
		fmt.Fprintf(&b, "%v: ", e.Kind)
	}
	fmt.Fprintf(&b, "%d %s", e.Status, http.StatusText(e.Status))
	if e.Code != "" {
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", strings.TrimSuffix(e.Detail, "."))
	}
	if e.Remedy != "" {
		fmt.Fprintf(&b, ": %s", e.Remedy)
	}
	return b.String()
}

// Unwrap returns the contract's error.
func (e *Error) Unwrap() error { return e.Kind }

// RetryAfter is how long the service asked to be left alone; 0: it did not.
func (e *Error) RetryAfter() time.Duration { return e.After }

// Answer reads what an answer that is not 2xx says. It takes at most a few
// kilobytes of the body and does not close it.
func Answer(resp *http.Response) *Error {
	var told struct {
		Code    string `xml:"Code"`
		Message string `xml:"Message"`
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, 8<<10))
	if err == nil {
		_ = xml.Unmarshal(head, &told) // what is not XML tells nothing
	}
	if told.Code == "" {
		told.Code = resp.Header.Get("X-Ms-Error-Code")
	}
	return Means(&Error{Status: resp.StatusCode, Code: told.Code, Detail: told.Message, After: RetryAfter(resp.Header)})
}

// Means fills in what an answer means to the contract. A status that is about
// the service and not about us or the object means nothing: it may pass.
func Means(e *Error) *Error {
	e.Code, e.Detail = clean(e.Code), clean(e.Detail)
	switch {
	case taken(e.Code):
		e.Kind = checkpoint.ErrExists
	case full(e):
		e.Kind, e.Remedy = checkpoint.ErrNoSpace, "enlarge the store, raise its quota or keep fewer checkpoints"
	case passes(e):
	case e.Status == http.StatusNotFound && !nowhere(e.Code):
		e.Kind = checkpoint.ErrNotFound
	case e.Status == http.StatusPreconditionFailed:
		e.Kind = checkpoint.ErrExists
	case e.Status == http.StatusRequestedRangeNotSatisfiable:
		e.Kind = checkpoint.ErrCorrupt
	default:
		e.Kind, e.Remedy = checkpoint.ErrRefused, remedy(e)
	}
	return e
}

// taken are Azure's words for a name that is taken: with a 409, which otherwise
// may pass, and with the 403 of a right to create that meets a blob.
func taken(code string) bool {
	return code == "BlobAlreadyExists" || code == "UnauthorizedBlobOverwrite"
}

func full(e *Error) bool {
	switch e.Code {
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "StorageQuotaExceeded":
		return true
	}
	return e.Status == http.StatusInsufficientStorage
}

// passes is trouble of the service, or of the way to it. A body that did not
// arrive as it was sent is the way's.
func passes(e *Error) bool {
	switch e.Code {
	case "RequestTimeout", "BadDigest", "XAmzContentChecksumMismatch", "IncompleteBody", "SlowDown", "OperationAborted", "ConditionalRequestConflict":
		return true
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusConflict, 499:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return e.Status >= 500
}

// nowhere are the codes of a place that is not there, as against an object.
func nowhere(code string) bool {
	return code == "NoSuchBucket" || code == "ContainerNotFound" || code == "InvalidBucketName"
}

// Expired reports whether an answer says, or may say, that what was asked with
// is over: a fresh grant may help.
func (e *Error) Expired() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden && !taken(e.Code) || e.Code == "ExpiredToken"
}

func remedy(e *Error) string {
	switch e.Code {
	case "SignatureDoesNotMatch":
		return "the secret key is wrong, or something between here and the service changes requests"
	case "InvalidAccessKeyId":
		return "the access key is not one of this service"
	case "RequestTimeTooSkewed":
		return "set this machine's clock"
	case "ExpiredToken", "ExpiredTokenException", "InvalidToken":
		return "the session's credentials are over: renew them"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return "the bucket is in another region: configure its own"
	}
	switch {
	case nowhere(e.Code):
		return "make the bucket, or correct its name, endpoint or region"
	case e.Status >= 300 && e.Status < 400:
		return "the bucket is elsewhere: configure its own endpoint and region"
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "the credentials need the rights to get, put, delete and list; without the last a missing object looks like this, too"
	}
	return "the service does not take this request: check the endpoint, and whether it is an object store"
}

// RetryAfter is what an answer's header asks to wait; 0: nothing.
func RetryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.Atoi(v); err == nil && s > 0 && s < 1<<20 {
		return time.Duration(s) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(h.Get("Date")) // the same clock's
	if err != nil {
		return 0
	}
	return max(at.Sub(from), 0)
}

// clean makes text from outside fit for a line of a log.
func clean(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// Broken is the error of a request that got no answer, or not all of it. It
// takes out the URL, which may be a signed one and then is a key; and it keeps a
// cut from looking like an end.
func Broken(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the connection ended: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Cut reports whether a request ended with its connection, after it had begun: a
// refusal that came while the body was still being sent may have been lost with
// it, and so may the answer to a request that had its effect.
func Cut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
