package ledger

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// Entry is a set of postings that balance: one per money event, with its
// number and the hash of the entry before, so that a missing or altered one shows.
type Entry struct {
	Number   uint64
	Event    events.EventID
	Prev     string
	Time     time.Time // control
	Job      events.JobID
	Lease    events.LeaseID
	Text     string
	Postings []Posting
}

// Posting is one line: what was added to an account; negative is taken from it.
type Posting struct {
	Account string
	Amount  events.MicroUSD
}

// Entries returns the postings of a verified chain, one entry an event. The
// accounts of a job are budget (negative: granted), available, reserved and
// spent; those of the outside are cost by category and payable by seller.
func Entries(evs []events.Event) ([]Entry, error) {
	s := &State{}
	var out []Entry
	for _, e := range evs {
		before := s.Sequence()
		entry := s.entry(e)
		if err := s.Apply(e); err != nil {
			return out, err
		}
		if s.Sequence() > before {
			out = append(out, entry)
		}
	}
	return out, nil
}

// entry reads the state before e.
func (s *State) entry(e events.Event) Entry {
	x := Entry{Number: e.Sequence, Event: e.ID, Prev: e.Prev, Time: e.Time}
	move := func(job events.JobID, from, to string, amount events.MicroUSD) {
		x.Job = job
		x.Postings = append(x.Postings,
			Posting{"job:" + string(job) + ":" + from, -amount}, Posting{"job:" + string(job) + ":" + to, amount})
	}
	switch f := e.Fact.(type) {
	case events.BudgetSet:
		x.Text = "budget set"
		move(f.Job, "budget", "available", f.Limit-s.Account(f.Job).Limit)
	case events.MoneyReserved:
		x.Text, x.Lease = "reserved", f.Lease
		if _, known := s.leases[f.Lease]; !known {
			move(f.Job, "available", "reserved", f.Amount)
		}
	case events.MoneyExtended:
		x.Text, x.Lease = "extended", f.Lease
		if s.openAmount(f.Lease) >= 0 {
			move(f.Job, "available", "reserved", f.Amount)
		}
	case events.MoneyReleased:
		x.Text, x.Lease = "released: "+f.Reason, f.Lease
		if held := s.openAmount(f.Lease); held >= 0 {
			move(f.Job, "reserved", "available", held)
		}
	case events.MoneySettled:
		x.Text, x.Lease = "settled", f.Lease
		if l, ok := s.leases[f.Lease]; ok && l.Phase == Settled {
			break
		}
		move(f.Job, "reserved", "available", max(s.openAmount(f.Lease), 0))
		move(f.Job, "available", "spent", f.Amount)
		x.Postings = append(x.Postings, outside(f)...)
	}
	return x
}

// openAmount is a lease's open reservation, -1 if it has none.
func (s *State) openAmount(id events.LeaseID) events.MicroUSD {
	if l, ok := s.leases[id]; ok && l.Phase == Open {
		return l.Reserved
	}
	return -1
}

// outside posts what the charge is for and to whom it is owed.
func outside(f events.MoneySettled) []Posting {
	var out []Posting
	for _, category := range []string{"compute", "credit"} {
		var total events.MicroUSD
		for _, seg := range f.Segments {
			if seg.Category == category {
				total += seg.Amount
			}
		}
		if total != 0 {
			out = append(out, Posting{"job:" + string(f.Job) + ":cost:" + category, total})
		}
	}
	return append(out, Posting{"seller:" + f.Pool.Seller + ":payable", -f.Amount})
}

// Balance sums an entry's postings; anything but zero is a bug.
func (e Entry) Balance() events.MicroUSD {
	var total events.MicroUSD
	for _, p := range e.Postings {
		total += p.Amount
	}
	return total
}
