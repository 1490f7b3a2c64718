package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Account is the money of one job, in plain numbers.
type Account struct {
	Job      events.JobID
	Limit    events.MicroUSD
	Set      bool            // a limit was ever set
	Spent    events.MicroUSD // settled
	Reserved events.MicroUSD // worst case of the open leases
	Overrun  events.MicroUSD // of Spent, what exceeded reservations
}

// Limit is what a job might cost from a time on, on whose word and why.
type Limit struct {
	Amount events.MicroUSD
	By     string
	Reason string
	At     time.Time // control
}

// Phase is where a lease's money is.
type Phase string

// The phases. A released lease can still be settled: a machine that the seller
// denied and that turned up later has to be paid for.
const (
	Open     Phase = "open"
	Settled  Phase = "settled"
	Released Phase = "released"
)

// Lease is the money of one lease.
type Lease struct {
	ID       events.LeaseID
	Job      events.JobID
	Phase    Phase
	Reserved events.MicroUSD        // while open
	Price    events.PerInstanceHour // the most it was computed with
	PaidTill time.Time              // market time
	Terms    events.Terms
	Opened   time.Time            // control time of the reservation
	Charge   *events.MoneySettled // once settled
	Charged  events.EventID       // the money event of Charge
	Why      string               // why it was released
	Finality events.Finality      // of the charge
	Owner    events.Attribution   // whose money
}

// State is the fold of an organisation's money. The zero value is the state
// before the first event. It is not safe for concurrent use; see Book.
type State struct {
	last   events.Event // newest applied; Position is the expectation of the next append
	hash   string
	jobs   map[events.JobID]*Account
	limits map[events.JobID][]Limit
	leases map[events.LeaseID]*Lease
	order  []events.LeaseID // in the order of their reservations
}

// ChainError says where a sequence of money events is not what it must be.
type ChainError struct {
	Event    events.EventID // the first that does not fit
	Sequence uint64
	Problem  string
}

// Error names the place.
func (e *ChainError) Error() string {
	return fmt.Sprintf("money event %s (number %d): %s; nothing after number %d can be trusted", e.Event, e.Sequence, e.Problem, e.Sequence-1)
}

// Fold returns the state after all of evs, which may be shuffled and contain
// repetitions. A gap, a broken hash or an unbalanced entry is a *ChainError.
func Fold(evs []events.Event) (*State, error) {
	sorted := slices.Clone(evs)
	slices.SortStableFunc(sorted, func(a, b events.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
	s := &State{}
	for _, e := range sorted {
		if err := s.Apply(e); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Apply adds the next event. One that was applied before changes nothing; one
// that leaves a gap, or does not carry the hash of the event before it, or whose
// amounts do not balance, is a *ChainError and changes nothing either.
func (s *State) Apply(e events.Event) error {
	if e.Sequence <= s.last.Sequence && e.Sequence > 0 {
		return s.repeated(e)
	}
	if e.Sequence != s.last.Sequence+1 {
		return &ChainError{e.ID, e.Sequence, fmt.Sprintf("number %d is missing", s.last.Sequence+1)}
	}
	if e.Prev != s.hash {
		return &ChainError{e.ID, e.Sequence, fmt.Sprintf("previous hash is %.12q, the event before has %.12q", e.Prev, s.hash)}
	}
	if problem := wrong(e.Fact); problem != "" {
		return &ChainError{e.ID, e.Sequence, problem}
	}
	hash, err := e.Hash()
	if err != nil {
		return err
	}
	s.apply(e)
	s.last, s.hash = e, hash
	return nil
}

func (s *State) repeated(e events.Event) error {
	if e.Sequence != s.last.Sequence {
		return nil // older events cannot be compared any more; their hashes are in the chain
	}
	if hash, err := e.Hash(); err != nil || hash != s.hash {
		return &ChainError{e.ID, e.Sequence, "two different events claim this number"}
	}
	return nil
}

// wrong says what about a fact's own figures cannot be.
func wrong(f events.Fact) string {
	switch f := f.(type) {
	case events.BudgetSet:
		if f.Limit < 0 {
			return fmt.Sprintf("limit is %s", f.Limit)
		}
	case events.MoneyReserved:
		if f.Amount < 0 {
			return fmt.Sprintf("reserved amount is %s", f.Amount)
		}
	case events.MoneyExtended:
		if f.Amount < 0 {
			return fmt.Sprintf("added amount is %s", f.Amount)
		}
	case events.MoneySettled:
		var sum events.MicroUSD
		for _, seg := range f.Segments {
			sum += seg.Amount
		}
		if sum != f.Amount {
			return fmt.Sprintf("segments sum to %s, amount is %s", sum, f.Amount)
		}
	}
	return ""
}

func (s *State) apply(e events.Event) {
	switch f := e.Fact.(type) {
	case events.BudgetSet:
		a := s.account(f.Job)
		a.Limit, a.Set = f.Limit, true
		if s.limits == nil {
			s.limits = map[events.JobID][]Limit{}
		}
		s.limits[f.Job] = append(s.limits[f.Job], Limit{f.Limit, f.By, f.Reason, e.Time})
	case events.MoneyReserved:
		if _, known := s.leases[f.Lease]; known {
			return
		}
		l := s.lease(f.Lease, f.Job)
		l.Phase, l.Reserved, l.Price, l.PaidTill, l.Terms = Open, f.Amount, f.Price, f.PaidTill, f.Terms
		l.Opened, l.Owner = e.Time, e.Attribution
		s.account(f.Job).Reserved += f.Amount
	case events.MoneyExtended:
		if l, ok := s.leases[f.Lease]; ok && l.Phase == Open {
			l.Reserved += f.Amount
			l.PaidTill = f.PaidTill
			s.account(f.Job).Reserved += f.Amount
		}
	case events.MoneySettled:
		s.settle(e, f)
	case events.MoneyReleased:
		if l, ok := s.leases[f.Lease]; ok && l.Phase == Open {
			s.account(f.Job).Reserved -= l.Reserved
			l.Phase, l.Reserved, l.Why = Released, 0, f.Reason
		}
	}
}

func (s *State) settle(e events.Event, f events.MoneySettled) {
	l, a := s.lease(f.Lease, f.Job), s.account(f.Job)
	if l.Phase == Settled {
		return
	}
	a.Reserved -= l.Reserved
	a.Spent += f.Amount
	a.Overrun += f.Overrun
	l.Phase, l.Reserved, l.Charge, l.Charged, l.Finality = Settled, 0, &f, e.ID, e.Finality
	l.Owner = e.Attribution
}

func (s *State) account(job events.JobID) *Account {
	if s.jobs == nil {
		s.jobs = map[events.JobID]*Account{}
	}
	a, ok := s.jobs[job]
	if !ok {
		a = &Account{Job: job}
		s.jobs[job] = a
	}
	return a
}

func (s *State) lease(id events.LeaseID, job events.JobID) *Lease {
	if s.leases == nil {
		s.leases = map[events.LeaseID]*Lease{}
	}
	l, ok := s.leases[id]
	if !ok {
		l = &Lease{ID: id, Job: job}
		s.leases[id] = l
		s.order = append(s.order, id)
	}
	return l
}

// Sequence is the number of the newest event, 0 before the first.
func (s *State) Sequence() uint64 { return s.last.Sequence }

// Hash is the hash of the newest event, "" before the first.
func (s *State) Hash() string { return s.hash }

// Account returns a job's money; a job never heard of has none.
func (s *State) Account(job events.JobID) Account {
	if a, ok := s.jobs[job]; ok {
		return *a
	}
	return Account{Job: job}
}

// Limits returns every limit that a job was ever given, oldest first.
func (s *State) Limits(job events.JobID) []Limit { return slices.Clone(s.limits[job]) }

// Lease returns a lease's money, or false if nothing was ever reserved or charged for it.
func (s *State) Lease(id events.LeaseID) (Lease, bool) {
	if l, ok := s.leases[id]; ok {
		return *l, true
	}
	return Lease{}, false
}

// OpenLeases returns the leases with an open reservation, oldest first.
func (s *State) OpenLeases() []Lease {
	var out []Lease
	for _, id := range s.order {
		if l := s.leases[id]; l.Phase == Open {
			out = append(out, *l)
		}
	}
	return out
}

// Jobs returns every account, by job id.
func (s *State) Jobs() []Account {
	out := make([]Account, 0, len(s.jobs))
	for _, a := range s.jobs {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b Account) int { return cmp.Compare(a.Job, b.Job) })
	return out
}
