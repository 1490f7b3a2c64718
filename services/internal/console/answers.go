package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

func (s *Server) jobs(ctx context.Context) ([]Job, error) {
	out := []Job{}
	err := s.cfg.Money.View(ctx, s.cfg.Org, func(money *ledger.State) {
		s.model.mu.Lock()
		defer s.model.mu.Unlock()
		for _, id := range s.model.order {
			out = append(out, s.model.jobs[id].view(money))
		}
	})
	return out, err
}

func (s *Server) job(ctx context.Context, name string) (v Job, err error) {
	e := s.cfg.Money.View(ctx, s.cfg.Org, func(money *ledger.State) {
		v, err = with(s, name, func(r *jobRecord) (Job, error) { return r.view(money), nil })
	})
	if e != nil {
		return Job{}, e
	}
	return v, err
}

const pageLimit = 500

func (s *Server) events(q Query) (Page, error) {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	evs := s.model.all
	if q.Job != "" {
		r, p := s.model.find(q.Job)
		if p != nil {
			return Page{}, p
		}
		evs = r.events
	}
	limit := pageLimit
	if q.Limit > 0 {
		limit = min(q.Limit, pageLimit)
	}
	page := Page{Entries: []Entry{}, Next: q.After}
	from, found := slices.BinarySearchFunc(evs, q.After, func(e events.Event, p uint64) int { return cmp.Compare(e.Position, p) })
	if found {
		from++
	}
	size := 0
	for _, e := range evs[from:] {
		if !q.matches(e) {
			page.Next = e.Position
			continue
		}
		entry := entryOf(e)
		b, err := json.Marshal(entry)
		if err != nil {
			return Page{}, err
		}
		if size += len(b); len(page.Entries) > 0 && (len(page.Entries) == limit || size > answerLimit) {
			page.More = true
			break
		}
		page.Entries = append(page.Entries, entry)
		page.Next = e.Position
	}
	return page, nil
}

// subjectOf is the job or lease that an event is about, or the kind of an
// aggregate of which there is one.
func subjectOf(e events.Event) string {
	if e.Aggregate.ID == "" {
		return e.Aggregate.Kind
	}
	return e.Aggregate.ID
}

// matches says whether an event is of the types and the time asked for.
func (q Query) matches(e events.Event) bool {
	if e.Time.Before(q.Since) || !q.Until.IsZero() && e.Time.After(q.Until) {
		return false
	}
	t, _ := events.TypeOf(e.Fact)
	name := t.Family + "." + t.Event
	return len(q.Types) == 0 || slices.ContainsFunc(q.Types, func(want string) bool {
		return name == want || strings.HasPrefix(name, want+".")
	})
}

// answerLimit keeps an answer well below the largest message that the bus takes.
const answerLimit = 512 << 10

func entryOf(e events.Event) Entry {
	t, _ := events.TypeOf(e.Fact)
	return Entry{
		ID: e.ID, Time: e.Time, Subject: subjectOf(e), Type: t.Family + "." + t.Event, Summary: Summary(e.Fact),
		Cause: e.Causation, Position: e.Position, Fact: e.Fact,
	}
}

func (s *Server) bills(ctx context.Context, job string) (out []Bill, err error) {
	out = []Bill{}
	e := s.cfg.Money.View(ctx, s.cfg.Org, func(money *ledger.State) {
		s.model.mu.Lock()
		defer s.model.mu.Unlock()
		ids := s.model.order
		if job != "" {
			r, p := s.model.find(job)
			if p != nil {
				err = p
				return
			}
			ids = []events.JobID{r.job.ID}
		}
		for _, id := range ids {
			out = append(out, s.model.bill(s.model.jobs[id], money.Statement(id)))
		}
	})
	if e != nil {
		return nil, e
	}
	return out, err
}

func (m *model) bill(r *jobRecord, st ledger.Statement) Bill {
	b := Bill{
		Job: r.job.ID, Name: r.job.Spec.Name, Limit: st.Account.Limit, Compute: st.Compute, Credits: st.Credits,
		Total: st.Total, Reserved: st.Account.Reserved, OnDemand: st.OnDemand, Overrun: st.Account.Overrun, Finality: st.Finality,
		Lines: []BillLine{},
	}
	if !st.Account.Set {
		b.Limit = r.job.Spec.Policy.Budget
	}
	for _, f := range r.failovers {
		b.LostWork += f.LostCost
	}
	for _, l := range st.Lines {
		if known, ok := m.leases[l.Lease]; ok && l.Phase == ledger.Open { // its charge does not say yet
			l.Pool = known.in.Offer.Pool
		}
		b.Lines = append(b.Lines, BillLine{
			Lease: l.Lease, Pool: l.Pool, State: string(l.Phase), From: l.From, To: l.To, Use: l.Use,
			Segments: l.Segments, Amount: l.Amount, Credit: l.Credit, Finality: l.Finality,
		})
	}
	return b
}

func (s *Server) offers(q Query) []Offer {
	out := []Offer{}
	for _, o := range s.cfg.Offers() {
		if (q.GPU == "" || o.GPU.Model == q.GPU) && (q.Region == "" || o.Pool.Region == q.Region) {
			out = append(out, o)
		}
	}
	return out
}

// instances joins our leases with what every seller lists.
func (s *Server) instances(ctx context.Context) ([]Instance, error) {
	lists := map[string]provider.Listing{}
	metered := map[events.InstanceID]events.MicroUSD{}
	for name, p := range s.cfg.Sellers {
		l, err := p.List(ctx)
		if err != nil {
			return nil, &Problem{Code: "unavailable", Message: fmt.Sprintf("seller %s cannot be asked for its machines: %v", name, err), Remedy: "try again"}
		}
		lists[name] = l
		if meter, ok := provider.As[provider.Meter](p); ok {
			for _, i := range l.Instances {
				if r, err := meter.Metered(ctx, i.ID); err == nil {
					metered[i.ID] = r.Amount
				}
			}
		}
	}
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	out := []Instance{}
	for _, l := range s.model.leases {
		if l.inst == "" && l.state != "intended" && l.state != "unknown" && l.state != "terminating" {
			continue
		}
		i := Instance{Lease: l.id, Instance: l.inst, Pool: l.in.Offer.Pool, State: l.state, Price: l.price, Since: l.since.Time, Seller: "absent", Metered: metered[l.inst]}
		if have, ok := lists[i.Pool.Seller].Find(string(l.id)); ok {
			i.Seller = string(have.State)
			i.Orphan = l.state == "ended" && have.State != provider.Gone
		}
		out = append(out, i)
	}
	for _, list := range lists {
		for _, have := range list.Instances {
			if _, ours := s.model.leases[events.LeaseID(have.Token)]; ours || have.State == provider.Gone {
				continue
			}
			i := Instance{Lease: events.LeaseID(have.Token), Instance: have.ID, Pool: have.Pool, State: "unknown to us", Seller: string(have.State), Price: have.Price(), Orphan: true, Metered: metered[have.ID]}
			if s.cfg.Mark != "" && have.Labels[bidder.MarkLabel] != s.cfg.Mark {
				i.State, i.Orphan = "another installation's", false
			}
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b Instance) int {
		return strings.Compare(string(a.Lease)+string(a.Instance), string(b.Lease)+string(b.Instance))
	})
	return out, nil
}

func (s *Server) logs(ctx context.Context, q Query) (LogPage, error) {
	j, err := with(s, q.Job, func(r *jobRecord) (events.Aggregate, error) { return r.job.Aggregate, nil })
	if err != nil {
		return LogPage{}, err
	}
	since := q.Since
	if q.After > 0 {
		since = time.Unix(0, int64(q.After))
	}
	// A batch kept while this one is read may be stamped a little earlier: the
	// next page begins before this one ended, and batches carry their line numbers.
	next := uint64(s.cfg.Now().Control.Add(-logOverlap).UnixNano())
	b, err := s.cfg.Logs.ReadLog(ctx, j.Org, events.JobID(j.ID), q.Epoch, since, q.Tail)
	if err != nil {
		return LogPage{}, err
	}
	size := 0
	for i, x := range b {
		for _, l := range x.Lines {
			size += len(l.Text) + 80
		}
		if size > answerLimit && i > 0 {
			last := b[i-1].Lines
			if n := len(last); n > 0 {
				next = uint64(last[n-1].At.UnixNano())
			}
			return LogPage{Batches: b[:i], Next: max(next-uint64(logOverlap), q.After+1), More: true}, nil
		}
	}
	return LogPage{Batches: append([]events.LogBatch{}, b...), Next: next}, nil
}

// logOverlap is how far two pages of a log reach into each other.
const logOverlap = 2 * time.Second
