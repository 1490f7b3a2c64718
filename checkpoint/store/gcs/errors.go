package gcs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"google.golang.org/api/googleapi"

	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// meaning is what an error of a request under ctx means to the contract.
func meaning(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), wire.ErrStalled) {
		return wire.ErrStalled
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if api, ok := errors.AsType[*googleapi.Error](err); ok {
		return refusal(api)
	}
	return wire.Broken(err)
}

// refusal is an answer that was not the one hoped for. Google's JSON has words
// where others have codes.
func refusal(api *googleapi.Error) error {
	e := wire.Answer(&http.Response{StatusCode: api.Code, Header: api.Header, Body: io.NopCloser(strings.NewReader(api.Body))})
	e.Kind, e.Remedy = nil, ""
	if e.Detail == "" {
		e.Detail = api.Message
	}
	said := func(words string) bool {
		return strings.Contains(api.Message, words) || strings.Contains(api.Body, words)
	}
	switch {
	case e.Status == http.StatusNotFound && said("bucket does not exist"):
		// An object that is missing proves a checkpoint bad; a missing bucket is a
		// mistake in the configuration and proves nothing.
		e.Code = "NoSuchBucket"
	case e.Status == http.StatusBadRequest && said("match calculated"):
		e.Code = "BadDigest" // a body that was damaged on its way
	case e.Status == http.StatusForbidden && (said("quotaExceeded") || said("storageQuotaExceeded")):
		e.Code = "QuotaExceeded"
	}
	return wire.Means(e)
}
