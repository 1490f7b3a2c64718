package events

import "time"

// Checkpoint is a committed checkpoint as the job's record knows it.
type Checkpoint struct {
	Name    string `json:"name"` // manifest's object name below the job's prefix
	Epoch   int    `json:"epoch"`
	Step    int64  `json:"step"`
	Digest  string `json:"digest"` // BLAKE3-256 of the manifest, hex
	Bytes   int64  `json:"bytes"`  // of all files
	Files   int    `json:"files"`
	Weights string `json:"weights,omitempty"` // SHA-256 over the weights' data, hex, where the framework has such a file
}

// Outcome is how a job ended. Empty while it has not.
type Outcome string

// The five outcomes. They are final.
const (
	Succeeded      Outcome = "succeeded"
	Failed         Outcome = "failed"
	Cancelled      Outcome = "cancelled"
	OutOfBudget    Outcome = "out-of-budget"
	MissedDeadline Outcome = "missed-deadline"
)

// Cause is why a job left a machine.
type Cause string

// The causes a failover record can have.
const (
	CauseNotice    Cause = "notice"            // the seller warned and took the machine
	CauseReclaim   Cause = "confirmed-reclaim" // the seller says it is gone; there was no warning
	CauseOutbid    Cause = "outbid"
	CauseHostFault Cause = "host-fault"
	CauseSilent    Cause = "agent-silent" // heartbeats stopped
	CauseTrainer   Cause = "trainer"      // the trainer died on a live machine
	CauseOperator  Cause = "operator"
	CauseGPUFault  Cause = "gpu-fault"
	CauseStalled   Cause = "stalled"        // no step and no checkpoint within policy.progress_timeout
	CauseReturn    Cause = "return-to-spot" // voluntary: spot pays again
	CauseCheaper   Cause = "cheaper-pool"   // voluntary: another pool pays the move back
	CauseUnknown   Cause = "unknown"
)

// JobSubmitted opens a job. Submitting the same id again changes nothing.
type JobSubmitted struct {
	Spec   JobSpec   `json:"spec"`
	By     string    `json:"by"` // who, from the credential
	Market time.Time `json:"market_time"`
}

// JobWaiting says that the job holds still, and why.
type JobWaiting struct {
	Reason   string    `json:"reason"` // "waiting-for-capacity", "waiting-for-price", "waiting-after-loss", "paused-by-budget"
	Detail   string    `json:"detail"`
	RetryAt  time.Time `json:"retry_at"` // control time
	Decision EventID   `json:"decision"` // the lease.declined event with every candidate; "": waiting-after-loss
}

// JobLeased says that a machine has been bought for an epoch and is booting.
type JobLeased struct {
	Epoch    int             `json:"epoch"`
	Lease    LeaseID         `json:"lease"`
	Pool     Pool            `json:"pool"`
	Instance InstanceID      `json:"instance"`
	Price    PerInstanceHour `json:"price"`
	Purpose  Purpose         `json:"purpose"`
	Decision EventID         `json:"decision"`          // the lease.intended event
	Decided  time.Time       `json:"decided"`           // control time of the intent
	Bought   time.Time       `json:"bought"`            // control time of the seller's answer
	BootBy   time.Time       `json:"boot_by"`           // control time
	Surplus  bool            `json:"surplus,omitempty"` // nobody wants it any more: it goes straight back
}

// JobJoined says that the agent of a lease is ready; the epoch is not raised yet.
type JobJoined struct {
	Epoch int     `json:"epoch"`
	Lease LeaseID `json:"lease"`
	Key   string  `json:"key"` // public half of the agent's own nkey
	Host  Host    `json:"host"`
}

// Host is what an agent found on its machine.
type Host struct {
	Instance InstanceID `json:"instance"`
	OS       string     `json:"os"`
	Arch     string     `json:"arch"`
	CPUs     int        `json:"cpus"`
	BootMS   int64      `json:"boot_ms"` // from the agent's start to its join
}

// JobPlaced raises the epoch: from here on only the agent of Lease may commit.
// Epochs rise but need not be consecutive: every agent that ever joined has one
// of its own. The same lease under a new epoch is a restart in place.
// Resume is adopted in the same append; nil starts from zero, which happens
// only while no checkpoint was ever committed.
type JobPlaced struct {
	Epoch  int         `json:"epoch"`
	Lease  LeaseID     `json:"lease"`
	Pool   Pool        `json:"pool"`
	Resume *Checkpoint `json:"resume,omitempty"`
}

// JobStarted says that the trainer made its first step of an epoch.
type JobStarted struct {
	Epoch int     `json:"epoch"`
	Lease LeaseID `json:"lease"`
	From  int64   `json:"from_step"` // the step restored, 0 for a fresh start
	Step  int64   `json:"step"`      // the first step made or seen
	// Before is the newest step that any heartbeat told of the epoch before: what
	// lies between it and From is done again.
	Before int64      `json:"before_step"`
	Clock  AgentClock `json:"agent_clock"`
}

// AgentClock holds an agent's own monotonic measurements of a start, in milliseconds.
type AgentClock struct {
	BootMS      int64 `json:"boot_ms"`
	ImageMS     int64 `json:"image_ms,omitempty"`  // of SetupMS, fetching a container image
	InputsMS    int64 `json:"inputs_ms,omitempty"` // of SetupMS, unpacking the working directory and other inputs
	SetupMS     int64 `json:"setup_ms"`
	RestoreMS   int64 `json:"restore_ms"`
	FirstStepMS int64 `json:"first_step_ms"`
	// AheadMS was spent on inputs before the order to start came; none of the
	// others has it.
	AheadMS int64 `json:"ahead_ms,omitempty"`
}

// JobNoticed records a seller's warning. It can be withdrawn.
type JobNoticed struct {
	Epoch    int       `json:"epoch"`
	Lease    LeaseID   `json:"lease"`
	Action   string    `json:"action"`    // "terminate", "stop", "hibernate"
	Source   string    `json:"source"`    // "imds"
	Seen     time.Time `json:"seen"`      // control time, when the agent first read it
	Deadline time.Time `json:"deadline"`  // control time
	SignalMS int64     `json:"signal_ms"` // from the first answer carrying it to the signal at the trainer; -1: no signal sent
}

// JobNoticeWithdrawn says that the seller took its warning back.
type JobNoticeWithdrawn struct {
	Epoch int     `json:"epoch"`
	Lease LeaseID `json:"lease"`
}

// JobCommitted makes a checkpoint true. The fold voids it when Epoch is not the current one.
type JobCommitted struct {
	Epoch      int        `json:"epoch"`
	Lease      LeaseID    `json:"lease"`
	Checkpoint Checkpoint `json:"checkpoint"`
	SaveMS     int64      `json:"save_ms"`         // the trainer's own writing
	UploadMS   int64      `json:"upload_ms"`       // from complete on disk to all objects in the store
	Final      bool       `json:"final,omitempty"` // the last save before a known deadline or stop
}

// JobCheckpointRejected says that a restore met a bad checkpoint and fell back.
type JobCheckpointRejected struct {
	Epoch      int        `json:"epoch"`
	Lease      LeaseID    `json:"lease"`
	Checkpoint Checkpoint `json:"checkpoint"`
	Path       string     `json:"path"` // the file or object that is bad
	Detail     string     `json:"detail"`
}

// JobCheckpointPinned has a checkpoint kept whatever the policy says, or ends
// that. Pins of different holders stand beside each other.
type JobCheckpointPinned struct {
	Name   string    `json:"name"` // of the checkpoint
	Pinned bool      `json:"pinned"`
	Holder string    `json:"holder,omitempty"` // "": people's own pin, until it is taken off; else one restore
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	Until  time.Time `json:"until,omitzero"` // control time at which it ends by itself; zero: never
}

// JobCheckpointsDropped says that checkpoints are gone for good. Nothing is
// restored from them any more; their objects are deleted a while later.
type JobCheckpointsDropped struct {
	Names  []string `json:"names"`
	Reason string   `json:"reason"`
	By     string   `json:"by,omitempty"` // the person; "": the job's policy
}

// JobLost says that the current machine is gone or given up.
type JobLost struct {
	Epoch    int       `json:"epoch"`
	Lease    LeaseID   `json:"lease"`
	Cause    Cause     `json:"cause"`
	Evidence []EventID `json:"evidence,omitempty"`
	Detail   string    `json:"detail"`
	LastStep int64     `json:"last_step"` // the newest step any heartbeat told
	LastSeen time.Time `json:"last_seen"` // control time of that heartbeat
}

// JobHeard says that the agent of a machine given up as silent is back before
// its replacement was placed.
type JobHeard struct {
	Epoch int     `json:"epoch"`
	Lease LeaseID `json:"lease"`
}

// JobExited says how the trainer's process ended on a machine that lives.
type JobExited struct {
	Epoch    int     `json:"epoch"`
	Lease    LeaseID `json:"lease"`
	Code     int     `json:"code"`   // -1 when killed by a signal
	Signal   string  `json:"signal"` // "SIGKILL"; "" when it exited by itself
	LastStep int64   `json:"last_step"`
	Reason   string  `json:"reason"` // the agent's words
	// OutOfMemory: the kernel killed it, because the machine had no memory left.
	OutOfMemory bool `json:"out_of_memory,omitempty"`
}

// JobMoveRequested asks for a move: to a machine that the bidder already bought
// for the next epoch, or, by a person, to one still to be bought.
type JobMoveRequested struct {
	Epoch  int    `json:"epoch"` // the epoch to leave
	Cause  Cause  `json:"cause"`
	By     string `json:"by"` // "bidder", or the person who asked before any machine was bought
	Reason string `json:"reason"`
}

// JobStopping starts an orderly save and stop that will end in Outcome.
type JobStopping struct {
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"`
}

// PauseReason is why a job holds no machine although nobody ended it.
type PauseReason string

// The reasons. All but the first two are troubles: what would burn money if it went on.
const (
	PausedByPerson      PauseReason = "paused"
	PausedByBudget      PauseReason = "paused-by-budget"
	PauseRestoreIgnored PauseReason = "restore-ignored" // the first step after restoring step N was below N
	PauseStalled        PauseReason = "stalled"         // no step and no checkpoint within policy.progress_timeout
	PauseGPUFault       PauseReason = "gpu-fault"       // twice without a commit between
	PauseHostFault      PauseReason = "host-fault"      // twice without a commit between, or three machines in a row before their first step
)

// Trouble is what an agent finds wrong with a machine or a trainer that lives.
type Trouble string

// The troubles an agent reports.
const (
	TroubleRestoreIgnored Trouble = "restore-ignored"
	TroubleStalled        Trouble = "stalled"
	TroubleGPUFault       Trouble = "gpu-fault"
	TroubleHostFault      Trouble = "host-fault"
)

// JobTroubled records what an agent found wrong. Restore-ignored and stalled
// pause the job; the first fault of a machine moves it, a second without a commit between pauses it.
type JobTroubled struct {
	Epoch    int      `json:"epoch"`
	Lease    LeaseID  `json:"lease"`
	Kind     Trouble  `json:"kind"`
	Step     int64    `json:"step"` // the newest told; -1: none
	Detail   string   `json:"detail"`
	Remedy   string   `json:"remedy,omitempty"`   // what a person can do, such as how this framework resumes
	Evidence []string `json:"evidence,omitempty"` // the log lines that tell it, attacker text
}

// JobPausing starts an orderly save and stop after which the job is paused.
type JobPausing struct {
	Reason PauseReason `json:"reason"`
	Detail string      `json:"detail,omitempty"`
	By     string      `json:"by,omitempty"` // the person
}

// JobPaused says that the job holds no machine until it is resumed. Nothing is bought for it meanwhile.
type JobPaused struct {
	Reason     PauseReason `json:"reason"`
	Detail     string      `json:"detail,omitempty"`
	Remedy     string      `json:"remedy,omitempty"`
	By         string      `json:"by,omitempty"`         // the person; "": the job itself
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"` // the newest committed
}

// JobResumed takes a paused job up again from its newest checkpoint.
type JobResumed struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// JobDrilled begins a failover on demand: a rehearsal with real machines and real money.
type JobDrilled struct {
	Epoch    int       `json:"epoch"`
	Lease    LeaseID   `json:"lease"`
	NoNotice bool      `json:"no_notice,omitempty"` // the machine is taken without a word to its agent
	Deadline time.Time `json:"deadline,omitzero"`   // control time at which it is taken anyway; zero with NoNotice
	By       string    `json:"by"`
	Reason   string    `json:"reason,omitempty"`
}

// JobLastWords keeps what is known of a machine that the job has left: it is
// appended once per epoch and kept with the job, when logs and heartbeats are long gone.
type JobLastWords struct {
	Epoch     int        `json:"epoch"`
	Lease     LeaseID    `json:"lease"`
	Lines     []LogLine  `json:"lines,omitempty"`     // the last 200, at most 64 KiB of text
	Heartbeat *Heartbeat `json:"heartbeat,omitempty"` // the last, with its GPU sample; nil: none was heard
}

// JobFailoverRefined adds what was learned about a failover after its record was
// written. The record stays as it is; the newest refinement says the cause.
type JobFailoverRefined struct {
	N        int       `json:"n"`
	Cause    Cause     `json:"cause"`
	Detail   string    `json:"detail"`
	Evidence []EventID `json:"evidence"`
}

// JobEnded is final. Machines may still be ours; see JobClosed.
type JobEnded struct {
	Outcome    Outcome     `json:"outcome"`
	Reason     string      `json:"reason"`
	ExitCode   int         `json:"exit_code"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"` // the newest committed
}

// JobReleased says that a lease of the job is confirmed gone.
type JobReleased struct {
	Lease   LeaseID `json:"lease"`
	EndedBy string  `json:"ended_by,omitempty"`    // as lease.ended has it
	Ended   EventID `json:"lease_event,omitempty"` // the lease.ended event
}

// JobClosed says that the job has ended and no machine of it is left.
type JobClosed struct {
	Leases    int `json:"leases"`
	Failovers int `json:"failovers"`
}

// JobFailedOver is the record of one move, kept for ever.
type JobFailedOver struct {
	Record Failover `json:"record"`
}

// Failover says what was seen, what was chosen, how long each phase took and what was lost.
type Failover struct {
	N         int         `json:"n"` // from 1 within the job
	Cause     Cause       `json:"cause"`
	Detail    string      `json:"detail"`
	Evidence  []EventID   `json:"evidence"`
	From      Side        `json:"from"`
	To        Side        `json:"to"`
	Noticed   bool        `json:"noticed"`
	NoticeMS  int64       `json:"notice_ms"` // given by the seller, from first sight to deadline
	UsedMS    int64       `json:"used_ms"`   // of it, until the last commit of the old epoch
	Began     time.Time   `json:"began"`     // control time of the first sign
	Ended     time.Time   `json:"ended"`     // control time of the first step on the new machine
	Phases    []Phase     `json:"phases"`    // with their clock
	Resumed   *Checkpoint `json:"resumed,omitempty"`
	LastStep  int64       `json:"last_step"`  // reached on the old machine
	LostSteps int64       `json:"lost_steps"` // done there and done again
	LostMS    int64       `json:"lost_ms"`    // control time from the resumed checkpoint's commit to the loss
	LostCost  MicroUSD    `json:"lost_cost"`  // that time at the old machine's price, market time
	Decision  EventID     `json:"decision"`   // the lease.intended event of the new machine
	Drill     bool        `json:"drill,omitempty"`
}

// Side is one end of a move.
type Side struct {
	Epoch int             `json:"epoch"`
	Lease LeaseID         `json:"lease"`
	Pool  Pool            `json:"pool"`
	Price PerInstanceHour `json:"price"`
}

// Phase is a named part of a move. Phases may overlap: a machine is bought while the old one saves.
type Phase struct {
	Name  string    `json:"name"`  // detect save upload wait decide acquire boot place image setup inputs restore first-step
	Began time.Time `json:"began"` // control time; the control plane's clock unless Clock says "agent"
	MS    int64     `json:"ms"`
	Clock string    `json:"clock"` // "control" or "agent"
}
