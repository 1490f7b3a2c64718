package simtest

// anywhere is a death at no particular place.
const anywhere = "anywhere"

// appends are the events around whose appends the control plane may die.
var appends = []string{
	"job.submitted", "job.waiting", "job.leased", "job.joined", "job.placed", "job.started", "job.noticed", "job.notice-withdrawn",
	"job.committed", "job.lost", "job.exited", "job.ended", "job.released", "job.closed", "job.failed-over",
	"lease.intended", "lease.declined", "lease.refused", "lease.unknown", "lease.launched", "lease.terminating", "lease.ended",
	"money.budget-set", "money.reserved", "money.extended", "money.settled", "money.released",
}

// consumed are the events around whose handling it may die.
var consumed = []string{
	"failover on lease.launched", "failover on lease.declined", "failover on lease.ended",
	"bidder on job.submitted", "bidder on job.noticed", "bidder on job.lost", "bidder on job.leased", "bidder on job.placed",
	"bidder on job.ended", "bidder on job.committed",
	"ledger on lease.ended", "ledger on lease.refused",
}

// crashPoints names every place where the control plane may die, rare ones as often as others.
func crashPoints() []string {
	out := []string{anywhere, anywhere}
	out = append(out, pointed...)
	for _, e := range appends {
		out = append(out, "before append of "+e, "after append of "+e)
	}
	for _, e := range consumed {
		out = append(out, "before "+e, "after "+e)
	}
	return out
}

// kinds are the sorts of trouble that a run of many seeds must have met.
var kinds = []string{
	"agent gives up in silence", "agent learns it is fenced", "answer lost after the effect", "budget", "bus dies", "bus restarts",
	"bus: acknowledgement lost", "bus: append lost", "bus: append repeated", "bus: append unanswered, connection broken",
}
