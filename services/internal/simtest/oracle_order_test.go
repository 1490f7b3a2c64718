package simtest

import (
	"cmp"
	"math/big"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// order checks what may come only after what: it walks the truth streams in the
// order in which the bus took them, and at each event asks the streams so far, the seller's
// journal and the seller's truth whether it was due.
type order struct {
	*record
	now     message
	leases  map[events.LeaseID]*paper
	purses  map[events.JobID]*purse
	jobs    map[events.JobID]*course
	ends    map[events.InstanceID]time.Time // control time; zero: alive
	launchs map[events.LeaseID][]*call
}

// paper is what the streams so far tell of a lease.
type paper struct {
	phase    string // of its newest event
	intent   *events.LeaseIntended
	unknowns []time.Time
	instance events.InstanceID
	reserved events.MicroUSD // open
	since    time.Time       // when it was first set aside
	open     bool            // a reservation is
	paidTill time.Time
	ended    bool
}

// purse is a job's money so far.
type purse struct {
	limit, spent, reserved, overrun events.MicroUSD
}

// course is what the streams so far tell of a job's placements.
type course struct {
	epoch  int
	lease  events.LeaseID
	left   bool // nothing more is due from the machine: lost, exited, or its last save is true
	silent bool
	notice time.Time // its deadline
	leases map[events.LeaseID]bool
	over   bool
}

// due runs the walk.
func (r *record) due(h map[string][]message) {
	o := &order{record: r, leases: map[events.LeaseID]*paper{}, purses: map[events.JobID]*purse{}, jobs: map[events.JobID]*course{},
		ends: map[events.InstanceID]time.Time{}, launchs: map[events.LeaseID][]*call{}}
	for _, i := range r.w.fake.Intervals() {
		o.ends[i.Instance] = i.To.Control
	}
	for _, c := range r.w.journal.calls {
		if c.op == provider.OpLaunch {
			o.launchs[events.LeaseID(c.about)] = append(o.launchs[events.LeaseID(c.about)], c)
		}
	}
	all := slices.Concat(h["JOBS"], h["MONEY"])
	slices.SortStableFunc(all, func(a, b message) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(rank(a), rank(b))) })
	for _, m := range all {
		o.now = m
		switch e := m.event; e.Aggregate.Kind {
		case "lease":
			o.lease(events.LeaseID(e.Aggregate.ID), e)
		case "money":
			o.money(e)
		case "job":
			o.job(o.course(events.JobID(e.Aggregate.ID)), e)
		}
	}
	o.asked()
}

// rank orders what was written at one instant, which a service can do since its own work takes no time
// here: money is set aside before it is spent, and charged after.
func rank(m message) int {
	switch m.event.Fact.(type) {
	case events.BudgetSet, events.MoneyReserved, events.MoneyExtended:
		return 0
	case events.MoneyReleased, events.MoneySettled:
		return 2
	}
	return 1
}

func (o *order) paper(id events.LeaseID) *paper {
	if o.leases[id] == nil {
		o.leases[id] = &paper{}
	}
	return o.leases[id]
}

func (o *order) purse(id events.JobID) *purse {
	if o.purses[id] == nil {
		o.purses[id] = &purse{}
	}
	return o.purses[id]
}

func (o *order) course(id events.JobID) *course {
	if o.jobs[id] == nil {
		o.jobs[id] = &course{leases: map[events.LeaseID]bool{}}
	}
	return o.jobs[id]
}

func (o *order) wrong(law, format string, args ...any) {
	o.w.fail(law+": "+format+" (at %s, %s)", append(args, o.now.at.Sub(o.w.began).Round(time.Millisecond), o.now.event.ID)...)
}

// lease checks I-3, I-4 and I-5 for what a lease's record claims.
func (o *order) lease(id events.LeaseID, e events.Event) {
	p := o.paper(id)
	before := p.phase
	row, _ := events.TypeOf(e.Fact)
	p.phase = row.Event
	switch f := e.Fact.(type) {
	case events.LeaseIntended:
		p.intent = &f
		if !p.open || p.reserved < f.Reserved || p.paidTill.Before(f.PaidTill) {
			o.wrong("I-3", "lease %s was intended with %s until %s; set aside for it are %s until %s", id, f.Reserved, f.PaidTill, p.reserved, p.paidTill)
		}
		if least := o.worst(f); p.reserved < least {
			o.wrong("I-3", "for lease %s %s are set aside; it can cost %s until it is gone", id, p.reserved, least)
		}
		o.another(id)
	case events.LeaseUnknown:
		p.unknowns = append(p.unknowns, o.now.at)
	case events.LeaseLaunched:
		p.instance = f.Instance
	case events.LeaseRefused:
		o.refused(id, p, f)
	case events.LeaseTerminating:
		if f.Instance != "" {
			p.instance = f.Instance
			o.stray(id, before, f)
		}
		o.inUse(id, p)
	case events.LeaseEnded:
		o.ended(id, p, e, f)
		p.ended = true
	}
}

// worst is what a machine can cost from the decision to the end of its teardown, by arithmetic of its own.
func (o *order) worst(f events.LeaseIntended) events.MicroUSD {
	w := o.w
	until := f.PaidTill.Add(2 * w.timers.Fence * scale)
	used := until.Sub(f.Decision.Market)
	grain := time.Duration(max(f.Offer.Terms.GrainS, 1)) * time.Second
	used = max((used+grain-1)/grain*grain, time.Duration(f.Offer.Terms.MinimumS)*time.Second)
	cost := new(big.Int).Mul(big.NewInt(int64(f.MaxPrice)), big.NewInt(int64(used)))
	return events.MicroUSD(cost.Div(cost, big.NewInt(int64(time.Hour)*1000)).Int64())
}

// another checks I-4: while an earlier purchase may still come to a machine, another
// one is made only after it was asked for again and again.
func (o *order) another(id events.LeaseID) {
	job, epoch, n, _ := id.Parts()
	for k := 1; k < n; k++ {
		first := o.leases[job.Lease(epoch, k)]
		if first == nil || (first.phase != "intended" && first.phase != "unknown") {
			continue
		}
		if asked := len(o.w.asks(job.Lease(epoch, k), o.now.at)); asked < 3 {
			o.wrong("I-4", "lease %s was intended while nobody knew whether %s had come to a machine, after asking %d times", id, job.Lease(epoch, k), asked)
		}
	}
}

// refused checks that a purchase is given up only on the seller's word: its
// certain answer, or lists that all must have the machine and have it not.
func (o *order) refused(id events.LeaseID, p *paper, f events.LeaseRefused) {
	calls := slices.DeleteFunc(slices.Clone(o.launchs[id]), func(c *call) bool { return c.at.After(o.now.at) })
	if f.Kind == provider.UnknownOutcome.String() {
		var since time.Time
		if p.intent != nil && len(p.unknowns) > 0 {
			since = p.unknowns[len(p.unknowns)-1]
		}
		n := o.w.journal.lists(since.Add(o.w.timers.Settle), o.now.at, false, func(i provider.Instance) bool { return i.Token == string(id) })
		if n < 3 {
			o.wrong("I-4", "lease %s was given up as absent after %d complete lists without it since the settle time", id, n)
		}
		return
	}
	if len(calls) > 0 && calls[len(calls)-1].open() {
		o.wrong("I-4", "lease %s was refused (%s) although its last call's outcome is unknown: %v", id, f.Kind, calls[len(calls)-1].err)
	}
}

// stray checks that a machine nobody ordered is ended only after two complete lists had it after the settle time.
func (o *order) stray(id events.LeaseID, before string, f events.LeaseTerminating) {
	if before != "" && before != "declined" {
		return
	}
	var since time.Time
	if i, ok := o.w.fake.Instance(f.Instance); ok {
		if p := o.record.leases[events.LeaseID(i.Token)]; p != nil && p.intended != nil {
			since = p.at.Add(o.w.timers.Settle)
		}
	}
	n := o.w.journal.lists(since, o.now.at, true, func(i provider.Instance) bool { return i.ID == f.Instance })
	if n < 2 {
		o.wrong("I-4", "machine %s was taken for a stray after %d complete lists that had it since the settle time (lease %s)", f.Instance, n, id)
	}
}

// inUse checks that no machine is taken from a job that runs on it, unless its money has run out.
func (o *order) inUse(id events.LeaseID, p *paper) {
	c := o.course(id.Job())
	market := o.w.clock.Market(o.now.at)
	if c.lease != id || c.over || !p.open || !market.Before(p.paidTill) {
		return
	}
	o.wrong("I-4", "machine of lease %s, on which job %s is, was given back; it is paid for until %s, market time is %s", id, id.Job(), p.paidTill, market)
}

// ended checks that an end is recorded only when the machine is gone.
func (o *order) ended(id events.LeaseID, p *paper, e events.Event, f events.LeaseEnded) {
	end, ours := o.ends[f.Instance]
	if !ours || end.IsZero() || end.After(o.now.at) {
		o.wrong("I-4", "lease %s is recorded as ended, its machine %s lived (until %s)", id, f.Instance, end)
	}
}

// money checks I-3 at every commitment, and that money comes back only for what is over.
func (o *order) money(e events.Event) {
	switch f := e.Fact.(type) {
	case events.BudgetSet:
		o.purse(f.Job).limit = f.Limit
	case events.MoneyReserved:
		p := o.paper(f.Lease)
		p.open, p.reserved, p.paidTill, p.since = true, f.Amount, f.PaidTill, o.now.at
		o.commit(f.Job, f.Amount)
	case events.MoneyExtended:
		p := o.paper(f.Lease)
		p.reserved, p.paidTill = p.reserved+f.Amount, f.PaidTill
		o.commit(f.Job, f.Amount)
	case events.MoneyReleased:
		p := o.paper(f.Lease)
		if p.phase != "refused" && p.phase != "declined" {
			o.wrong("I-3", "the money of lease %s was released while the lease is %q", f.Lease, p.phase)
		}
		o.purse(f.Job).reserved -= p.reserved
		p.open, p.reserved = false, 0
	case events.MoneySettled:
		p, purse := o.paper(f.Lease), o.purse(f.Job)
		if !p.ended {
			o.wrong("I-9", "lease %s was settled while it is %q", f.Lease, p.phase)
		}
		purse.overrun += max(f.Amount-p.reserved, 0)
		purse.spent += f.Amount
		purse.reserved -= p.reserved
		p.open, p.reserved = false, 0
	}
}

func (o *order) commit(id events.JobID, amount events.MicroUSD) {
	p := o.purse(id)
	p.reserved += amount
	if over := p.spent - p.overrun + p.reserved - p.limit; over > 0 && amount > 0 {
		o.wrong("I-3", "job %s has spent %s and committed %s of %s: %s too much", id, p.spent, p.reserved, p.limit, over)
	}
}

// job checks I-1 and I-4 for a job's moves.
func (o *order) job(c *course, e events.Event) {
	switch f := e.Fact.(type) {
	case events.JobLeased:
		c.leases[f.Lease] = true
	case events.JobPlaced:
		if c.lease != "" && c.lease != f.Lease && !c.left && (c.notice.IsZero() || o.now.at.Before(c.notice)) {
			o.wrong("I-1", "job %s was placed on %s while its trainer on %s may still save", e.Aggregate.ID, f.Lease, c.lease)
		}
		c.epoch, c.lease, c.left, c.silent, c.notice = f.Epoch, f.Lease, false, false, time.Time{}
	case events.JobNoticed:
		c.notice = f.Deadline
		c.left = c.silent
	case events.JobNoticeWithdrawn:
		c.notice, c.left = time.Time{}, c.silent
	case events.JobMoveRequested:
		c.left = c.silent
	case events.JobHeard:
		c.left, c.silent = false, false
	case events.JobCommitted:
		c.left = c.left || f.Final && f.Epoch == c.epoch
	case events.JobExited:
		c.left = c.left || f.Epoch == c.epoch
	case events.JobLost:
		o.lost(c, f)
	case events.JobEnded:
		c.over = true
	case events.JobReleased:
		if !o.paper(f.Lease).ended {
			o.wrong("I-4", "job %s counts %s as given back, which is %q", e.Aggregate.ID, f.Lease, o.paper(f.Lease).phase)
		}
	case events.JobClosed:
		for _, l := range slices.Sorted(keys(c.leases)) {
			if !o.paper(l).ended {
				o.wrong("I-4", "job %s is closed and its lease %s is %q", e.Aggregate.ID, l, o.paper(l).phase)
			}
		}
	}
}

// lost checks that a machine is given up as silent only when it was.
func (o *order) lost(c *course, f events.JobLost) {
	if f.Lease != c.lease {
		return
	}
	c.left = true
	if f.Cause != events.CauseSilent {
		c.lease = ""
		return
	}
	c.silent = true
	last, known := o.w.lastHeard(o.paper(f.Lease).instance, o.now.at)
	if quiet := o.now.at.Sub(last); known && quiet < o.w.timers.Lost {
		o.wrong("I-15", "lease %s was given up as silent %s after its agent had been answered", f.Lease, quiet)
	}
}

// asked checks I-3 and I-4 for the paid calls: none without an intent and money,
// none repeated before its unknown outcome was written down, and no end of a
// machine that was not recorded as wanted.
func (o *order) asked() {
	for id, calls := range o.launchs {
		p := o.leases[id]
		if p == nil || p.intent == nil {
			o.w.fail("I-3: lease %s was asked for without an intent", id)
			continue
		}
		for i, c := range calls {
			// Replicas that are at one purchase meet at the seller's token: that is how it is meant.
			if o.w.opt.replicas < 2 && i > 0 && calls[i-1].open() && !o.w.interrupted(calls[i-1].at, c.at) &&
				!slices.ContainsFunc(p.unknowns, func(at time.Time) bool { return !at.After(c.at) }) {
				o.w.fail("I-4: lease %s was asked for again at %s, before it was written down that nobody knows what became of the first call (%v)", id, c.at.Sub(o.w.began), calls[i-1].err)
			}
			if at := o.record.leases[id].at; c.at.Before(at) || p.since.IsZero() || c.at.Before(p.since) {
				o.w.fail("I-3: lease %s was asked for before it was intended and paid for", id)
			}
		}
	}
	wanted := map[events.InstanceID]bool{}
	for _, p := range o.record.leases {
		for _, id := range p.wanted {
			wanted[id] = true
		}
	}
	for _, c := range o.w.journal.calls {
		if c.op == provider.OpTerminate && !wanted[events.InstanceID(c.about)] {
			o.w.fail("I-4: the end of machine %s was asked for without a record that it is wanted", c.about)
		}
	}
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// asks are the times at which the control plane wanted a launch, held back or not.
func (w *world) asks(id events.LeaseID, until time.Time) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.wished[id]), func(at time.Time) bool { return at.After(until) })
}

// interrupted says whether a control plane died or began between two times.
func (w *world) interrupted(from, to time.Time) bool {
	return slices.ContainsFunc(w.outages, func(o window) bool { return !o.from.After(to) && !o.to.Before(from) })
}

// lastHeard is when a machine's agent last had a renewal answered, or should have had.
func (w *world) lastHeard(id events.InstanceID, until time.Time) (time.Time, bool) {
	m := w.machine(id)
	if m == nil {
		return time.Time{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var last time.Time
	for _, at := range m.renewals {
		if at.Before(until) {
			last = at
		}
	}
	return last, !last.IsZero()
}
