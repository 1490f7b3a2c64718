package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/checkpoint"
)

// Error codes of the broker that jetstream has no names for.
const (
	codeResources = 10023
	codeMemory    = 10028
	codeStorage   = 10047
	codeStore     = 10077 // the stream's own limit, or its disk
)

// wrongLast: the subject's last message is another than was expected; the second
// is what a cluster says while another publish is on its way.
func wrongLast(code jetstream.ErrorCode) bool {
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == 10164
}

// meaning is what an error of the bus under ctx means to the contract. A bus
// that does not answer means nothing: it may pass.
func meaning(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode {
	case codeResources, codeMemory, codeStorage, codeStore:
		return fmt.Errorf("%w on the bus: give it and the bucket more, or keep fewer checkpoints: %w", checkpoint.ErrNoSpace, err)
	}
	return err
}
