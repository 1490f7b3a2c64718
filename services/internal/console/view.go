package console

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// SchemaVersion is in every answer that -o json prints; it rises when a field
// changes its meaning or goes away.
const SchemaVersion = 1

// Job is a job as a list or a page shows it.
type Job struct {
	ID         events.JobID       `json:"id"`
	Name       string             `json:"name"`
	Status     string             `json:"status"` // outcome, waiting reason or phase
	Detail     string             `json:"detail,omitempty"`
	RetryAt    time.Time          `json:"retry_at,omitzero"` // control time at which a wait is looked at again
	Org        events.OrgID       `json:"org"`
	Team       string             `json:"team,omitempty"`
	Project    string             `json:"project,omitempty"`
	Labels     map[string]string  `json:"labels,omitempty"`
	By         string             `json:"by"`
	Over       bool               `json:"over"`
	Closed     bool               `json:"closed"` // over, no machine is left, and all of it is charged
	ExitCode   int                `json:"exit_code"`
	Epoch      int                `json:"epoch"`
	Epochs     int                `json:"epochs"` // placements so far
	Step       int64              `json:"step"`   // newest told by the trainer
	Committed  int64              `json:"committed_step"`
	Steps      int64              `json:"steps,omitempty"` // of all the work, when known
	Machine    *events.Side       `json:"machine,omitempty"`
	Failovers  int                `json:"failovers"`
	Reclaims   int                `json:"reclaims"` // machines that their seller took or warned that it would, and warnings taken back
	LostSteps  int64              `json:"lost_steps"`
	LostCost   events.MicroUSD    `json:"lost_cost"`
	Budget     events.MicroUSD    `json:"budget"`
	Spent      events.MicroUSD    `json:"spent"`
	Reserved   events.MicroUSD    `json:"reserved"`
	OnDemand   events.MicroUSD    `json:"on_demand_equivalent"`
	Submitted  time.Time          `json:"submitted"`
	Ended      time.Time          `json:"ended,omitzero"`
	Market     time.Time          `json:"market_submitted"`
	Deadline   time.Time          `json:"market_deadline,omitzero"`
	Checkpoint *events.Checkpoint `json:"checkpoint,omitempty"`
	OpenLeases []events.LeaseID   `json:"open_leases,omitempty"`
}

// Entry is one event as a timeline shows it.
type Entry struct {
	ID       events.EventID `json:"id"`
	Time     time.Time      `json:"time"`
	Subject  string         `json:"subject"` // job or lease id
	Type     string         `json:"type"`
	Summary  string         `json:"summary"`
	Cause    events.EventID `json:"causation,omitempty"`
	Position uint64         `json:"position"`
	Fact     events.Fact    `json:"fact"`
}

// Checkpoint is a committed checkpoint with where it stands.
type Checkpoint struct {
	events.Checkpoint
	Committed time.Time `json:"committed"`
	SaveMS    int64     `json:"save_ms"`
	UploadMS  int64     `json:"upload_ms"`
	Rejected  string    `json:"rejected,omitempty"` // why a restore refused it
	Newest    bool      `json:"newest"`

	Dropped *CheckpointDrop `json:"dropped,omitempty"` // it is gone
	Pins    []CheckpointPin `json:"pins,omitempty"`    // in force
}

// Bill is a job's statement.
type Bill struct {
	Job      events.JobID    `json:"job"`
	Name     string          `json:"name"`
	Limit    events.MicroUSD `json:"budget"`
	Lines    []BillLine      `json:"lines"`
	Compute  events.MicroUSD `json:"compute"`
	Credits  events.MicroUSD `json:"credits"`
	Total    events.MicroUSD `json:"total"`
	Reserved events.MicroUSD `json:"reserved"`
	OnDemand events.MicroUSD `json:"on_demand_equivalent"`
	Overrun  events.MicroUSD `json:"overrun"`
	LostWork events.MicroUSD `json:"lost_work"` // of Total, spent on steps done again
	Finality events.Finality `json:"finality"`
}

// BillLine is one lease of a statement.
type BillLine struct {
	Lease    events.LeaseID    `json:"lease"`
	Pool     events.Pool       `json:"pool"`
	State    string            `json:"state"` // "open", "settled"
	From     time.Time         `json:"market_from,omitzero"`
	To       time.Time         `json:"market_to,omitzero"`
	Use      events.MicroHours `json:"use"`
	Segments []events.Segment  `json:"segments,omitempty"`
	Amount   events.MicroUSD   `json:"amount"`
	Credit   events.MicroUSD   `json:"credit"`
	Finality events.Finality   `json:"finality"`
}

// Offer is an offer with its age.
type Offer struct {
	events.Offer
	AgeMS  int64   `json:"age_ms"`
	Hazard float64 `json:"reclaims_per_hour"`
}

// Instance is a machine, ours by the ledger or by its seller's list or by both.
type Instance struct {
	Lease    events.LeaseID         `json:"lease"`
	Instance events.InstanceID      `json:"instance,omitempty"`
	Pool     events.Pool            `json:"pool"`
	State    string                 `json:"state"`  // ours: intended, launched, terminating, ended, ...
	Seller   string                 `json:"seller"` // the seller's word: pending, running, stopping, gone, absent
	Price    events.PerInstanceHour `json:"price"`
	Since    time.Time              `json:"since,omitzero"`
	Orphan   bool                   `json:"orphan"`
	Metered  events.MicroUSD        `json:"metered"` // by the seller's own count
}

// Candidate is one row of a plan.
type Candidate struct {
	events.Candidate
	P90 events.MicroUSD `json:"total_p90"`
}

// Plan is what a job would be bought with, before any money moves.
type Plan struct {
	Possible    bool            `json:"possible"`
	Certain     bool            `json:"certain"`
	Probability float64         `json:"probability"` // of finishing in time and budget, by simulation
	Reason      string          `json:"reason,omitempty"`
	Cheapest    events.MicroUSD `json:"cheapest_possible"`
	Fastest     float64         `json:"fastest_possible_hours"`
	Decision    events.Decision `json:"decision"`
	Expected    events.MicroUSD `json:"expected_total"`
	P90         events.MicroUSD `json:"p90_total"`
	OnDemand    events.MicroUSD `json:"on_demand_total"`
	Budget      events.MicroUSD `json:"budget"`
	Market      time.Time       `json:"market_time"`
	Deadline    time.Time       `json:"market_deadline,omitzero"`
	Assumed     []string        `json:"assumed,omitempty"`
	Figures     []Figure        `json:"figures,omitempty"` // what it was made from besides prices and risk
}

// Check is one line of doctor.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// Clock tells which market time it is.
type Clock struct {
	Control time.Time `json:"control_time"`
	Market  time.Time `json:"market_time"`
	Version string    `json:"version"`
}
