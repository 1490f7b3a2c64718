package console

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// append puts a fact behind a job's newest event, as whoever learns something later does.
func (d *desk) append(s int, job events.JobID, f events.Fact) events.Event {
	d.t.Helper()
	d.now = t0.Add(time.Duration(s) * time.Second)
	agg := events.JobAggregate(org, job)
	evs, err := d.log.Read(d.t.Context(), agg, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	last := evs[len(evs)-1]
	e, err := events.Follow(agg, &last, f)
	if err == nil {
		e.Time = d.now
		e, err = d.log.Append(d.t.Context(), last.Position, e)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return e
}

// choose decides as the bidder would at this moment.
func (d *desk) choose(offers ...events.Offer) events.Decision {
	s := bidder.Situation{Now: d.moment(), Spec: submit("x").Spec, Inputs: events.Inputs{
		WorkLeftS: 3600, TimeLeftS: -1, WindowS: -1, Budget: 10 * events.Dollar, CommitMS: -1, HorizonS: 600, RetryMS: 60_000, Scale: 60, TeardownS: 60,
	}}
	for _, o := range offers {
		o.Seen, o.Market = d.now, d.moment().Market
		s.Quotes = append(s.Quotes, bidder.Quote{Offer: o, Hazard: 0.1, Life: 5, Stood: time.Hour})
	}
	// As it is after it was written down and read.
	b, err := json.Marshal(bidder.Decide(s))
	var out events.Decision
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

const mover events.JobID = "01jx3kt0zr5v9m2c7t4b6n0d4e"

// move plays a job that loses its machine without a word, waits for another, is
// refused one, and goes on; and what is learned afterwards.
func (d *desk) move() {
	d.at(100, mover, submit("mover"))
	d.pay(events.BudgetSet{Job: mover, Limit: 10 * events.Dollar, By: "ann"})
	a := d.buy(101, mover, 1, "a")
	d.at(103, mover, failover.Stepped{JobStarted: events.JobStarted{Epoch: 1, Lease: a, Step: 1}})
	d.at(104, mover, failover.Committed{JobCommitted: events.JobCommitted{Epoch: 1, Lease: a, Checkpoint: checkpointAt(1, 10), SaveMS: 20, UploadMS: 30}})
	d.end(110, a, "seller")
	d.now = t0.Add(111 * time.Second)
	declined := d.lease(mover.Lease(2, 1), events.LeaseDeclined{Job: mover, Epoch: 2, N: 1, Reason: bidder.NoCapacity, Detail: hostile, RetryAt: d.now.Add(time.Second), Decision: d.choose()})
	d.at(111, mover, failover.Declined{Event: declined})
	d.now = t0.Add(115 * time.Second)
	d.lease(mover.Lease(2, 2), events.LeaseIntended{Job: mover, Epoch: 2, N: 2, Purpose: events.ForReplace, Offer: offer("b"), Decision: d.choose(offer("b"), offer("c"))})
	d.now = t0.Add(116 * time.Second)
	d.lease(mover.Lease(2, 2), events.LeaseRefused{Kind: "no_capacity", Code: "ICE"})
	l := mover.Lease(2, 3)
	d.pay(events.MoneyReserved{Job: mover, Lease: l, Amount: 500_000, PaidTill: d.moment().Market.Add(time.Hour)})
	dear := offer("d")
	dear.Price *= 3
	intent := d.lease(l, events.LeaseIntended{Job: mover, Epoch: 2, N: 3, Purpose: events.ForReplace, Offer: offer("c"), Decision: d.choose(offer("c"), dear)})
	d.now = t0.Add(120 * time.Second)
	launched := d.lease(l, events.LeaseLaunched{Instance: "i-c", Price: events.DollarPerHour, Started: d.moment().Market, BootBy: d.now.Add(time.Hour), TookMS: 3900})
	d.at(120, mover, failover.Bought{Lease: l, Intent: intent, Launched: launched})
	d.at(125, mover, failover.Joined{JobJoined: events.JobJoined{Epoch: 2, Lease: l, Key: "U"}})
	d.at(130, mover, failover.Stepped{JobStarted: events.JobStarted{Epoch: 2, Lease: l, From: 10, Step: 11, Before: 35}})
	late := d.append(140, mover, events.JobReleased{Lease: a})
	d.append(141, mover, events.JobFailoverRefined{N: 1, Cause: events.CauseHostFault, Detail: "the host's own log says " + hostile, Evidence: []events.EventID{late.ID, "01jx-gone-7"}})
	loss := 0.5
	d.append(142, mover, events.JobLastWords{Epoch: 1, Lease: a, Lines: []events.LogLine{{At: t0, Stream: "stderr", Text: hostile}}, Heartbeat: &events.Heartbeat{
		Lease: a, State: "training", Step: 25, Loss: &loss, GPUs: []events.GPUSample{{Index: 0, Name: "V100", Util: 0.97, MemUsedMiB: 15_000, MemMiB: 16_384, TempC: 71, PowerW: 240}}, At: t0.Add(109 * time.Second),
	}})
}

func withMove(t *testing.T, f func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.live()
		d.move()
		d.serve(func() { synctest.Wait(); f(t, d) })
	})
}

func TestAFailoversReportSaysAllThatIsKnown(t *testing.T) {
	withMove(t, func(t *testing.T, d *desk) {
		r, p := ask[FailoverReport](d, GetFailover, FailoverQuery{Job: "mover"})
		if p != nil {
			t.Fatal(p)
		}
		if r.Record.Cause != events.CauseReclaim || r.Cause != events.CauseHostFault || len(r.Refined) != 1 || !strings.Contains(r.Detail, "host's own log") || r.Of != 1 {
			t.Errorf("cause %s, now %s, %q, %+v", r.Record.Cause, r.Cause, r.Detail, r.Refined)
		}
		if r.Trace != r.Record.Trace().String() || r.Trace == "" {
			t.Errorf("trace %s", r.Trace)
		}
		var known, gone int
		for _, e := range r.Evidence {
			switch {
			case e.Type == "":
				gone++
			case e.Summary == "" || e.Time.IsZero():
				t.Errorf("evidence %+v", e)
			default:
				known++
			}
		}
		if known < 3 || gone != 1 || r.Evidence[len(r.Evidence)-1].After != r.Refined[0].Event {
			t.Errorf("evidence %+v", r.Evidence)
		}
		if c := r.Choice; c == nil || c.Event != r.Record.Decision || !c.Replay.Same || c.Decision.Chosen < 0 || len(c.Decision.Candidates) != 2 {
			t.Errorf("choice %+v", c)
		}
		var others []string
		for _, c := range r.Considered {
			others = append(others, c.Action+" "+c.Outcome)
		}
		if got := strings.Join(others, ", "); got != "wait declined, buy refused" {
			t.Errorf("considered %s", got)
		}
		if w := r.LastWords; w == nil || w.Lines[0].Text != hostile || w.Heartbeat.GPUs[0].TempC != 71 {
			t.Errorf("last words %+v", w)
		}
		if len(r.Bill) != 2 || r.Bill[0].State != "settled" || r.Bill[1].State != "open" {
			t.Errorf("bill %+v", r.Bill)
		}
	})
}

func TestADecisionIsReplayedToTheSameAnswerOrSaysWhichOther(t *testing.T) {
	withMove(t, func(t *testing.T, d *desk) {
		r, _ := ask[FailoverReport](d, GetFailover, FailoverQuery{Job: "mover"})
		for _, c := range r.Considered {
			if got, p := ask[Choice](d, GetDecision, FailoverQuery{Event: c.Event}); p != nil || !got.Replay.Same || got.Event != c.Event || got.Decision.Action != c.Action {
				t.Errorf("%s: %+v, %v", c.Event, got.Replay, p)
			}
		}
		old, p := ask[FailoverReport](d, GetFailover, FailoverQuery{Job: "tuned", N: 1})
		if p != nil || old.Choice == nil || old.Choice.Replay.Same || !strings.Contains(old.Choice.Replay.Why, "now it would be") {
			t.Errorf("a decision that was never made replays: %+v, %v", old.Choice, p)
		}
		for _, id := range []events.EventID{"", "nobody-1", events.EventID(mover) + "-1", "\x00"} {
			if _, p := ask[Choice](d, GetDecision, FailoverQuery{Event: id}); code(p) != "not-found" {
				t.Errorf("%q: %v", id, p)
			}
		}
	})
}

func TestWhatCannotBeReportedSaysSo(t *testing.T) {
	withMove(t, func(t *testing.T, d *desk) {
		for _, tc := range []struct {
			q    FailoverQuery
			says string
		}{
			{FailoverQuery{Job: "mover", N: 2}, "no failover is number 2"},
			{FailoverQuery{Job: string(waiting)}, "has not failed over"},
			{FailoverQuery{Job: "nobody"}, "no job is called"},
		} {
			for _, v := range []Verb{GetFailover, GetFailoverEvents} {
				if _, p := ask[json.RawMessage](d, v, tc.q); code(p) != "not-found" || !strings.Contains(p.Message, tc.says) {
					t.Errorf("%s %+v: %v", v, tc.q, p)
				}
			}
		}
		for verb, q := range map[Verb]FailoverQuery{GetFailoverList: {Sort: "colour"}, GetFailoverStats: {By: hostile}} {
			if _, p := ask[json.RawMessage](d, verb, q); code(p) != "invalid" || p.Remedy == "" {
				t.Errorf("%s: %v", verb, p)
			}
		}
	})
}

func TestFailoversAreFilteredAndSortedHere(t *testing.T) {
	withMove(t, func(t *testing.T, d *desk) {
		for _, tc := range []struct {
			name string
			q    FailoverQuery
			want string
		}{
			{"oldest first", FailoverQuery{}, "tuned mover"},
			{"the newest, when few are wanted", FailoverQuery{Limit: 1}, "mover"},
			{"what took longest first", FailoverQuery{Sort: "took"}, "mover tuned"},
			{"the longest only", FailoverQuery{Sort: "took", Limit: 1}, "mover"},
			{"by steps lost", FailoverQuery{Sort: "lost"}, "mover tuned"},
			{"by a phase that not all have", FailoverQuery{Sort: "wait"}, "mover tuned"},
			{"by a phase", FailoverQuery{Sort: "boot"}, "mover tuned"},
			{"by the cause as it is known now", FailoverQuery{Cause: string(events.CauseHostFault)}, "mover"},
			{"not by what was believed first", FailoverQuery{Cause: string(events.CauseReclaim)}, "tuned"},
			{"of a seller", FailoverQuery{Seller: "local"}, "tuned mover"},
			{"of a seller that has none", FailoverQuery{Seller: "aws"}, ""},
			{"since a time", FailoverQuery{Since: t0.Add(time.Minute)}, "mover"},
			{"until a time", FailoverQuery{Until: t0.Add(time.Minute)}, "tuned"},
			{"of a job", FailoverQuery{Job: "mover"}, "mover"},
			{"from an offset", FailoverQuery{Offset: 1}, "mover"},
			{"from beyond the end", FailoverQuery{Offset: 7}, ""},
			{"from before the beginning", FailoverQuery{Offset: -7}, "tuned mover"},
		} {
			list, p := ask[FailoverList](d, GetFailoverList, tc.q)
			var got []string
			for _, f := range list.Items {
				got = append(got, f.Name)
			}
			if p != nil || strings.Join(got, " ") != tc.want || list.More || list.Items == nil {
				t.Errorf("%s: %v, more %v, %v; want %s", tc.name, got, list.More, p, tc.want)
			}
		}
	})
}

func TestStatisticsCountEachMoveOnceWithTimesThatWereTaken(t *testing.T) {
	withMove(t, func(t *testing.T, d *desk) {
		for by, keys := range map[string]string{"": "local", "seller": "local", "cause": "confirmed-reclaim host-fault", "pool": "local/north-a/v100.1/spot"} {
			s, p := ask[FailoverStats](d, GetFailoverStats, FailoverQuery{By: by})
			if p != nil {
				t.Fatal(p)
			}
			n, lost := 0, events.MicroUSD(0)
			var got []string
			for _, r := range s.Rows {
				n, lost, got = n+r.Count, lost+r.LostCost, append(got, r.Key)
			}
			if n != 2 || s.All.Count != 2 || lost != s.All.LostCost || strings.Join(got, " ") != keys {
				t.Errorf("by %q: %v, %d in all, %s and %s lost", by, got, n, lost, s.All.LostCost)
			}
		}
		s, _ := ask[FailoverStats](d, GetFailoverStats, FailoverQuery{})
		list, _ := ask[FailoverList](d, GetFailoverList, FailoverQuery{Sort: "took"})
		if s.All.Took.P95 != list.Items[0].Took().Milliseconds() || s.All.Took.P50 != list.Items[1].Took().Milliseconds() || s.All.Took.Max != s.All.Took.P95 {
			t.Errorf("%+v", s.All.Took)
		}
		if none, p := ask[FailoverStats](d, GetFailoverStats, FailoverQuery{Seller: "aws"}); p != nil || none.All.Count != 0 || none.Rows == nil {
			t.Errorf("%+v, %v", none, p)
		}
	})
}

func TestTheEventsOfAFailoverCanBeCheckedByWhoeverHasThem(t *testing.T) {
	withMove(t, func(t *testing.T, d *desk) {
		page, p := ask[FailoverEvents](d, GetFailoverEvents, FailoverQuery{Job: "mover"})
		if p != nil || page.More {
			t.Fatal(p, page.More)
		}
		last := map[string]EventLine{}
		var kinds []string
		for _, l := range page.Events {
			if l.Computed() != l.Hash || l.Rewritten {
				t.Errorf("%s does not have its hash", l.ID)
			}
			if prev, ok := last[l.Subject]; ok && l.PrevHash != prev.Hash {
				t.Errorf("%s does not follow %s", l.ID, prev.ID)
			}
			last[l.Subject] = l
			e, err := l.Event()
			if err != nil || e.ID != l.ID || e.Position != l.Position {
				t.Errorf("%s: %v", l.ID, err)
			}
			kinds = append(kinds, l.Type)
			forged := l
			forged.Data = json.RawMessage(strings.Replace(string(l.Data), `"final"`, `"fina1"`, 1))
			if forged.Computed() == l.Hash {
				t.Errorf("%s: nobody would notice a change", l.ID)
			}
		}
		for _, want := range []string{"job.failed-over", "job.failover-refined", "job.last-words", "job.started", "job.committed", "lease.intended", "lease.declined", "lease.refused", "lease.ended"} {
			if !slices.Contains(kinds, "io.spotferry."+want+".v1") {
				t.Errorf("no %s among %v", want, kinds)
			}
		}
		if slices.Contains(kinds, "io.spotferry.job.submitted.v1") {
			t.Error("the user's environment is in it")
		}
	})
}

func TestFailoversByTheHundredComeInParts(t *testing.T) {
	const many = 300
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.at(0, tuned, submit("tuned"))
		agg := events.JobAggregate(org, tuned)
		evs, err := d.log.Read(t.Context(), agg, 0)
		if err != nil {
			t.Fatal(err)
		}
		last := evs[len(evs)-1]
		for n := 1; n <= many; n++ {
			e, err := events.Follow(agg, &last, events.JobFailedOver{Record: events.Failover{N: n, Cause: events.CauseNotice, Detail: strings.Repeat("x", 3000), Began: t0, Ended: t0.Add(time.Duration(n) * time.Millisecond)}})
			e.Time = t0.Add(time.Duration(n) * time.Second)
			if err == nil {
				last, err = d.log.Append(t.Context(), last.Position, e)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		d.serve(func() {
			synctest.Wait()
			seen, parts := 0, 0
			for q, more := (FailoverQuery{}), true; more; parts++ {
				b, _ := json.Marshal(q)
				if out := d.server.Handle(t.Context(), viewer(GetFailoverList), b); len(out) > 1<<20 {
					t.Fatalf("an answer of %d bytes", len(out))
				}
				list, p := ask[FailoverList](d, GetFailoverList, q)
				if p != nil {
					t.Fatal(p)
				}
				for _, f := range list.Items {
					if seen++; f.Record.N != seen {
						t.Fatalf("number %d comes as the %dth", f.Record.N, seen)
					}
				}
				q.Offset, more = list.Next, list.More
			}
			if s, _ := ask[FailoverStats](d, GetFailoverStats, FailoverQuery{}); seen != many || parts < 2 || s.All.Count != many || s.All.Took.P95 != many*95/100 {
				t.Errorf("%d in %d parts; %+v", seen, parts, s.All)
			}
			if list, p := ask[[]Failover](d, GetFailovers, FailoverQuery{}); p != nil || len(list) == 0 {
				t.Errorf("%d, %v", len(list), p)
			}
		})
	})
}

func viewer(v Verb) string { return fmt.Sprintf("sf.api.viewer.ann.%s", v) }
