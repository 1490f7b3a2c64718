package ledger

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// Statement is what a job cost, lease by lease.
type Statement struct {
	Account  Account
	Lines    []Line
	Compute  events.MicroUSD
	Credits  events.MicroUSD // zero or negative
	Total    events.MicroUSD // Compute + Credits
	OnDemand events.MicroUSD // the same time on demand, over the lines that know it
	Saved    events.MicroUSD // OnDemand - what those lines cost; negative when spot was dearer
	Finality events.Finality // provisional while a lease is open or a charge is
}

// Line is one lease on a statement. An open lease has no segments; Amount is
// then what is reserved for it, and the line does not count into the totals.
type Line struct {
	Lease    events.LeaseID
	Pool     events.Pool
	Phase    Phase
	From, To time.Time // market; To is paid-until while open
	Use      events.MicroHours
	Segments []events.Segment
	Compute  events.MicroUSD
	Credit   events.MicroUSD
	Amount   events.MicroUSD
	OnDemand events.MicroUSD
	Overrun  events.MicroUSD
	Finality events.Finality
	Event    events.EventID // the money event of the charge
}

// Statement returns a job's statement. Released leases cost nothing and have no line.
func (s *State) Statement(job events.JobID) Statement {
	out := Statement{Account: s.Account(job), Finality: events.Final}
	for _, id := range s.order {
		l := s.leases[id]
		if l.Job != job || l.Phase == Released {
			continue
		}
		line := lineOf(*l)
		out.Lines = append(out.Lines, line)
		if line.Finality != events.Final {
			out.Finality = events.Provisional
		}
		if line.Phase != Settled {
			continue
		}
		out.Compute += line.Compute
		out.Credits += line.Credit
		out.Total += line.Amount
		if line.OnDemand > 0 {
			out.OnDemand += line.OnDemand
			out.Saved += line.OnDemand - line.Amount
		}
	}
	return out
}

func lineOf(l Lease) Line {
	if l.Phase != Settled {
		return Line{Lease: l.ID, Phase: l.Phase, To: l.PaidTill, Amount: l.Reserved, Finality: events.Provisional}
	}
	c := l.Charge
	line := Line{
		Lease: l.ID, Pool: c.Pool, Phase: l.Phase, Segments: c.Segments, Amount: c.Amount,
		OnDemand: c.OnDemand, Overrun: c.Overrun, Finality: l.Finality, Event: l.Charged,
	}
	for _, seg := range c.Segments {
		if line.From.IsZero() || seg.From.Before(line.From) {
			line.From = seg.From
		}
		if seg.To.After(line.To) {
			line.To = seg.To
		}
		if seg.Category == "credit" {
			line.Credit += seg.Amount
			continue
		}
		line.Compute += seg.Amount
		line.Use += seg.Use
	}
	return line
}
