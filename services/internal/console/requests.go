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
	GetClock       Verb = "clock"
	GetJobs        Verb = "jobs"
	GetJob         Verb = "job"
	GetEvents      Verb = "events"
	GetFailovers   Verb = "failovers"
	GetCheckpoints Verb = "checkpoints"
	GetBill        Verb = "bill"
	GetOffers      Verb = "offers"
	GetInstances   Verb = "instances"
	GetLogs        Verb = "logs"
	GetPlan        Verb = "plan"
	GetHealth      Verb = "health"

	DoSubmit Verb = "submit"
	DoCancel Verb = "cancel"
)

const apiRoot = "sf.api."

// Subject is where user asks v.
func Subject(user string, v Verb) string { return apiRoot + user + "." + string(v) }

func parseSubject(s string) (user string, v Verb, err error) {
	f := strings.Split(strings.TrimPrefix(s, apiRoot), ".")
	if len(f) != 2 || !strings.HasPrefix(s, apiRoot) {
		return "", "", fmt.Errorf("subject %.100q is not sf.api.<user>.<verb>", s)
	}
	return f[0], Verb(f[1]), nil
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
	N      int       `json:"n,omitempty"` // of a failover
}

// SubmitRequest opens a job, or asks what one would cost.
type SubmitRequest struct {
	ID          events.JobID       `json:"id"`
	Attribution events.Attribution `json:"attribution"`
	Spec        events.JobSpec     `json:"spec"`
}

// CancelRequest ends a job.
type CancelRequest struct {
	Job    string `json:"job"`
	Reason string `json:"reason"`
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
// names of the command line: "invalid", "not-found", "impossible", "conflict", "unavailable", "internal".
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
