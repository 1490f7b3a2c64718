package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spotferry/spotferry/events"
)

// LoadBootstrap reads what the machine was born with: from file or, if that is
// empty, from the seller's metadata.
func LoadBootstrap(ctx context.Context, file string, md Metadata) (events.Bootstrap, error) {
	var data []byte
	var err error
	switch {
	case file != "":
		data, err = os.ReadFile(file)
	case md != nil:
		data, err = md.UserData(ctx)
	default:
		err = errors.New("neither a file nor a metadata service is given")
	}
	if err != nil {
		return events.Bootstrap{}, fmt.Errorf("reading the bootstrap: %w", err)
	}
	return ParseBootstrap(data)
}

// ParseBootstrap reads user data.
func ParseBootstrap(data []byte) (events.Bootstrap, error) {
	var b events.Bootstrap
	if err := json.Unmarshal(data, &b); err != nil {
		// The text itself may hold the token, so it is not in the error.
		return events.Bootstrap{}, fmt.Errorf("the bootstrap is not the JSON a machine is launched with: %w", err)
	}
	return b, checkBootstrap(b)
}

func checkBootstrap(b events.Bootstrap) error {
	if err := events.CheckToken("bootstrap: job", string(b.Job)); err != nil {
		return err
	}
	job, epoch, _, err := b.Lease.Parts()
	switch {
	case err != nil:
		return fmt.Errorf("bootstrap: %w", err)
	case b.Epoch < 1 || job != b.Job || epoch != b.Epoch:
		return fmt.Errorf("bootstrap: lease %q is not of job %q, epoch %d", b.Lease, b.Job, b.Epoch)
	}
	return checkTimers(b.Timers)
}

func checkTimers(t events.Timers) error {
	if t.Heartbeat <= 0 || t.Hold <= t.Heartbeat || t.Fence <= 0 || t.Silence < t.Hold || t.Boot <= 0 {
		return fmt.Errorf("timers: heartbeat %v, hold %v, silence %v, fence %v, boot %v: each must be positive, the first three rising",
			t.Heartbeat, t.Hold, t.Silence, t.Fence, t.Boot)
	}
	return nil
}
