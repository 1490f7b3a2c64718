package console

import "time"

// Rehearsed are figures of a job that was run for a while on purpose, before it is
// planned. They are control time: what a machine needs for it.
type Rehearsed struct {
	At    time.Time `json:"at"`
	Where string    `json:"where"` // the machine, in words
	// SaveMS is how long a save keeps the trainer waiting; StartMS what a machine
	// that is there takes for inputs, setup, restore and the first step. nil: not measured.
	SaveMS  *int64 `json:"save_ms,omitempty"`
	StartMS *int64 `json:"start_ms,omitempty"`
	// StateBytes is the size of a checkpoint.
	StateBytes *int64 `json:"state_bytes,omitempty"`
	// WorkS is what all the work takes on a GPU model, where it was rehearsed on just that.
	WorkS map[string]int64 `json:"work_s,omitempty"`
}

// Origin says where a figure comes from.
type Origin string

// The origins.
const (
	Measured      Origin = "measured"       // here, or by a rehearsal
	Given         Origin = "given"          // by the job file
	Assumed       Origin = "assumed"        // nobody has measured it
	PartlyAssumed Origin = "partly-assumed" // a sum, of which a part is assumed
)

// Figure is one of those that a plan is made from, with where it comes from.
// Times are market time.
type Figure struct {
	Name   string  `json:"name"` // "work", "save pause", "checkpoint", "restart", "acquire"
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"` // "s" or "bytes"
	Origin Origin  `json:"origin"`
	Detail string  `json:"detail,omitempty"`
	// Rehearsed: it, or a part of it, is from the job's own rehearsal.
	Rehearsed bool `json:"rehearsed,omitempty"`
}
