package simtest

import (
	"time"

	"go.uber.org/zap"
)

// options are what a run is made of besides its seed.
type options struct {
	hours    float64
	jobs     int
	replicas int // of the control plane; 0: one
	trouble  trouble
	log      *zap.Logger
	trace    bool         // print what happens, as it happens
	plant    func(*world) // puts something wrong into the world; nil: nothing
}

// trouble says how much of what; the zero value is a quiet world. Probabilities
// are of one call, durations are mean times between.
type trouble struct {
	seller     float64       // a call goes wrong
	request    float64       // an agent's request goes wrong
	append     float64       // an append goes wrong on its way
	ack        float64       // an acknowledgement is lost: the event comes twice
	noBoot     float64       // a machine never boots
	object     float64       // an operation of the checkpoint store goes wrong
	reclaim    time.Duration // of one machine
	partition  time.Duration // of one machine
	trainer    time.Duration // a trainer's death on one machine
	storm      time.Duration
	crash      time.Duration // of the control plane
	bus        time.Duration // the bus restarts
	closed     time.Duration // the seller answers nothing
	lies       time.Duration // the seller's feed is absurd about a pool
	rot        time.Duration // an object of the checkpoint store is damaged
	steps      time.Duration // a machine's wall clock is set
	lost       float64       // a launch's answer does not come
	twice      float64       // a launch makes two machines
	partial    float64       // a list has a page missing
	deaf       float64       // an end is accepted and nothing happens
	ruin       time.Duration // every checkpoint of a job is damaged and its machine taken; once a job
	everywhere bool          // the control plane dies once at every place there is, as it gets there
	cancels    bool
	tight      bool   // every job's owner has set too little aside
	short      bool   // partitions end before a hold lapses
	only       string // the control plane dies at places whose names contain this; "": all in turn
}

const never = 10_000 * time.Hour

// rough is the world of TestSeeds.
var rough = trouble{
	seller: 0.08, request: 0.01, append: 0.01, ack: 0.01, noBoot: 0.04, object: 0.01,
	reclaim: 35 * time.Minute, partition: 35 * time.Minute, trainer: 2 * time.Hour, storm: 90 * time.Minute,
	crash: 12 * time.Minute, bus: 70 * time.Minute, closed: 100 * time.Minute, ruin: never, lies: 40 * time.Minute, rot: 50 * time.Minute, steps: 20 * time.Minute, cancels: true,
}

// quiet is a world in which nothing goes wrong.
var quiet = trouble{reclaim: never, partition: never, trainer: never, storm: never, crash: never, bus: never, closed: never, lies: never, rot: never, steps: never, ruin: never}
