package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// signals is what the model needs of the bus beside events.Log.
type signals interface {
	WatchSignals(ctx context.Context, handle func(job events.JobID, epoch int, hb events.Heartbeat)) error
}

// model is the read side: every job and lease folded, in memory.
type model struct {
	mu     sync.Mutex
	jobs   map[events.JobID]*jobRecord
	order  []events.JobID // by submission
	leases map[events.LeaseID]*leaseRecord
	seen   uint64         // position of the newest event folded
	passed chan struct{}  // closed and replaced when seen moves
	all    []events.Event // every job, lease and ops event, oldest first
}

type jobRecord struct {
	job       failover.Job
	failovers []events.Failover
	moves     moves // the same, with what was learned since
	commits   map[string]Checkpoint
	names     []string // of commits, oldest first
	rejected  map[string]string
	placed    int
	taken     map[events.LeaseID]bool // machines that their seller took, or warned that it would
	withdrawn int
	heard     int64
	events    []events.Event // its own and its leases'
}

type leaseRecord struct {
	id    events.LeaseID
	state string
	in    events.LeaseIntended
	inst  events.InstanceID
	price events.PerInstanceHour
	since events.Event
}

func newModel() *model {
	return &model{jobs: map[events.JobID]*jobRecord{}, passed: make(chan struct{}), leases: map[events.LeaseID]*leaseRecord{}}
}

func (m *model) record(id events.JobID) *jobRecord {
	r, ok := m.jobs[id]
	if !ok {
		r = &jobRecord{commits: map[string]Checkpoint{}, rejected: map[string]string{}, taken: map[events.LeaseID]bool{}}
		m.jobs[id] = r
	}
	return r
}

// fold takes one event of the JOBS stream.
func (m *model) fold(_ context.Context, e events.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(e.Position)
	if n := len(m.all); n > 0 && e.Position <= m.all[n-1].Position {
		return nil // delivered twice
	}
	switch e.Aggregate.Kind {
	case "lease":
		m.all = append(m.all, e)
		m.foldLease(e)
		return nil
	case "ops":
		m.all = append(m.all, e)
		return nil
	}
	id := events.JobID(e.Aggregate.ID)
	r := m.record(id)
	before := r.job.Sequence
	if r.job = failover.Fold(r.job, e); r.job.Sequence == before {
		return nil // none of this job's: ids come from clients
	}
	m.all = append(m.all, e)
	r.events = append(r.events, e)
	r.moves.fold(e)
	switch f := e.Fact.(type) {
	case events.JobSubmitted:
		m.order = append(m.order, id)
	case events.JobPlaced:
		r.placed++
	case events.JobNoticed:
		r.taken[f.Lease] = true
	case events.JobNoticeWithdrawn:
		delete(r.taken, f.Lease)
		r.withdrawn++
	case events.JobCommitted:
		if _, seen := r.commits[f.Checkpoint.Name]; !seen && slices.ContainsFunc(r.job.Commits, func(c events.Checkpoint) bool { return c.Name == f.Checkpoint.Name }) {
			r.names = append(r.names, f.Checkpoint.Name)
			r.commits[f.Checkpoint.Name] = Checkpoint{Checkpoint: f.Checkpoint, Committed: e.Time, SaveMS: f.SaveMS, UploadMS: f.UploadMS}
		}
	case events.JobCheckpointRejected:
		r.rejected[f.Checkpoint.Name] = f.Path + ": " + f.Detail
	case events.JobFailedOver:
		r.failovers = append(r.failovers, f.Record)
	}
	return nil
}

func (m *model) foldLease(e events.Event) {
	id := events.LeaseID(e.Aggregate.ID)
	l, ok := m.leases[id]
	if !ok {
		l = &leaseRecord{id: id}
		m.leases[id] = l
	}
	r := m.record(id.Job())
	r.events = append(r.events, e)
	t, _ := events.TypeOf(e.Fact)
	l.state, l.since = t.Event, e
	switch f := e.Fact.(type) {
	case events.LeaseIntended:
		l.in = f
	case events.LeaseLaunched:
		l.inst, l.price = f.Instance, f.Price
	case events.LeaseTerminating:
		if f.Instance != "" { // no launch named it
			l.inst = f.Instance
		}
	case events.LeaseEnded:
		if f.EndedBy == "seller" {
			r.taken[id] = true
		}
	}
}

// heartbeat remembers the newest step told.
func (m *model) heartbeat(job events.JobID, epoch int, hb events.Heartbeat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.jobs[job]; ok && r.job.Epoch == epoch {
		r.heard = hb.Step
	}
}

// find resolves what a person typed: an id, a unique prefix of one, or the name of exactly one job.
func (m *model) find(s string) (*jobRecord, *Problem) {
	if r, ok := m.jobs[events.JobID(s)]; ok && r.job.ID != "" {
		return r, nil
	}
	var hits []*jobRecord
	for _, id := range m.order {
		r := m.jobs[id]
		if (s != "" && r.job.Spec.Name == s) || (len(s) >= 4 && strings.HasPrefix(string(id), strings.ToLower(s))) {
			hits = append(hits, r)
		}
	}
	switch len(hits) {
	case 1:
		return hits[0], nil
	case 0:
		return nil, &Problem{Code: "not-found", Message: fmt.Sprintf("no job is called %.80q", s), Remedy: "'spotferry job ls' lists them"}
	}
	return nil, &Problem{Code: "not-found", Message: fmt.Sprintf("%d jobs are called %.80q", len(hits), s), Remedy: "use the id, as 'spotferry job ls' shows it"}
}

func (r *jobRecord) view(money *ledger.State) Job {
	j := r.job
	v := Job{
		ID: j.ID, Name: j.Spec.Name, Status: j.Status(), Org: j.Attribution.Org, Team: j.Attribution.Team,
		Project: j.Attribution.Project, Labels: j.Attribution.Labels, By: j.By, Over: j.Over(), Closed: j.Closed,
		ExitCode: j.ExitCode, Epoch: j.Epoch, Epochs: r.placed, Committed: j.Step(), Steps: j.Spec.Policy.Work.Steps,
		Failovers: j.Failovers, Reclaims: len(r.taken) + r.withdrawn, Budget: j.Spec.Policy.Budget,
		Submitted: j.Submitted.Control, Ended: j.Ended, Market: j.Submitted.Market, Deadline: j.Spec.Policy.Deadline,
		Checkpoint: j.Newest(), OpenLeases: j.Open,
	}
	v.Step = max(r.heard, v.Committed)
	switch {
	case j.Over():
		v.Detail = j.Reason
		v.Step = v.Committed
	case j.Phase == failover.Waiting:
		v.Detail, v.RetryAt = j.Wait.Detail, j.Wait.RetryAt
	case j.Phase == failover.Finishing:
		v.Detail = j.Stopping.Reason
	case j.Wait.Reason != "": // it still runs where it has to leave
		v.Detail, v.RetryAt = j.Wait.Reason+": "+j.Wait.Detail, j.Wait.RetryAt
	}
	if j.Current != nil && !j.Closed {
		side := j.Current.Side()
		v.Machine = &side
	}
	for _, f := range r.failovers {
		v.LostSteps += f.LostSteps
		v.LostCost += f.LostCost
	}
	if money != nil {
		a, s := money.Account(j.ID), money.Statement(j.ID)
		v.Spent, v.Reserved, v.OnDemand = a.Spent, a.Reserved, s.OnDemand
		if a.Set {
			v.Budget = a.Limit
		}
		v.Closed = j.Closed && a.Reserved == 0 // the last charge comes a moment after the last machine
	}
	return v
}
