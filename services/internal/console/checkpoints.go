package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/failover/gateway"
)

// CheckpointPin keeps a checkpoint.
type CheckpointPin struct {
	By      string    `json:"by"`
	Reason  string    `json:"reason,omitempty"`
	Restore bool      `json:"restore,omitempty"` // it lasts as long as somebody restores the checkpoint
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"`
}

// CheckpointDrop is how a checkpoint went.
type CheckpointDrop struct {
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"` // "": the job's policy
	Reason string    `json:"reason"`
}

// CheckpointRequest pins a checkpoint, unpins it, or drops some.
type CheckpointRequest struct {
	Job    string   `json:"job"`
	Names  []string `json:"names"`
	Reason string   `json:"reason"`
	// Holder names one restore, for which the pin lasts ForS seconds; "": a pin that stays.
	Holder string `json:"holder,omitempty"`
	ForS   int64  `json:"for_s,omitempty"`
}

// CheckpointQuery asks about a job's checkpoints in the store.
type CheckpointQuery struct {
	Job    string               `json:"job"`
	Name   string               `json:"name,omitempty"`
	Verb   string               `json:"verb,omitempty"`
	Names  []events.GrantObject `json:"names,omitempty"`
	SealTo string               `json:"seal_to,omitempty"`
}

// CollectRequest asks for a round of the collection.
type CollectRequest struct {
	Job    string `json:"job"`
	Reason string `json:"reason"`
}

// checkpoints is what the console asks of whoever has the store.
type checkpoints interface {
	Usage(ctx context.Context, job events.JobID) (gateway.Usage, error)
	Contents(ctx context.Context, job events.JobID, name string) (gateway.Contents, error)
	Access(ctx context.Context, r gateway.AccessRequest) (gateway.Access, error)
	Collect(ctx context.Context, r gateway.CollectRequest) (gateway.Collected, error)
}

const (
	longestHold = 24 * time.Hour  // of a restore's pin, which is renewed meanwhile
	roundLimit  = 8 * time.Second // of one round asked for: it says when there is more to do
	mostNames   = 100
)

var noStore = &Problem{Code: "unavailable", Message: "the checkpoint store cannot be asked here", Remedy: "start the system: its gateway has the store"}

// askStore answers what needs the checkpoint store.
func (s *Server) askStore(ctx context.Context, v Verb, q CheckpointQuery) (any, error) {
	if s.cfg.Checkpoints == nil {
		return nil, noStore
	}
	id, err := with(s, q.Job, func(r *jobRecord) (events.JobID, error) { return r.job.ID, nil })
	if err != nil {
		return nil, err
	}
	switch v {
	case GetCheckpointUse:
		return stored(s.cfg.Checkpoints.Usage(ctx, id))
	case GetCheckpoint:
		return stored(s.cfg.Checkpoints.Contents(ctx, id, q.Name))
	case GetCheckpointAccess:
		return stored(s.cfg.Checkpoints.Access(ctx, gateway.AccessRequest{Job: id, Verb: q.Verb, Names: q.Names, SealTo: q.SealTo}))
	}
	ctx, done := context.WithTimeout(ctx, roundLimit)
	defer done()
	return stored(s.cfg.Checkpoints.Collect(ctx, gateway.CollectRequest{Job: id, DryRun: true}))
}

// stored makes of a gateway's refusal a problem that a person sees as it is.
func stored[T any](v T, err error) (any, error) { return v, storeProblem(err) }

func storeProblem(err error) error {
	var r *events.Refusal
	if errors.As(err, &r) {
		return &Problem{Code: r.Code, Message: r.Message, Remedy: r.Remedy}
	}
	return err
}

// retain pins, unpins or drops checkpoints.
func (s *Server) retain(ctx context.Context, who asker, v Verb, r CheckpointRequest) ([]Checkpoint, error) {
	reason, err := because(v, r.Reason)
	if err != nil {
		return nil, err
	}
	if err := r.check(v); err != nil {
		return nil, err
	}
	var in failover.Input
	switch v {
	case DoUnpin:
		in = failover.Unpin{Name: r.Names[0], Holder: r.Holder, By: who.name, Reason: reason}
	case DoDrop:
		in = failover.Drop{Names: r.Names, By: who.name, Reason: reason}
	default:
		pin := failover.Pin{Name: r.Names[0], Holder: r.Holder, By: who.name, Reason: reason}
		if r.ForS > 0 {
			pin.Until = s.cfg.Now().Control.Add(time.Duration(r.ForS) * time.Second)
		}
		in = pin
	}
	if _, err := s.apply(ctx, who, v, r.Job, reason, in); err != nil {
		return nil, err
	}
	j, err := s.named(ctx, r.Job)
	if err != nil {
		return nil, err
	}
	return with(s, r.Job, func(r *jobRecord) ([]Checkpoint, error) {
		as := *r
		as.job = j
		return as.checkpoints(s.cfg.Now().Control), nil
	})
}

// named is a job as its record has it now, which the read model may not show yet.
func (s *Server) named(ctx context.Context, name string) (failover.Job, error) {
	id, err := with(s, name, func(r *jobRecord) (events.JobID, error) { return r.job.ID, nil })
	if err != nil {
		return failover.Job{}, err
	}
	return s.cfg.Book.Job(ctx, id)
}

func (r CheckpointRequest) check(v Verb) error {
	hold := time.Duration(r.ForS) * time.Second
	switch {
	case len(r.Names) == 0 || len(r.Names) > mostNames || v != DoDrop && len(r.Names) != 1:
		return &Problem{Code: "invalid", Message: fmt.Sprintf("%d checkpoints are named", len(r.Names)), Remedy: fmt.Sprintf("name one, or up to %d to be dropped", mostNames)}
	case len(r.Holder) > 64 || v != DoDrop && (r.Holder == "") != (r.ForS == 0) && v == DoPin:
		return &Problem{Code: "invalid", Message: "a restore's pin has a holder and an end, any other has neither", Remedy: "use 'spotferry checkpoint pin' or 'restore'"}
	case hold < 0 || hold > longestHold:
		return &Problem{Code: "invalid", Message: fmt.Sprintf("a pin of %s for a restore", hold), Remedy: fmt.Sprintf("at most %s; it can be renewed", longestHold)}
	}
	return nil
}

// collect does one round of the collection.
func (s *Server) collect(ctx context.Context, who asker, r CollectRequest) (any, error) {
	reason, err := because(DoCollect, r.Reason)
	if err != nil {
		return nil, err
	}
	if s.cfg.Checkpoints == nil {
		return nil, noStore
	}
	id, err := with(s, r.Job, func(r *jobRecord) (events.JobID, error) { return r.job.ID, nil })
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(ctx, roundLimit)
	defer done()
	return stored(s.cfg.Checkpoints.Collect(ctx, gateway.CollectRequest{Job: id, By: who.name, Reason: reason}))
}

// checkpoints lists what was committed, oldest first, and where each stands.
func (r *jobRecord) checkpoints(now time.Time) []Checkpoint {
	newest := r.job.Newest()
	dropped := map[string]*CheckpointDrop{}
	for _, d := range r.job.Drops {
		dropped[d.Name] = &CheckpointDrop{At: d.At, By: d.By, Reason: d.Reason}
	}
	pins := map[string][]CheckpointPin{}
	for _, p := range r.job.Pins {
		if p.Until.IsZero() || now.Before(p.Until) {
			pins[p.Name] = append(pins[p.Name], CheckpointPin{By: p.By, Reason: p.Reason, Restore: p.Holder != "", Since: p.At, Until: p.Until})
		}
	}
	out := make([]Checkpoint, 0, len(r.names))
	for _, n := range r.names {
		c := r.commits[n]
		c.Rejected, c.Newest = r.rejected[n], newest != nil && newest.Name == n
		c.Dropped, c.Pins = dropped[n], pins[n]
		out = append(out, c)
	}
	return out
}

// State is the one word a list shows of a checkpoint.
func (c Checkpoint) State() string {
	switch {
	case c.Dropped != nil:
		return "dropped"
	case c.Rejected != "":
		return "rejected"
	case c.Newest:
		return "newest"
	case len(c.Pins) > 0:
		return "pinned"
	}
	return "kept"
}

// Why explains the state, where there is more to say.
func (c Checkpoint) Why() string {
	var words []string
	if d := c.Dropped; d != nil {
		words = append(words, by(d.By, d.Reason))
	}
	if c.Rejected != "" {
		words = append(words, c.Rejected)
	}
	for _, p := range c.Pins {
		if p.Restore {
			words = append(words, strings.TrimSuffix("being restored "+by(p.By, ""), " "))
			continue
		}
		words = append(words, by(p.By, p.Reason))
	}
	return strings.Join(words, "; ")
}

// by says who, as far as somebody did, and why.
func by(who, why string) string {
	switch {
	case who == "":
		return why
	case why == "":
		return "by " + who
	}
	return "by " + who + ": " + why
}
