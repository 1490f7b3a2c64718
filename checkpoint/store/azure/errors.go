package azure

import (
	"context"
	"errors"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

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
	if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return refusal(answer)
	}
	return wire.Broken(err)
}

// refusal is an answer that was not the one hoped for.
func refusal(answer *azcore.ResponseError) error {
	resp := &http.Response{StatusCode: answer.StatusCode, Header: http.Header{}, Body: http.NoBody}
	if answer.RawResponse != nil {
		resp.Header = answer.RawResponse.Header
	}
	e := wire.Answer(resp)
	e.Code, e.Kind, e.Remedy = answer.ErrorCode, nil, ""
	switch bloberror.Code(e.Code) {
	case bloberror.MD5Mismatch:
		e.Code = "BadDigest" // a body that was damaged on its way
	case bloberror.ContainerBeingDeleted:
		e.Code = string(bloberror.ContainerNotFound)
	}
	return wire.Means(e)
}
