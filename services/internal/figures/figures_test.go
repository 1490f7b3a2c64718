package figures

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

var t0 = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// happen gives a set events and returns what it exports then.
func happen(t *testing.T, set Set, now time.Time, all ...events.Event) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewRegistry()
	follows := set(Config{Clock: trace.RealTime(), Now: func() time.Time { return now }, Registerer: r, Logger: zap.NewNop()})
	for _, e := range all {
		for _, f := range follows {
			f.take(e)
		}
	}
	return r
}

func lease(id string, at time.Time, f events.Fact) events.Event {
	return events.Event{Aggregate: events.LeaseAggregate("acme", events.LeaseID(id)), Time: at, Fact: f}
}

func job(at time.Time, f events.Fact) events.Event {
	return events.Event{Aggregate: events.JobAggregate("acme", "j"), Time: at, Fact: f}
}

func posting(at time.Time, f events.Fact) events.Event {
	return events.Event{Aggregate: events.MoneyAggregate("acme"), Time: at, Fact: f}
}

func compare(t *testing.T, r *prometheus.Registry, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestLeasesAreCountedByWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	pool := events.Pool{Seller: "local", Region: "r", Zone: "z", InstanceType: "v100x1", Capacity: events.Spot, Gang: 1}
	in := events.LeaseIntended{Offer: events.Offer{Pool: pool}}
	r := happen(t, Leases, t0,
		lease("j-1-1", t0, in), lease("j-1-1", t0, events.LeaseRefused{Kind: "no_capacity"}),
		lease("j-1-2", t0, in), lease("j-1-2", t0, events.LeaseLaunched{}), job(t0, events.JobNoticed{Lease: "j-1-2"}),
		lease("j-1-2", t0, events.LeaseEnded{EndedBy: "seller"}),
		lease("j-2-1", t0, in), lease("j-2-1", t0, events.LeaseUnknown{}), lease("j-2-1", t0, events.LeaseLaunched{}),
		lease("j-2-2", t0, events.LeaseDeclined{Reason: "waiting-for-price"}),
		lease("j-2-3", t0, events.LeaseTerminating{Instance: "i", Pool: pool}),
	)
	compare(t, r, `
# HELP spotferry_bids_total Purchases by result: launched, unknown, or the kind of the refusal.
# TYPE spotferry_bids_total counter
spotferry_bids_total{result="launched",seller="local",type="spot"} 2
spotferry_bids_total{result="no_capacity",seller="local",type="spot"} 1
spotferry_bids_total{result="unknown",seller="local",type="spot"} 1
# HELP spotferry_instances Leases that may have a machine, by state.
# TYPE spotferry_instances gauge
spotferry_instances{seller="local",state="intended",type="spot"} 0
spotferry_instances{seller="local",state="running",type="spot"} 1
spotferry_instances{seller="local",state="terminating",type="spot"} 1
spotferry_instances{seller="local",state="unknown",type="spot"} 0
# HELP spotferry_orphans_total Machines of ours that no lease owned, given back.
# TYPE spotferry_orphans_total counter
spotferry_orphans_total{seller="local"} 1
# HELP spotferry_reclaims_total Machines that their seller took back, with a notice or without.
# TYPE spotferry_reclaims_total counter
spotferry_reclaims_total{noticed="true",seller="local",type="spot"} 1
`, "spotferry_bids_total", "spotferry_instances", "spotferry_orphans_total", "spotferry_reclaims_total")
}

func TestTheLedgersLagIsTheOldestUnchargedEnd(t *testing.T) {
	t.Parallel()
	all := []events.Event{
		posting(t0, events.BudgetSet{Job: "j", Limit: 10_000_000}),
		lease("j-1-1", t0, events.LeaseEnded{}), lease("j-1-2", t0.Add(time.Minute), events.LeaseEnded{}),
		posting(t0, events.MoneySettled{Job: "j", Lease: "j-1-1", Amount: 2_500_000, OnDemand: 4_000_000, Pool: events.Pool{Seller: "local", Capacity: events.Spot}}),
	}
	want := `
# HELP spotferry_budget_spent_ratio Spent of a job's budget, of jobs that are not closed.
# TYPE spotferry_budget_spent_ratio gauge
spotferry_budget_spent_ratio{job="j"} 0.25
# HELP spotferry_ledger_lag_seconds Age of the oldest end of a machine that is not charged yet; 0: there is none.
# TYPE spotferry_ledger_lag_seconds gauge
spotferry_ledger_lag_seconds 60
# HELP spotferry_savings_dollars What the charged time would have cost on demand, less what it did.
# TYPE spotferry_savings_dollars gauge
spotferry_savings_dollars 1.5
# HELP spotferry_spend_dollars_total What was charged.
# TYPE spotferry_spend_dollars_total counter
spotferry_spend_dollars_total{seller="local",type="spot"} 2.5
`
	names := []string{"spotferry_budget_spent_ratio", "spotferry_ledger_lag_seconds", "spotferry_savings_dollars", "spotferry_spend_dollars_total"}
	compare(t, happen(t, Money, t0.Add(2*time.Minute), all...), want, names...)
	// The two streams are read in any order.
	compare(t, happen(t, Money, t0.Add(2*time.Minute), all[0], all[3], all[1], all[2]), want, names...)
}

func TestACheckpointsAgeIsOfRunningJobsOnly(t *testing.T) {
	t.Parallel()
	running := []events.Event{
		job(t0, events.JobPlaced{Epoch: 1}),
		job(t0.Add(time.Minute), events.JobCommitted{Epoch: 1, Checkpoint: events.Checkpoint{Bytes: 100}, SaveMS: 500}),
		job(t0.Add(2*time.Minute), events.JobPlaced{Epoch: 2}),
		job(t0.Add(3*time.Minute), events.JobCommitted{Epoch: 1, Checkpoint: events.Checkpoint{Bytes: 100}}), // void
	}
	const head = "# HELP spotferry_checkpoint_age_seconds Time since the newest commit of a running job, or since its start.\n# TYPE spotferry_checkpoint_age_seconds gauge\n"
	silent := func(c Config) []follow {
		return checkpointsBy(c, func(context.Context, natsbus.Place) (events.Heartbeat, bool, error) {
			return events.Heartbeat{}, false, nil
		})
	}
	r := happen(t, silent, t0.Add(4*time.Minute), running...)
	compare(t, r, head+"spotferry_checkpoint_age_seconds{job=\"j\"} 180\n"+`
# HELP spotferry_checkpoint_bytes_total Size of what was committed.
# TYPE spotferry_checkpoint_bytes_total counter
spotferry_checkpoint_bytes_total 100
`, "spotferry_checkpoint_age_seconds", "spotferry_checkpoint_bytes_total")
	r = happen(t, silent, t0.Add(4*time.Minute), append(running, job(t0, events.JobEnded{}))...)
	compare(t, r, "", "spotferry_checkpoint_age_seconds")
}

func TestWhatIsNotShippedIsOfRunningJobsOnly(t *testing.T) {
	t.Parallel()
	told := func(c Config) []follow {
		return checkpointsBy(c, func(_ context.Context, at natsbus.Place) (events.Heartbeat, bool, error) {
			return events.Heartbeat{Unsent: 3000, FlushMS: 1500}, at == natsbus.Place{Org: "acme", Job: "j", Epoch: 2}, nil
		})
	}
	running := []events.Event{job(t0, events.JobPlaced{Epoch: 1}), job(t0, events.JobPlaced{Epoch: 2})}
	names := []string{"spotferry_checkpoint_unshipped_bytes", "spotferry_checkpoint_flush_seconds"}
	compare(t, happen(t, told, t0, running...), `
# HELP spotferry_checkpoint_flush_seconds How long what is unshipped would take with all of the machine's link, as after a notice.
# TYPE spotferry_checkpoint_flush_seconds gauge
spotferry_checkpoint_flush_seconds{job="j"} 1.5
# HELP spotferry_checkpoint_unshipped_bytes Of complete checkpoints of a running job, at most so much is not in the store.
# TYPE spotferry_checkpoint_unshipped_bytes gauge
spotferry_checkpoint_unshipped_bytes{job="j"} 3000
`, names...)
	compare(t, happen(t, told, t0, running[0]), "", names...)
	compare(t, happen(t, told, t0, append(running, job(t0, events.JobPaused{}))...), "", names...)
}
