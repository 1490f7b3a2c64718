package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Fact is the body of an event. The set is closed: the table in table.go lists every one.
type Fact any

// Finality says whether a fact may still be corrected.
type Finality string

// A provisional figure is an estimate; a final one changes only by a later correction.
const (
	Provisional Finality = "provisional"
	Final       Finality = "final"
)

// Aggregate is what has one order: a job, a lease, or the money of an organisation.
type Aggregate struct {
	Kind string // "job", "lease", "money", "ops"
	Org  OrgID
	ID   string // job or lease id; for money and ops, empty
}

// JobAggregate, LeaseAggregate and MoneyAggregate name the three kinds.
func JobAggregate(org OrgID, id JobID) Aggregate { return Aggregate{"job", org, string(id)} }

// LeaseAggregate names a lease's aggregate.
func LeaseAggregate(org OrgID, id LeaseID) Aggregate { return Aggregate{"lease", org, string(id)} }

// MoneyAggregate names the money of an organisation.
func MoneyAggregate(org OrgID) Aggregate { return Aggregate{"money", org, ""} }

// OpsAggregate names what operations decided in an organisation.
func OpsAggregate(org OrgID) Aggregate { return Aggregate{"ops", org, ""} }

// one says whether an organisation has only one aggregate of this kind.
func (a Aggregate) one() bool { return a.Kind == "money" || a.Kind == "ops" }

// Key is the aggregate's name in ids and in the ce-subject attribute.
func (a Aggregate) Key() string {
	if a.one() {
		return a.Kind + "-" + string(a.Org)
	}
	return a.ID
}

// Filter is the subject wildcard that covers the aggregate and nothing else:
// what an append is expected against.
func (a Aggregate) Filter() string {
	if a.one() {
		return subjectRoot + a.Kind + "." + string(a.Org) + ".>"
	}
	return subjectRoot + a.Kind + "." + string(a.Org) + "." + a.ID + ".>"
}

// Event is one fact with everything that travels beside it.
//
// Position is filled by whoever reads it from a log and does not travel.
type Event struct {
	ID          EventID
	Aggregate   Aggregate
	Sequence    uint64    // within the aggregate, from 1, gap-free; 0 for facts that belong to none
	Source      string    // "/spotferry/<service>"
	Time        time.Time // control time at which it happened
	Correlation string    // the job
	Causation   EventID   // the event that led to this one; "" for a person's act
	Prev        string    // Hash of the aggregate's event before; "" at sequence 1
	Trace       string    // W3C traceparent, if any
	Attribution Attribution
	Finality    Finality
	Fact        Fact
	Commands    []Command // all that is owed after this event; internal, not part of the public schema

	Position uint64 // in the stream
	read     string // Hash as read: a newer version's fields count although this one does not know them
}

// Follow returns the event that comes after prev in aggregate a, with its id,
// sequence and previous hash derived. prev is nil for the first.
func Follow(a Aggregate, prev *Event, fact Fact) (Event, error) {
	e := Event{Aggregate: a, Sequence: 1, Fact: fact, Finality: Final}
	if prev != nil {
		hash, err := prev.Hash()
		if err != nil {
			return Event{}, err
		}
		e.Sequence, e.Prev = prev.Sequence+1, hash
		e.Attribution = prev.Attribution
		e.Correlation = prev.Correlation
	}
	e.ID = EventID(fmt.Sprintf("%s-%d", a.Key(), e.Sequence))
	return e, nil
}

// Hash is SHA-256 over the encoded body, the commands, the id and the previous hash, in hex.
func (e Event) Hash() (string, error) {
	if e.read != "" {
		return e.read, nil
	}
	m, err := Encode(e)
	if err != nil {
		return "", err
	}
	return m.hash(), nil
}

// Hash is what the previous hash of the aggregate's next event has to be.
func (m Message) Hash() string { return m.hash() }

func (m Message) hash() string {
	h := sha256.New()
	for _, k := range []string{headerID, headerType, headerPrev, headerCommands} {
		fmt.Fprintf(h, "%s\x00%s\x00", k, m.Get(k))
	}
	h.Write(m.Body)
	return hex.EncodeToString(h.Sum(nil))
}
