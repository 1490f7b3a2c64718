package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Verb names a request.
type Verb string

// The verbs. The first group reads.
const (
	GetClock     Verb = "clock"
	GetJobs      Verb = "jobs"
	GetJob       Verb = "job"
	GetEvents    Verb = "events"
	GetFailovers Verb = "failovers"
	// About failovers, with a FailoverQuery each.
	GetFailoverList   Verb = "failover-list"
	GetFailover       Verb = "failover"
	GetFailoverStats  Verb = "failover-stats"
	GetFailoverEvents Verb = "failover-events"
	GetDecision       Verb = "decision"
	GetCheckpoints    Verb = "checkpoints"
	// About checkpoints in the store, with a CheckpointQuery each.
	GetCheckpoint       Verb = "checkpoint"        // one's contents
	GetCheckpointUse    Verb = "checkpoint-use"    // of the store
	GetCheckpointAccess Verb = "checkpoint-access" // to read them
	GetCollectable      Verb = "checkpoint-gc-plan"
	GetBill             Verb = "bill"
	GetOffers           Verb = "offers"
	GetInstances        Verb = "instances"
	GetLogs             Verb = "logs"
	GetPlan             Verb = "plan"
	GetHealth           Verb = "health"
	GetOps              Verb = "ops"
	GetSellers          Verb = "sellers"
	GetPools            Verb = "pools"
	GetBudget           Verb = "budget"
	GetReapable         Verb = "reapable"
	GetDrill            Verb = "drill-cost"
	GetSecretsKey       Verb = "secrets-key"

	DoSubmit   Verb = "submit"
	DoCancel   Verb = "cancel"
	DoPause    Verb = "pause"
	DoResume   Verb = "resume"
	DoMigrate  Verb = "migrate"
	DoDrill    Verb = "drill"
	DoHold     Verb = "hold"
	DoRelease  Verb = "release"
	DoFreeze   Verb = "freeze"
	DoUnfreeze Verb = "unfreeze"
	DoPin      Verb = "checkpoint-pin"
	DoUnpin    Verb = "checkpoint-unpin"
	DoDrop     Verb = "checkpoint-rm"
	DoCollect  Verb = "checkpoint-gc"
	DoBudget   Verb = "budget-set"
	DoReap     Verb = "reap"
)

const apiRoot = "sf.api."

// Subject is where somebody in a role asks v. The bus lets nobody publish there
// but whom it belongs to.
func Subject(role Role, user string, v Verb) string {
	return apiRoot + string(role) + "." + user + "." + string(v)
}

// asker is who asks, by the subject of the request.
type asker struct {
	role Role
	name string
}

func parseSubject(s string) (who asker, v Verb, err error) {
	f := strings.Split(strings.TrimPrefix(s, apiRoot), ".")
	if len(f) != 3 || !strings.HasPrefix(s, apiRoot) {
		return asker{}, "", fmt.Errorf("subject %.100q is not sf.api.<role>.<user>.<verb>", s)
	}
	return asker{Role(f[0]), f[1]}, Verb(f[2]), nil
}

// Query is the body of every reading request; each verb uses the fields it needs.
type Query struct {
	Job    string    `json:"job,omitempty"` // id, unique prefix of one, or name of exactly one job
	After  uint64    `json:"after,omitempty"`
	Limit  int       `json:"limit,omitempty"`
	Epoch  int       `json:"epoch,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Tail   int       `json:"tail,omitempty"`
	GPU    string    `json:"gpu,omitempty"`
	Region string    `json:"region,omitempty"`
	Cause  string    `json:"cause,omitempty"`
	N      int       `json:"n,omitempty"`     // of a failover
	Types  []string  `json:"types,omitempty"` // of events: any that equals or begins with one of them and a dot
}

// SubmitRequest opens a job, or asks what one would cost.
type SubmitRequest struct {
	ID          events.JobID       `json:"id"`
	Attribution events.Attribution `json:"attribution"`
	Spec        events.JobSpec     `json:"spec"`
	// Secrets are the values of Spec.Secrets, packed and sealed to GetSecretsKey's key.
	Secrets *events.Sealed `json:"secrets,omitempty"`
	// Rehearsed takes the place of what a plan would assume; nothing else looks at it.
	Rehearsed *Rehearsed `json:"rehearsed,omitempty"`
}

// CancelRequest ends a job.
type CancelRequest struct {
	Job    string `json:"job"`
	Reason string `json:"reason"`
}

// JobRequest pauses, resumes or migrates a job.
type JobRequest struct {
	Job    string `json:"job"`
	Reason string `json:"reason"`
}

// DrillRequest begins a failover on demand, or asks what it would cost.
type DrillRequest struct {
	Job       string `json:"job"`
	NoNotice  bool   `json:"no_notice,omitempty"`
	DeadlineS int64  `json:"deadline_s,omitempty"` // of the notice; not with NoNotice
	Reason    string `json:"reason,omitempty"`
}

// HoldRequest holds or releases a seller, or pools.
type HoldRequest struct {
	Seller string        `json:"seller,omitempty"` // the whole of it; without Pools
	Pools  []events.Pool `json:"pools,omitempty"`
	Reason string        `json:"reason"`
}

// FreezeRequest freezes or unfreezes.
type FreezeRequest struct {
	Reason string `json:"reason"`
}

// BudgetRequest gives a job another limit.
type BudgetRequest struct {
	Job    string          `json:"job"`
	Limit  events.MicroUSD `json:"limit"`
	Reason string          `json:"reason"`
}

// ReapRequest asks for the end of machines that nobody wants.
type ReapRequest struct {
	Instances []events.InstanceID `json:"instances"`
	Reason    string              `json:"reason"`
}

// Page is a run of events and where to go on.
type Page struct {
	Entries []Entry `json:"entries"`
	Next    uint64  `json:"next"` // give it as After
	More    bool    `json:"more"` // there is more right now
}

// LogPage is a run of log lines and where to go on.
type LogPage struct {
	Batches []events.LogBatch `json:"batches"`
	Next    uint64            `json:"next"`
	More    bool              `json:"more"`
}

// Problem is why a request was not served. Code is one of the exit codes'
// names of the command line: "invalid", "forbidden", "not-found", "impossible", "conflict", "unavailable", "internal".
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Error is the message and the remedy in one line.
func (p *Problem) Error() string {
	if p.Remedy == "" {
		return p.Message
	}
	return p.Message + "; " + p.Remedy
}

// answer wraps what a request is answered with.
type answer[T any] struct {
	Problem *Problem `json:"problem,omitempty"`
	Value   T        `json:"value,omitzero"`
}
