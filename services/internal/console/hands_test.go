package console

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

func pools(zones ...string) (out []events.Pool) {
	for _, z := range zones {
		out = append(out, offer(z).Pool)
	}
	return out
}

// decisions are the facts that operations left, with who is in them.
func (d *desk) decisions() (out []events.Fact) {
	for _, e := range d.log.Events(events.FilterOps) {
		out = append(out, e.Fact)
	}
	return out
}

func TestHoldingAndReleasing(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		o, p := ask[Ops](d, DoHold, HoldRequest{Pools: pools("a", "z"), Reason: "slow disks"})
		if p != nil || len(o.Holds) != 2 || o.Holds[0].By != "ann" || o.Holds[0].Reason != "slow disks" || o.Holds[0].Pool == nil {
			t.Fatalf("%+v, %v", o, p)
		}
		if o, p = ask[Ops](d, DoHold, HoldRequest{Seller: "local", Reason: "reclaims"}); p != nil || len(o.Holds) != 3 || o.Holds[0].Pool != nil {
			t.Fatalf("the seller too: %+v, %v", o, p)
		}
		if _, p = ask[Ops](d, DoHold, HoldRequest{Seller: "local", Reason: "again"}); p != nil || len(d.decisions()) != 3 {
			t.Errorf("what is held already: %v, %d events", p, len(d.decisions()))
		}
		all, _ := ask[[]Pool](d, GetPools, nil)
		if len(all) != 3 || all[0].Held == nil || all[0].Held.Pool != nil || all[1].Held == nil || all[2].Quoted || all[2].Held == nil {
			t.Errorf("pools: %+v", all)
		}
		sellers, _ := ask[[]Seller](d, GetSellers, nil)
		if len(sellers) != 1 || sellers[0].Held == nil || sellers[0].Holds != 2 || sellers[0].Pools != 2 || sellers[0].Machines != 1 {
			t.Errorf("sellers: %+v", sellers)
		}
		if _, p = ask[Ops](d, DoRelease, HoldRequest{Pools: pools("b"), Reason: "fine"}); code(p) != "conflict" || !strings.Contains(p.Remedy, "seller release local") {
			t.Errorf("a pool that is held by its seller's hold only: %v", p)
		}
		if o, p = ask[Ops](d, DoRelease, HoldRequest{Seller: "local", Reason: "fine"}); p != nil || len(o.Holds) != 2 {
			t.Errorf("%+v, %v", o, p)
		}
		if _, p = ask[Ops](d, DoRelease, HoldRequest{Seller: "local", Reason: "fine"}); p != nil || len(d.decisions()) != 4 {
			t.Errorf("what is not held: %v, %d events", p, len(d.decisions()))
		}
		if _, p = ask[Ops](d, DoRelease, HoldRequest{Pools: pools("a", "z"), Reason: "fine"}); p != nil || len(d.decisions()) != 6 {
			t.Errorf("%v, %d events", p, len(d.decisions()))
		}
		if f, ok := d.decisions()[5].(events.OpsReleased); !ok || f.By != "ann" || f.Reason != "fine" || f.Pool.Zone != "north-z" {
			t.Errorf("on record: %+v", d.decisions()[5])
		}
	})
}

func TestWhatCannotBeHeld(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		half, elsewhere := offer("a").Pool, offer("a").Pool
		half.Zone, elsewhere.Seller = "", "nobody"
		for name, tc := range map[string]struct {
			r    HoldRequest
			want string
		}{
			"nothing":                   {HoldRequest{}, "invalid"},
			"a pool without its zone":   {HoldRequest{Pools: []events.Pool{half}}, "invalid"},
			"too many pools":            {HoldRequest{Pools: make([]events.Pool, mostHolds+1)}, "invalid"},
			"a seller that is not here": {HoldRequest{Seller: "nobody"}, "not-found"},
			"a pool of one":             {HoldRequest{Pools: []events.Pool{elsewhere}}, "not-found"},
		} {
			tc.r.Reason = "because"
			if _, p := ask[Ops](d, DoHold, tc.r); code(p) != tc.want || p.Remedy == "" {
				t.Errorf("%s: %v", name, p)
			}
		}
		if n := len(d.decisions()); n != 0 {
			t.Errorf("%d events", n)
		}
	})
}

func TestFreezingAndUnfreezing(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		open := d.lease(waiting.Lease(1, 2), events.LeaseIntended{Job: waiting, Epoch: 1, N: 2, Offer: offer("a")})
		o, p := askAs[Ops](d, Operator, "ann", DoFreeze, FreezeRequest{Reason: " incident 7 "})
		if p != nil || o.Freeze == nil || o.Freeze.By != "ann" || o.Freeze.Reason != "incident 7" {
			t.Fatalf("%+v, %v", o, p)
		}
		if !slices.Equal(o.UnderWay, []events.LeaseID{events.LeaseID(open.Aggregate.ID)}) {
			t.Errorf("under way: %v", o.UnderWay)
		}
		if o, p = askAs[Ops](d, Operator, "bob", DoFreeze, FreezeRequest{Reason: "me too"}); p != nil || o.Freeze.By != "ann" {
			t.Errorf("the first stands: %+v, %v", o, p)
		}
		if _, p = askAs[Ops](d, Operator, "bob", DoUnfreeze, FreezeRequest{Reason: "enough"}); code(p) != "forbidden" || !strings.Contains(p.Message, "the freeze of ann") {
			t.Errorf("another's: %v", p)
		}
		if o, p = askAs[Ops](d, Operator, "ann", DoUnfreeze, FreezeRequest{Reason: "over"}); p != nil || o.Freeze != nil {
			t.Errorf("one's own: %+v, %v", o, p)
		}
		if _, p = askAs[Ops](d, Operator, "bob", DoFreeze, FreezeRequest{Reason: "again"}); p != nil {
			t.Error(p)
		}
		if o, p = askAs[Ops](d, Admin, "eve", DoUnfreeze, FreezeRequest{Reason: "over"}); p != nil || o.Freeze != nil {
			t.Errorf("an admin any: %+v, %v", o, p)
		}
		if f := d.decisions(); len(f) != 4 || f[3] != (events.OpsUnfrozen{Reason: "over", By: "eve"}) {
			t.Errorf("on record: %+v", f)
		}
		synctest.Wait()
		page, _ := ask[struct {
			Entries []struct{ Type, Subject, Summary string } `json:"entries"`
		}](d, GetEvents, Query{Types: []string{"ops"}})
		if len(page.Entries) != 4 || page.Entries[0].Subject != "ops" || page.Entries[0].Summary != "nothing is bought any more, by ann: incident 7" {
			t.Errorf("in the timeline: %+v", page.Entries)
		}
	})
}

func TestPausingResumingMovingAndDrilling(t *testing.T) {
	running := events.JobID("01jx3kr0zr5v9m2c7t4b6n0d9e")
	served(t, func(c *Config) {
		c.Plan = func(context.Context, SubmitRequest) (Plan, error) {
			return Plan{Decision: events.Decision{Chosen: 0, Inputs: events.Inputs{RestartS: 600, TeardownS: 120, HorizonS: 3600, Scale: 60},
				Candidates: []events.Candidate{{Offer: offer("b"), Max: 2 * events.DollarPerHour}}}}, nil
		}
	}, func(t *testing.T, d *desk) {
		cost, p := ask[Drill](d, GetDrill, DrillRequest{Job: string(waiting)})
		if p != nil || cost.Possible || !strings.Contains(cost.Why, "only a running one") {
			t.Errorf("of a job that waits: %+v, %v", cost, p)
		}
		if _, p := ask[Job](d, DoDrill, DrillRequest{Job: string(waiting), NoNotice: true, Reason: "rehearsal"}); code(p) != "conflict" {
			t.Errorf("a drill of a job that waits: %v", p)
		}
		asked := submit("running")
		asked.Spec.Policy.Checkpoint.Signal = "SIGUSR1"
		d.at(60, running, asked)
		l := d.buy(61, running, 1, "d")
		d.at(63, running, failover.Stepped{JobStarted: events.JobStarted{Epoch: 1, Lease: l, Step: 1}})
		d.at(64, running, failover.Committed{JobCommitted: events.JobCommitted{Epoch: 1, Lease: l, Checkpoint: checkpointAt(1, 10)}})
		d.now = t0.Add(94 * time.Second) // 30 s, half a market hour, since then
		synctest.Wait()

		// Ten market minutes of a second machine at $1/h, and half an hour of the first one's work.
		cost, p = ask[Drill](d, GetDrill, DrillRequest{Job: "running", NoNotice: true})
		if p != nil || !cost.Possible || cost.To.Zone != "north-b" || cost.Machine != 166_667 || cost.Lost != 500_000 || cost.Expected != 666_667 || cost.LostS != 1800 {
			t.Errorf("without notice: %+v, %v", cost, p)
		}
		if cost, p = ask[Drill](d, GetDrill, DrillRequest{Job: "running", DeadlineS: 30}); p != nil || !cost.Saves || cost.Lost != 0 || cost.Expected != 166_667 || cost.Most != 400_000 {
			t.Errorf("with notice: %+v, %v", cost, p)
		}
		for name, r := range map[string]DrillRequest{
			"no notice that has a deadline": {NoNotice: true, DeadlineS: 30}, "no deadline": {}, "a day of notice": {DeadlineS: 86400}, "one that is over": {DeadlineS: -1},
		} {
			r.Job, r.Reason = "running", "rehearsal"
			if _, p := ask[Job](d, DoDrill, r); code(p) != "invalid" {
				t.Errorf("%s: %v", name, p)
			}
		}
		if _, p = ask[Job](d, DoDrill, DrillRequest{Job: "running", DeadlineS: 30, Reason: "rehearsal"}); p != nil {
			t.Fatal(p)
		}
		drilled := factsOf[events.JobDrilled](d, running)
		if len(drilled) != 1 || drilled[0].By != "ann" || drilled[0].Reason != "rehearsal" || !drilled[0].Deadline.Equal(d.now.Add(30*time.Second)) {
			t.Errorf("on record: %+v", drilled)
		}
		if _, p = ask[Job](d, DoMigrate, JobRequest{Job: "running", Reason: "better zone"}); code(p) != "conflict" {
			t.Errorf("a move during a drill: %v", p)
		}
		if v, p := ask[Job](d, DoPause, JobRequest{Job: "running", Reason: "for the night"}); p != nil || v.ID != running {
			t.Errorf("%+v, %v", v, p)
		}
		if got := factsOf[events.JobPausing](d, running); len(got) != 1 || got[0].By != "ann" || got[0].Detail != "for the night" {
			t.Errorf("on record: %+v", got)
		}
		if v, p := ask[Job](d, DoPause, JobRequest{Job: string(waiting), Reason: "too dear"}); p != nil || !strings.HasPrefix(v.Status, "paused") {
			t.Errorf("a job that waits pauses at once: %+v, %v", v, p)
		}
		if _, p := ask[Job](d, DoResume, JobRequest{Job: string(waiting), Reason: "cheap again"}); p != nil {
			t.Error(p)
		}
		if got := factsOf[events.JobResumed](d, waiting); len(got) != 1 || got[0] != (events.JobResumed{By: "ann", Reason: "cheap again"}) {
			t.Errorf("on record: %+v", got)
		}
		for _, v := range []Verb{DoPause, DoResume, DoMigrate} {
			if _, p := ask[Job](d, v, JobRequest{Job: "tuned", Reason: "late"}); code(p) != "conflict" {
				t.Errorf("%s of a job that has ended: %v", v, p)
			}
			if _, p := ask[Job](d, v, JobRequest{Job: "nobody", Reason: "late"}); code(p) != "not-found" {
				t.Errorf("%s of nobody's job: %v", v, p)
			}
		}
	})
}

func factsOf[F any](d *desk, job events.JobID) (out []F) {
	for _, e := range d.log.Events(events.FilterJobs) {
		if f, ok := e.Fact.(F); ok && e.Aggregate.ID == string(job) {
			out = append(out, f)
		}
	}
	return out
}

func TestABudgetIsSetAtAnyTimeUntilTheEnd(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		if b, p := ask[[]Budget](d, GetBudget, Query{Job: string(waiting)}); p != nil || len(b) != 1 || b[0].Limit != 10*events.Dollar || len(b[0].Limits) != 1 || b[0].Limits[0].Reason != "submission" {
			t.Fatalf("before anything was bought: %+v, %v", b, p)
		}
		b, p := ask[Budget](d, DoBudget, BudgetRequest{Job: string(leaving), Limit: 300_000, Reason: "too dear"})
		if p != nil || b.Limit != 300_000 || b.Reserved != 500_000 || b.Free != -200_000 || b.Limits[0].By != "ann" || b.Limits[0].Reason != "too dear" {
			t.Errorf("lowered below what is reserved: %+v, %v", b, p)
		}
		if v, _ := ask[Job](d, GetJob, Query{Job: string(leaving)}); v.Budget != 300_000 {
			t.Errorf("the job shows %s", v.Budget)
		}
		if b, p = ask[Budget](d, DoBudget, BudgetRequest{Job: string(leaving), Limit: 20 * events.Dollar, Reason: "worth it"}); p != nil || len(b.Limits) != 2 {
			t.Errorf("raised: %+v, %v", b, p)
		}
		for name, tc := range map[string]struct {
			r    BudgetRequest
			want string
		}{
			"nothing":           {BudgetRequest{Job: string(leaving)}, "invalid"},
			"less than nothing": {BudgetRequest{Job: string(leaving), Limit: -1}, "invalid"},
			"after its end":     {BudgetRequest{Job: "tuned", Limit: events.Dollar}, "conflict"},
			"of nobody's job":   {BudgetRequest{Job: "nobody", Limit: events.Dollar}, "not-found"},
		} {
			tc.r.Reason = "because"
			if _, p := ask[Budget](d, DoBudget, tc.r); code(p) != tc.want {
				t.Errorf("%s: %v", name, p)
			}
		}
		if all, _ := ask[[]Budget](d, GetBudget, nil); len(all) != 3 || all[0].Spent != 500_000 {
			t.Errorf("%+v", all)
		}
		_ = d.money.View(t.Context(), org, func(st *ledger.State) {
			if l := st.Limits(leaving); len(l) != 2 {
				t.Errorf("on record: %+v", l)
			}
		})
	})
}

func TestMoreMoneyResumesAJobThatWasPausedForWantOfIt(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		d.at(50, "poor", failover.Submit{By: "ann", Attribution: events.Attribution{Org: org}, Spec: events.JobSpec{Name: "poor", Policy: events.Policy{Budget: events.Dollar, OnBudget: "pause"}}})
		e := d.lease(events.JobID("poor").Lease(1, 1), events.LeaseDeclined{Job: "poor", Epoch: 1, N: 1, Reason: string(events.OutOfBudget), Detail: "nothing is free"})
		d.at(51, "poor", failover.Declined{Event: e})
		synctest.Wait()
		if v, _ := ask[Job](d, GetJob, Query{Job: "poor"}); v.Status != string(events.PausedByBudget) {
			t.Fatalf("status %s", v.Status)
		}
		if _, p := ask[Budget](d, DoBudget, BudgetRequest{Job: "poor", Limit: 5 * events.Dollar, Reason: "worth it"}); p != nil {
			t.Fatal(p)
		}
		if got := factsOf[events.JobResumed](d, "poor"); len(got) != 1 || got[0].By != failover.ByBudget || !strings.Contains(got[0].Reason, "ann has raised it to $5.00") {
			t.Errorf("%+v", got)
		}
	})
}

func TestOnlyMachinesOfOursThatNobodyWantsAreReapable(t *testing.T) {
	ours, theirs := map[string]string{bidder.MarkLabel: "sf-1"}, map[string]string{bidder.MarkLabel: "sf-2"}
	served(t, func(c *Config) { c.Mark = "sf-1" }, func(t *testing.T, d *desk) {
		d.lease(waiting.Lease(1, 2), events.LeaseIntended{Job: waiting, Epoch: 1, N: 2, Offer: offer("a")})
		d.seller.list = provider.Listing{Complete: true, Instances: []provider.Instance{
			{ID: "i-c", Token: string(leaving.Lease(1, 1)), State: provider.Running, Labels: ours},
			{ID: "i-twin", Token: string(leaving.Lease(1, 1)), State: provider.Running, Labels: ours},
			{ID: "i-ended", Token: string(tuned.Lease(1, 1)), State: provider.Running, Labels: ours},
			{ID: "i-denied", Token: string(waiting.Lease(1, 1)), State: provider.Running, Labels: ours},
			{ID: "i-nobody", Token: hostile, State: provider.Pending, Labels: ours},
			{ID: "i-buying", Token: string(waiting.Lease(1, 2)), State: provider.Pending, Labels: ours},
			{ID: "i-gone", Token: "x", State: provider.Gone, Labels: ours},
			{ID: "i-theirs", Token: "x", State: provider.Running, Labels: theirs},
			{ID: "i-bare", Token: "x", State: provider.Running},
		}}
		synctest.Wait()
		list, p := ask[[]Reapable](d, GetReapable, nil)
		var ids []string
		for _, r := range list {
			ids = append(ids, string(r.Instance))
			if r.Why == "" {
				t.Errorf("%s without a reason", r.Instance)
			}
		}
		if want := "i-denied i-ended i-nobody i-twin"; p != nil || strings.Join(ids, " ") != want {
			t.Errorf("reapable are %v, want %s; %v", ids, want, p)
		}
		for _, id := range []events.InstanceID{"i-c", "i-buying", "i-theirs", "i-bare", "i-gone", "i-none"} {
			if _, p := ask[[]Reapable](d, DoReap, ReapRequest{Instances: []events.InstanceID{"i-twin", id}, Reason: "tidy"}); code(p) != "conflict" {
				t.Errorf("%s: %v", id, p)
			}
		}
		if _, p := ask[[]Reapable](d, DoReap, ReapRequest{Reason: "tidy"}); code(p) != "invalid" {
			t.Errorf("none: %v", p)
		}
		if got, p := ask[[]Reapable](d, DoReap, ReapRequest{Instances: []events.InstanceID{"i-twin", "i-nobody"}, Reason: "tidy"}); p != nil || len(got) != 2 {
			t.Errorf("%+v, %v", got, p)
		}
		if f := d.decisions(); len(f) != 1 || f[0].(events.OpsReapRequested).By != "ann" || len(f[0].(events.OpsReapRequested).Instances) != 2 {
			t.Errorf("on record: %+v", f)
		}
		all, _ := ask[[]Instance](d, GetInstances, nil)
		for _, i := range all {
			if foreign := i.Instance == "i-theirs" || i.Instance == "i-bare"; foreign && (i.Orphan || i.State != "another installation's") {
				t.Errorf("%+v", i)
			}
		}
	})
	served(t, nil, func(t *testing.T, d *desk) { // without a mark nothing can be told to be ours
		if list, p := ask[[]Reapable](d, GetReapable, nil); p != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, p)
		}
	})
}

func TestEventsAreFilteredByTypeAndTimeWithoutLosingTheirPlace(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		for name, tc := range map[string]struct {
			q     Query
			types string
		}{
			"a whole family":    {Query{Types: []string{"lease"}, Job: "tuned"}, "lease.intended lease.launched lease.ended lease.intended lease.launched lease.ended"},
			"one type":          {Query{Types: []string{"job.committed"}}, "job.committed job.committed"},
			"no part of a word": {Query{Types: []string{"job.commit", "job.note"}}, ""},
			"any of several":    {Query{Types: []string{"job.noticed", "job.notice-withdrawn"}, Job: "tuned"}, "job.noticed job.notice-withdrawn"},
			"since":             {Query{Types: []string{"job.submitted"}, Since: t0.Add(30 * time.Second)}, "job.submitted job.submitted"},
			"until":             {Query{Types: []string{"job.submitted"}, Until: t0.Add(29 * time.Second)}, "job.submitted"},
		} {
			var got []string
			for q, more := tc.q, true; more; {
				q.Limit = 2
				page, p := ask[struct {
					Entries []struct{ Type string } `json:"entries"`
					Next    uint64                  `json:"next"`
					More    bool                    `json:"more"`
				}](d, GetEvents, q)
				if p != nil {
					t.Fatal(p)
				}
				for _, e := range page.Entries {
					got = append(got, e.Type)
				}
				q.After, more = page.Next, page.More
			}
			if s := strings.Join(got, " "); s != tc.types {
				t.Errorf("%s: %s, want %s", name, s, tc.types)
			}
		}
	})
}

func TestATrainerIsAskedToSaveOnlyBySignalsThatItSurvives(t *testing.T) {
	t.Parallel()
	for signal, want := range map[string]bool{"": false, "SIGUSR1": true, "SIGRTMIN": true, "SIGTERM": false, "SIGINT": false} {
		if got := savesWhenAsked(signal); got != want {
			t.Errorf("%q: %v", signal, got)
		}
	}
}
