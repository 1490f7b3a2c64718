package events

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

const (
	subjectRoot = "sf.v1."
	typeRoot    = "io.spotferry."
	schemaRoot  = "https://spotferry.dev/schema/"
)

// ErrUnknownType is wrapped when an event's type is in no row of the table: a
// newer version's, or garbage.
var ErrUnknownType = errors.New("unknown event type")

// EventType is one row of the table: a fact, its name, its version, where it travels.
type EventType struct {
	Family  string // "job", "lease", "money", "offer"
	Event   string // past tense, last token of the subject
	Version int
	Public  bool   // part of the contract with outsiders
	Meaning string // one line for the catalogue
	fact    reflect.Type
}

// Name is the ce-type: io.spotferry.<family>.<event>.v<version>.
func (t EventType) Name() string {
	return fmt.Sprintf("%s%s.%s.v%d", typeRoot, t.Family, t.Event, t.Version)
}

// SchemaURI is the ce-dataschema.
func (t EventType) SchemaURI() string { return schemaRoot + t.SchemaFile() }

// SchemaFile is the name of the type's JSON Schema in events/schema.
func (t EventType) SchemaFile() string {
	return fmt.Sprintf("%s.%s.v%d.json", t.Family, t.Event, t.Version)
}

// New returns a pointer to a zero fact of the type.
func (t EventType) New() any { return reflect.New(t.fact).Interface() }

func (t EventType) decode(b []byte) (Fact, error) {
	p := reflect.New(t.fact)
	if err := unmarshal(b, p.Interface()); err != nil {
		return nil, err
	}
	return p.Elem().Interface(), nil
}

func row[F any](family, event, meaning string) EventType {
	return EventType{Family: family, Event: event, Version: 1, Public: true, Meaning: meaning, fact: reflect.TypeFor[F]()}
}

// Table lists every event type there is. The subject of each is
// sf.v1.<family>.<aggregate tokens>.<event>; offers end in their pool instead.
var Table = []EventType{
	row[JobSubmitted]("job", "submitted", "a job was accepted"),
	row[JobWaiting]("job", "waiting", "the job holds still, with the reason and when it is looked at again"),
	row[JobLeased]("job", "leased", "a machine was bought for an epoch and boots"),
	row[JobJoined]("job", "joined", "the agent of a lease is ready"),
	row[JobPlaced]("job", "placed", "the epoch was raised and the checkpoint to resume from adopted"),
	row[JobStarted]("job", "started", "the trainer made its first step of an epoch"),
	row[JobNoticed]("job", "noticed", "the seller warned that it takes the machine back"),
	row[JobNoticeWithdrawn]("job", "notice-withdrawn", "the seller took its warning back"),
	row[JobCommitted]("job", "committed", "a checkpoint became true"),
	row[JobCheckpointRejected]("job", "checkpoint-rejected", "a restore met a bad checkpoint and fell back"),
	row[JobCheckpointPinned]("job", "checkpoint-pinned", "a checkpoint is kept whatever the policy says, or that ended"),
	row[JobCheckpointsDropped]("job", "checkpoints-dropped", "checkpoints are gone; their objects are deleted after a grace"),
	row[JobLost]("job", "lost", "the current machine is gone or given up"),
	row[JobHeard]("job", "heard", "a machine given up as silent is back in time"),
	row[JobExited]("job", "exited", "the trainer's process ended on a machine that lives"),
	row[JobMoveRequested]("job", "move-requested", "a voluntary move was asked for"),
	row[JobStopping]("job", "stopping", "an orderly save and stop began"),
	row[JobEnded]("job", "ended", "the outcome; final"),
	row[JobReleased]("job", "released", "a lease of the job is confirmed gone"),
	row[JobClosed]("job", "closed", "ended, and no machine is left"),
	row[JobFailedOver]("job", "failed-over", "the record of one move"),
	row[JobFailoverRefined]("job", "failover-refined", "what was learned about a failover after its record"),
	row[JobLastWords]("job", "last-words", "the last log lines, heartbeat and GPU sample of a machine that was left"),
	row[JobTroubled]("job", "troubled", "an agent found something wrong that would burn money"),
	row[JobPausing]("job", "pausing", "an orderly save and stop began, to pause"),
	row[JobPaused]("job", "paused", "the job holds no machine until it is resumed"),
	row[JobResumed]("job", "resumed", "a paused job is taken up again"),
	row[JobDrilled]("job", "drilled", "a failover was begun on demand"),
	row[LeaseIntended]("lease", "intended", "about to buy: the decision and the reservation"),
	row[LeaseDeclined]("lease", "declined", "nothing was bought, and why"),
	row[LeaseRefused]("lease", "refused", "the seller certainly sold nothing"),
	row[LeaseUnknown]("lease", "unknown", "nobody knows yet whether a machine was sold"),
	row[LeaseLaunched]("lease", "launched", "a machine is ours and costs money"),
	row[LeaseTerminating]("lease", "terminating", "we want the machine gone"),
	row[LeaseEnded]("lease", "ended", "the seller confirmed the end"),
	row[BudgetSet]("money", "budget-set", "what a job may ever cost"),
	row[MoneyReserved]("money", "reserved", "money set aside before anything is bought"),
	row[MoneyExtended]("money", "extended", "a reservation grew so that the machine may run longer"),
	row[MoneySettled]("money", "settled", "a lease's reservation was replaced by what it cost"),
	row[MoneyReleased]("money", "released", "a reservation was given back: nothing was bought"),
	row[OpsHeld]("ops", "held", "nothing more is bought from a seller or pool"),
	row[OpsReleased]("ops", "released", "a seller or pool may be bought from again"),
	row[OpsFrozen]("ops", "frozen", "no new commitment is made anywhere"),
	row[OpsUnfrozen]("ops", "unfrozen", "commitments are made again"),
	row[OpsReapRequested]("ops", "reap-requested", "machines that nobody wants are to be ended"),
	row[OfferChanged]("offer", "changed", "a pool's newest price and terms"),
	row[OfferExpired]("offer", "expired", "a pool's last offer may no longer be bought"),
	row[OfferQuarantined]("offer", "quarantined", "a quote that no decision may see"),
}

func typeOf(f Fact) (EventType, bool) {
	ft := reflect.TypeOf(f)
	for _, t := range Table {
		if t.fact == ft {
			return t, true
		}
	}
	return EventType{}, false
}

// TypeOf returns the row of a fact given by value.
func TypeOf(f Fact) (EventType, bool) { return typeOf(f) }

func typeNamed(name string) (EventType, error) {
	for _, t := range Table {
		if t.Name() == name {
			return t, nil
		}
	}
	return EventType{}, fmt.Errorf("%w: ce-type %.100q", ErrUnknownType, name)
}

// subjectOf is the one place where an event's subject is made.
func (t EventType) subjectOf(e Event) (string, error) {
	if t.Family == "offer" {
		return offerSubject(e.Fact)
	}
	if t.Family != e.Aggregate.Kind {
		return "", fmt.Errorf("a %s.%s cannot stand in a %s aggregate", t.Family, t.Event, e.Aggregate.Kind)
	}
	if err := CheckToken("org", string(e.Aggregate.Org)); err != nil {
		return "", err
	}
	if !e.Aggregate.one() {
		if err := CheckToken(t.Family, e.Aggregate.ID); err != nil {
			return "", err
		}
	}
	return strings.TrimSuffix(e.Aggregate.Filter(), ">") + t.Event, nil
}

func offerSubject(f Fact) (string, error) {
	var p Pool
	root := subjectRoot + "offer."
	switch f := f.(type) {
	case OfferChanged:
		p = f.Offer.Pool
	case OfferExpired:
		p = f.Pool
	case OfferQuarantined:
		p = f.Pool
		root = subjectRoot + "quarantine."
	}
	return root + Token(p.Seller) + "." + Token(p.Region) + "." + p.Subject(), nil
}

// aggregateOf reads what subjectOf writes, and nothing else.
func (t EventType) aggregateOf(subject string) (Aggregate, error) {
	if t.Family == "offer" {
		return Aggregate{}, nil
	}
	f := strings.Split(strings.TrimPrefix(subject, subjectRoot), ".")
	a := Aggregate{Kind: t.Family}
	switch one := a.one(); {
	case one && len(f) == 3:
		a.Org = OrgID(f[1])
	case !one && len(f) == 4:
		a.Org, a.ID = OrgID(f[1]), f[2]
	}
	if s, err := t.subjectOf(Event{Aggregate: a}); err != nil || s != subject {
		return Aggregate{}, fmt.Errorf("%w: a %s cannot stand on subject %.200q", ErrMalformed, t.Name(), subject)
	}
	return a, nil
}
