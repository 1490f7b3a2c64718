package events

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What an agent asks of the gateway, on agent.<job>.<epoch>.<verb>. Job and
// epoch come from the subject, which the credential guards, never from a body.

// Verb is the last token of a request's subject.
type Verb string

// The verbs.
const (
	VerbJoin   Verb = "join"
	VerbRenew  Verb = "renew"
	VerbNotice Verb = "notice"
	VerbCommit Verb = "commit"
	VerbGrant  Verb = "grant"
	VerbReject Verb = "reject" // a checkpoint that did not restore
	VerbDone   Verb = "done"
	VerbLog    Verb = "log"
	// VerbTrouble reports what is wrong with a machine or a trainer that lives.
	VerbTrouble Verb = "trouble"
)

// AgentSubject is where the agent of a job's epoch asks.
func AgentSubject(job JobID, epoch int, v Verb) string {
	return fmt.Sprintf("agent.%s.%d.%s", job, epoch, v)
}

// DownSubject is where an agent is told that there is something to read in its next renewal.
func DownSubject(job JobID, epoch int) string { return fmt.Sprintf("down.%s.%d", job, epoch) }

// ParseAgentSubject reads what AgentSubject writes.
func ParseAgentSubject(s string) (JobID, int, Verb, error) {
	f := strings.Split(s, ".")
	if len(f) == 4 && f[0] == "agent" {
		epoch, err := strconv.Atoi(f[2])
		if job, v := JobID(f[1]), Verb(f[3]); err == nil && epoch > 0 && AgentSubject(job, epoch, v) == s {
			return job, epoch, v, nil
		}
	}
	return "", 0, "", fmt.Errorf("subject %.100q is not agent.<job>.<epoch>.<verb>", s)
}

// Refusal is the answer to a request that is not granted. A nil *Refusal in a reply is consent.
type Refusal struct {
	Code    string `json:"code"` // "fenced", "stale", "invalid", "unavailable"
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Error makes a refusal an error.
func (r *Refusal) Error() string {
	if r.Remedy == "" {
		return r.Code + ": " + r.Message
	}
	return r.Code + ": " + r.Message + " (" + r.Remedy + ")"
}

// The refusal codes an agent acts on.
const (
	RefusedFenced      = "fenced"      // the epoch is over: tree dead within Timers.Fence
	RefusedStale       = "stale"       // older than what is committed; drop it
	RefusedInvalid     = "invalid"     // never repeat as it is
	RefusedUnavailable = "unavailable" // try again
)

// Bootstrap is a machine's user data: all it is born with.
type Bootstrap struct {
	Job   JobID   `json:"job"`
	Epoch int     `json:"epoch"`
	Lease LeaseID `json:"lease"`
	URL   string  `json:"url"` // of the bus
	// URLFile, when set, holds the bus's current URL and wins over URL: a local bus may move to another port.
	URLFile string `json:"url_file,omitempty"`
	Token   string `json:"token"` // credentials file text of the join-only user
	Timers  Timers `json:"timers"`
	// NoticeKind is by which channel the machine is told that it will be taken; "":
	// NoticeEC2. NoticeS is how long before, in seconds; 0: as long as is usual there.
	NoticeKind NoticeKind `json:"notice_kind,omitempty"`
	NoticeS    int64      `json:"notice_s,omitempty"`
}

// JoinRequest swaps the bootstrap token for credentials of one job and epoch.
type JoinRequest struct {
	Lease LeaseID `json:"lease"`
	Key   string  `json:"key"` // public nkey; the private half never leaves the machine
	Host  Host    `json:"host"`
	// SealTo is the agent's public curve key, to which the job's secrets are
	// sealed; Proof is its signature by Key. Without them a job with secrets is not joined.
	SealTo string `json:"seal_to,omitempty"`
	Proof  []byte `json:"proof,omitempty"`
}

// JoinReply is the same for every repetition with the same key, but for the
// sealing of Secrets and for Resume, which is of the moment.
type JoinReply struct {
	Refusal *Refusal   `json:"refusal,omitempty"`
	JWT     string     `json:"jwt,omitempty"`
	Org     OrgID      `json:"org,omitempty"`
	Spec    JobSpec    `json:"spec,omitzero"`
	Store   StoreGrant `json:"store,omitzero"`
	Timers  Timers     `json:"timers,omitzero"`
	Secrets *Sealed    `json:"secrets,omitempty"` // PackSecrets of the job, for this agent only
	// Resume is what would be restored if the order to start came now, best
	// first: it can be fetched while the job's last machine still saves.
	Resume []Checkpoint `json:"resume,omitempty"`
}

// StoreGrant says where checkpoints go. Tenant and job fix the prefix.
type StoreGrant struct {
	Kind   string `json:"kind"` // "dir", or "signed": plain HTTP by what the grant verb gives
	Path   string `json:"path,omitempty"`
	Tenant string `json:"tenant"`
	// Key is the tenant's key for its checkpoints, sealed to the agent as its
	// secrets are; nil: they are not encrypted.
	Key *Sealed `json:"key,omitempty"`
	// Cache is a directory shared by the machines of a region for inputs; "": none.
	Cache string `json:"cache,omitempty"`
}

// GrantRequest asks for access to objects by name, at most MaxGrants of them.
type GrantRequest struct {
	Lease LeaseID       `json:"lease"`
	Verb  string        `json:"verb"` // "put", "get", "head"
	Names []GrantObject `json:"names"`
}

// GrantObject is one object that access is asked to.
type GrantObject struct {
	Name string `json:"name"`
	Size int64  `json:"size,omitempty"` // of a put
}

// MaxGrants is how many objects one GrantRequest may name.
const MaxGrants = 64

// GrantReply has an access for each name, in their order.
type GrantReply struct {
	Refusal *Refusal     `json:"refusal,omitempty"`
	Access  []SignedHTTP `json:"access,omitempty"`
}

// SignedHTTP is a plain HTTP request that does one thing with one object until a time.
type SignedHTTP struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Header map[string]string `json:"header,omitempty"`
	Life   time.Duration     `json:"life"` // from the answer
}

// Heartbeat is what a renewal carries and what the signal stream keeps.
type Heartbeat struct {
	Lease  LeaseID  `json:"lease"`
	State  string   `json:"state"`     // "ready", "setup", "restoring", "starting", "training", "stopping", "exited"
	Step   int64    `json:"step"`      // newest the trainer told; -1 none yet in this epoch
	From   int64    `json:"from_step"` // the step restored in this epoch, 0 for a fresh start
	Loss   *float64 `json:"loss,omitempty"`
	Saved  int64    `json:"saved_step"`   // newest complete on disk, -1 none
	Unsent int64    `json:"unsent_bytes"` // at most so many of complete checkpoints are not in the store
	// FlushMS is how long they would take with all of the link, as after a notice; 0: nothing waits.
	FlushMS int64      `json:"flush_ms,omitempty"`
	Clock   AgentClock `json:"agent_clock"`
	// Trouble says why saves stand still, such as a full disk; "": they do not.
	Trouble string `json:"trouble,omitempty"`
	// TrainingMS is how long it has been in training by the agent's own clock; 0: it is not.
	TrainingMS int64 `json:"training_ms,omitempty"`
	// GPUs is the newest sample of each GPU; empty: none, or its driver does not answer.
	GPUs []GPUSample `json:"gpus,omitempty"`
	// Notices says that the seller's channel for notices is not to be relied on:
	// NoticesUnseen or NoticesLost. "": it works, or the seller gives none.
	Notices string    `json:"notices,omitempty"`
	At      time.Time `json:"at"` // the gateway's clock, set by it
}

// What is wrong with a machine's channel for notices. The job goes on, and may be
// taken without a warning.
const (
	NoticesUnseen = "unseen" // it has never answered
	NoticesLost   = "lost"   // it did, and does not any more
)

// GPUSample is one GPU as its driver shows it.
type GPUSample struct {
	Index      int     `json:"index"`
	Name       string  `json:"name"`
	Util       float64 `json:"util_ratio"` // 0 to 1
	MemUsedMiB int64   `json:"mem_used_mib"`
	MemMiB     int64   `json:"mem_mib"`
	TempC      float64 `json:"temp_celsius"`
	PowerW     float64 `json:"power_watts"`
}

// TroubleRequest reports a trouble. It is repeated until it is answered.
type TroubleRequest struct {
	Lease  LeaseID  `json:"lease"`
	Kind   Trouble  `json:"kind"`
	Step   int64    `json:"step"`
	Detail string   `json:"detail"`
	Remedy string   `json:"remedy,omitempty"`
	Lines  []string `json:"lines,omitempty"` // of the log, that tell it
}

// RenewReply extends the hold and carries what the agent owes, in full, every time.
type RenewReply struct {
	Refusal *Refusal      `json:"refusal,omitempty"`
	Order   Order         `json:"order,omitempty"`
	OrderID string        `json:"order_id,omitempty"` // the command's; a new one is a new order
	Resume  []Checkpoint  `json:"resume,omitempty"`   // with OrderStart: what to restore, best first; empty: from zero
	PaidFor time.Duration `json:"paid_for"`           // control time from the answer until the machine must be gone; 0: not limited
	// ReclaimEvery is the mean time, control time, until a machine of this pool is
	// taken back; 0: unknown, or never.
	ReclaimEvery time.Duration `json:"reclaim_every,omitempty"`
	// Epoch and JWT are set when the agent's own epoch is over but its machine
	// goes on under a new one: the trainer died and is started again in place.
	// The agent takes both and asks on the new epoch's subjects from then on.
	Epoch int    `json:"epoch,omitempty"`
	JWT   string `json:"jwt,omitempty"`
}

// NoticeRequest reports a seller's warning, or that it was withdrawn.
type NoticeRequest struct {
	Lease     LeaseID       `json:"lease"`
	Withdrawn bool          `json:"withdrawn,omitempty"`
	Action    string        `json:"action,omitempty"`
	Source    string        `json:"source,omitempty"`
	Left      time.Duration `json:"left"` // until the deadline, by the agent's monotonic clock at sending
	Ago       time.Duration `json:"ago"`  // since first sight
	SignalMS  int64         `json:"signal_ms"`
}

// CommitRequest asks that a checkpoint become true.
type CommitRequest struct {
	Lease      LeaseID    `json:"lease"`
	Checkpoint Checkpoint `json:"checkpoint"`
	SaveMS     int64      `json:"save_ms"`
	UploadMS   int64      `json:"upload_ms"`
	Final      bool       `json:"final,omitempty"`
	OrderID    string     `json:"order_id,omitempty"` // the order it answers
}

// RejectRequest reports a checkpoint that did not restore.
type RejectRequest struct {
	Lease      LeaseID    `json:"lease"`
	Checkpoint Checkpoint `json:"checkpoint"`
	Path       string     `json:"path"`
	Detail     string     `json:"detail"`
}

// DoneRequest reports that the trainer's process ended, or that nothing could be restored.
type DoneRequest struct {
	Lease    LeaseID `json:"lease"`
	Code     int     `json:"code"`
	Signal   string  `json:"signal,omitempty"`
	LastStep int64   `json:"last_step"`
	Reason   string  `json:"reason"`
	OrderID  string  `json:"order_id,omitempty"` // the order it answers, when it was told to stop
	// Unrestorable: a checkpoint was committed but none can be restored. The job stops.
	Unrestorable bool `json:"unrestorable,omitempty"`
	// OutOfMemory: the kernel killed it, because the machine had no memory left.
	OutOfMemory bool `json:"out_of_memory,omitempty"`
}

// LogBatch is a run of output lines of one epoch. First counts lines from 1
// within the epoch, so that a repeat shows and a gap is marked.
type LogBatch struct {
	Epoch int       `json:"epoch"`
	First int64     `json:"first"`
	Lines []LogLine `json:"lines"`
	Lost  int64     `json:"lost,omitempty"` // lines dropped before First because nobody took them in time
}

// LogLine is one line of a trainer's output, attacker text.
type LogLine struct {
	At     time.Time `json:"at"`
	Stream string    `json:"stream"` // "stdout", "stderr", "agent"
	Text   string    `json:"text"`
}

// Reply is the answer to every request that has nothing to say but consent.
type Reply struct {
	Refusal *Refusal `json:"refusal,omitempty"`
}
