package events

import "time"

// CommandKind says who has to do what. Commands are internal: they travel in
// the message of the event that made them owed, in a header of their own.
type CommandKind string

// The kinds and their executors.
const (
	// Acquire: the bidder buys a machine for Epoch. It is answered by lease
	// events of <job>-<epoch>-<n>, n from N on.
	Acquire CommandKind = "acquire"
	// Release: the bidder gives Lease back and sees it gone. Answered by lease.ended.
	Release CommandKind = "release"
	// Tell: the gateway tells the agent of Epoch the Order, a start only after it
	// has revoked the credentials of every epoch below. It is answered by what the agent then does.
	Tell CommandKind = "tell"
)

// Order is what an agent is told. It reads the same from a push and from a renewal.
type Order string

// The orders. An agent without one waits.
const (
	OrderStart Order = "start" // restore Resume and train
	OrderSave  Order = "save"  // save and commit as Final, go on training
	OrderStop  Order = "stop"  // save, commit as Final, stop the trainer, stay until the machine ends
	OrderEnd   Order = "end"   // stop now; nothing more can be committed
)

// Command is something owed. Its ID is derived, so that doing it twice is doing it once.
type Command struct {
	ID      string      `json:"id"`
	Kind    CommandKind `json:"kind"`
	Epoch   int         `json:"epoch,omitempty"`
	Lease   LeaseID     `json:"lease,omitempty"`
	N       int         `json:"n,omitempty"` // Acquire: the first lease number free to use
	Purpose Purpose     `json:"purpose,omitempty"`
	Avoid   []Pool      `json:"avoid,omitempty"`   // Acquire: pools that just failed this job
	NotTill time.Time   `json:"not_till,omitzero"` // Acquire: control time before which nothing is bought
	Order   Order       `json:"order,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Trace   string      `json:"trace,omitempty"` // Acquire: traceparent of the move that it serves
}

// Owed returns the commands of one kind that the newest event of a job leaves owed.
func Owed(newest Event, kind CommandKind) []Command {
	var out []Command
	for _, c := range newest.Commands {
		if c.Kind == kind {
			out = append(out, c)
		}
	}
	return out
}
