package console

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/events"
)

var update = flag.Bool("update", false, "write the golden answers anew")

// TestAnswersAreWhatTheyWere: programs read these. A change of a field's name or
// meaning raises SchemaVersion.
func TestAnswersAreWhatTheyWere(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		d.air.handle(leaving, 1, events.Heartbeat{Step: 17})
		for name, q := range map[string]struct {
			verb Verb
			body any
		}{
			"clock": {GetClock, nil}, "jobs": {GetJobs, nil}, "job": {GetJob, Query{Job: "tuned"}},
			"events": {GetEvents, Query{Job: "tuned", Limit: 12}}, "failovers": {GetFailovers, nil},
			"checkpoints": {GetCheckpoints, Query{Job: "tuned"}}, "bill": {GetBill, nil}, "offers": {GetOffers, Query{Region: "north"}},
			"instances": {GetInstances, nil}, "logs": {GetLogs, Query{Job: "tuned"}}, "health": {GetHealth, nil},
			"plan": {GetPlan, SubmitRequest{}}, "not-found": {GetJob, Query{Job: "nobody"}},
		} {
			b, err := json.Marshal(q.body)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, d.server.Handle(t.Context(), Subject(Admin, "ann", q.verb), b), "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s is no longer as in %s (-update writes it anew):\n%s", q.verb, file, got.String())
			}
		}
	})
}

func TestWordsFromOutsideAreNotTouched(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		logs, _ := ask[LogPage](d, GetLogs, Query{Job: "tuned"})
		checkpoints, _ := ask[[]Checkpoint](d, GetCheckpoints, Query{Job: "tuned"})
		plan, _ := ask[Plan](d, GetPlan, SubmitRequest{})
		job, _ := ask[Job](d, GetJob, Query{Job: string(waiting)})
		if logs.Batches[0].Lines[0].Text != hostile || checkpoints[1].Rejected != "weights: "+hostile || plan.Reason != hostile || job.Detail != "nobody has one "+hostile {
			t.Errorf("%q, %q, %q, %q", logs.Batches[0].Lines[0].Text, checkpoints[1].Rejected, plan.Reason, job.Detail)
		}
	})
}

func TestHowAJobIsFound(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		for _, tc := range []struct {
			name, ask string
			want      events.JobID
			says      string
		}{
			{"by its id", string(tuned), tuned, ""},
			{"by its name", "tuned", tuned, ""},
			{"by a unique beginning of its id", "01jx3kr", leaving, ""},
			{"in any case", "01JX3KR0", leaving, ""},
			{"not by a beginning that several share", "01jx3kq8", "", "2 jobs"},
			{"not by a name that several have", "twin", "", "2 jobs"},
			{"not by three letters", "01j", "", "no job"},
			{"not by nothing", "", "", "no job"},
			{"not by an id that was never submitted", "01jx3kq8zr5v9m2c7t4b6n0d9e", "", "no job"},
			{"not by a lease", string(tuned) + "-1-1", "", "no job"},
		} {
			v, p := ask[Job](d, GetJob, Query{Job: tc.ask})
			if v.ID != tc.want || (p == nil) != (tc.says == "") || p != nil && (p.Code != "not-found" || !strings.Contains(p.Message, tc.says)) {
				t.Errorf("%s: %q, %v; want %q, %q", tc.name, v.ID, p, tc.want, tc.says)
			}
		}
	})
}

func TestReclaimsCountEveryMachineTakenAndEveryWarningTakenBack(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		for job, want := range map[events.JobID]int{tuned: 2, waiting: 0, leaving: 1} {
			if v, p := ask[Job](d, GetJob, Query{Job: string(job)}); p != nil || v.Reclaims != want {
				t.Errorf("%s: %d, %v; want %d", job, v.Reclaims, p, want)
			}
		}
	})
}

func TestPagesOfEventsTogetherAreAllOfThem(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		for _, q := range []Query{{Limit: 1}, {Limit: 4}, {Limit: 10_000}, {}, {Job: "tuned", Limit: 3}, {Limit: -5}} {
			var got []events.EventID
			var last uint64
			for more := true; more; {
				page, p := ask[struct {
					Entries []struct {
						ID       events.EventID `json:"id"`
						Position uint64         `json:"position"`
						Type     string         `json:"type"`
					} `json:"entries"`
					Next uint64 `json:"next"`
					More bool   `json:"more"`
				}](d, GetEvents, q)
				if p != nil {
					t.Fatal(p)
				}
				for _, e := range page.Entries {
					if e.Position <= last {
						t.Fatalf("%+v: %s comes twice or out of order", q, e.ID)
					}
					last = e.Position
					got = append(got, e.ID)
				}
				if q.Limit > 0 && len(page.Entries) > q.Limit {
					t.Errorf("%+v: %d entries", q, len(page.Entries))
				}
				q.After, more = page.Next, page.More
			}
			var want []events.EventID
			for _, e := range slices.SortedFunc(slices.Values(append(d.log.Events(events.FilterJobs), d.log.Events(events.FilterLeases)...)), func(a, b events.Event) int { return int(a.Position) - int(b.Position) }) {
				if q.Job == "" || strings.HasPrefix(e.Aggregate.ID, string(tuned)) {
					want = append(want, e.ID)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: %d events, want %d", q, len(got), len(want))
			}
			if page, p := ask[Page](d, GetEvents, Query{Job: q.Job, After: last}); p != nil || page.More || page.Next != last || page.Entries == nil {
				t.Errorf("at the end: %d entries, next %d, %v", len(page.Entries), page.Next, p)
			}
		}
	})
}

func TestAPageOfLargeEventsFitsIntoAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		big := submit("big")
		big.Spec.Run = strings.Repeat("\x00", 50_000) // six bytes each in JSON
		for i := range 5 {
			d.at(i, events.JobID("job"+string(rune('a'+i))), big)
		}
		d.serve(func() {
			pages, entries := 0, 0
			for q, more := (Query{}), true; more; pages++ {
				b, _ := json.Marshal(q)
				out := d.server.Handle(t.Context(), Subject(Admin, "ann", GetEvents), b)
				if len(out) > 1<<20 {
					t.Errorf("an answer of %d bytes", len(out))
				}
				var a answer[struct {
					Entries []json.RawMessage `json:"entries"`
					Next    uint64            `json:"next"`
					More    bool              `json:"more"`
				}]
				if err := json.Unmarshal(out, &a); err != nil || a.Problem != nil {
					t.Fatal(err, a.Problem)
				}
				entries += len(a.Value.Entries)
				q.After, more = a.Value.Next, a.Value.More
			}
			if entries != 5 || pages < 3 {
				t.Errorf("%d entries on %d pages", entries, pages)
			}
		})
	})
}

func TestWhichFailoversAreShown(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		began := t0.Add(10 * time.Second)
		for name, tc := range map[string]struct {
			q    Query
			want int
		}{
			"all":                          {Query{}, 1},
			"of its job":                   {Query{Job: "tuned"}, 1},
			"not of another":               {Query{Job: string(waiting)}, 0},
			"by number":                    {Query{N: 1}, 1},
			"not by another number":        {Query{N: 2}, 0},
			"by cause":                     {Query{Cause: "confirmed-reclaim"}, 1},
			"not by another cause":         {Query{Cause: "notice"}, 0},
			"since it began":               {Query{Since: began}, 1},
			"not since later":              {Query{Since: began.Add(1)}, 0},
			"until it began":               {Query{Until: began}, 1},
			"not until earlier":            {Query{Until: began.Add(-1)}, 0},
			"not of a job that is unknown": {Query{Job: "nobody"}, -1},
		} {
			got, p := ask[[]Failover](d, GetFailovers, tc.q)
			if (p != nil) != (tc.want < 0) || p == nil && (got == nil || len(got) != tc.want) {
				t.Errorf("%s: %d, %v; want %d", name, len(got), p, tc.want)
			}
		}
	})
}

func TestASellerThatCannotBeAskedIsNamed(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		d.seller.down = true
		if _, p := ask[[]Instance](d, GetInstances, nil); code(p) != "unavailable" || !strings.Contains(p.Message, "local") {
			t.Errorf("%v", p)
		}
	})
}

func TestAStateWithoutServicesCanOnlyBeRead(t *testing.T) {
	served(t, func(c *Config) { c.ReadOnly = true }, func(t *testing.T, d *desk) {
		if _, p := ask[Job](d, DoSubmit, request("01jx3kr0zr5v9m2c7t4b6n0d9e")); code(p) != "unavailable" || p.Remedy == "" {
			t.Errorf("submit: %v", p)
		}
		if _, p := ask[Job](d, DoCancel, CancelRequest{Job: string(waiting)}); code(p) != "unavailable" {
			t.Errorf("cancel: %v", p)
		}
		if v, p := ask[Job](d, GetJob, Query{Job: "tuned"}); p != nil || v.Status != "succeeded" {
			t.Errorf("reading: %+v, %v", v, p)
		}
	})
}

func request(id events.JobID) SubmitRequest {
	s := submit("new")
	s.Attribution.Org = "someone-else"
	return SubmitRequest{ID: id, Attribution: s.Attribution, Spec: s.Spec}
}

func TestASubmissionIsTakenOnceAndForThisOrganisation(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		r := request("01jx3kr0zr5v9m2c7t4b6n0d9e")
		first, p := ask[Job](d, DoSubmit, r)
		if p != nil || first.Org != org || first.By != "ann" || first.Status != "acquiring" || first.Budget != 10*events.Dollar {
			t.Fatalf("%+v, %v", first, p)
		}
		r.Spec.Name = "other"
		if again, p := ask[Job](d, DoSubmit, r); p != nil || again.Name != "new" || !again.Submitted.Equal(first.Submitted) {
			t.Errorf("again: %+v, %v", again, p)
		}
		synctest.Wait()
		if all, _ := ask[[]Job](d, GetJobs, nil); len(all) != 4 || all[3].ID != first.ID {
			t.Errorf("%d jobs are listed", len(all))
		}
	})
}

func TestWhatIsNotSubmitted(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		for name, id := range map[string]events.JobID{
			"no id": "", "capitals": "01JX3KR0ZR5V9M2C7T4B6N0D9E", "a wildcard": "*", "two tokens": "a.b",
			"a dash, which would break the names of its leases": "my-job", "too long": events.JobID(strings.Repeat("a", 41)),
		} {
			if _, p := ask[Job](d, DoSubmit, request(id)); code(p) != "invalid" || p.Remedy == "" {
				t.Errorf("%s: %v", name, p)
			}
		}
		free := request("01jx3kr0zr5v9m2c7t4b6n0d9e")
		free.Spec.Policy.Budget = 0
		if _, p := ask[Job](d, DoSubmit, free); code(p) != "invalid" || !strings.Contains(p.Message, "budget") {
			t.Errorf("no budget: %v", p)
		}
	})
}

func TestAnIDThatAnotherOrganisationHasIsTakenAndNothingIsShownOfIt(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		theirs := submit("secret")
		theirs.Attribution.Org = "mallory"
		d.at(50, "theirs", theirs)
		if v, p := ask[Job](d, DoSubmit, request("theirs")); code(p) != "conflict" || v.Name != "" {
			t.Errorf("%+v, %v", v, p)
		}
	})
}

func TestACancelIsTakenOnceAndNotAfterTheEnd(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		cancel := func(job string) (Job, *Problem) {
			v, p := ask[Job](d, DoCancel, CancelRequest{Job: job, Reason: "wrong data"})
			synctest.Wait()
			return v, p
		}
		for range 2 {
			v, p := cancel(string(leaving))
			if p != nil || v.Status != "cancelled" || v.Detail != "cancelled by ann: wrong data" || v.Epochs != 1 || v.Reclaims != 1 {
				t.Errorf("%+v, %v", v, p)
			}
		}
		if _, p := cancel("tuned"); code(p) != "conflict" || !strings.Contains(p.Message, "succeeded") {
			t.Errorf("after its end: %v", p)
		}
		if _, p := cancel("nobody"); code(p) != "not-found" {
			t.Errorf("nobody's: %v", p)
		}
	})
}

func TestAJobOfTheSameIDInAnotherOrganisationIsNotMixedIn(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		e, err := events.Follow(events.JobAggregate("mallory", tuned), nil, events.JobSubmitted{Spec: events.JobSpec{Name: "fake"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.log.Append(t.Context(), 0, e); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if all, _ := ask[[]Job](d, GetJobs, nil); len(all) != 3 || all[0].Name != "tuned" {
			t.Errorf("%d jobs, the first is %q", len(all), all[0].Name)
		}
	})
}

func TestMalformedRequestsAreAnsweredInvalid(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		for _, subject := range []string{"", "sf.api", "sf.api.", "sf.api.ann", "sf.api.ann.jobs", "sf.api.admin.ann.jobs.more", "sf.api.admin.ann.dance", "other.admin.ann.jobs"} {
			var a answer[json.RawMessage]
			if err := json.Unmarshal(d.server.Handle(t.Context(), subject, nil), &a); err != nil || code(a.Problem) != "invalid" {
				t.Errorf("%q: %v, %v", subject, a.Problem, err)
			}
		}
		for _, v := range []Verb{GetJob, GetEvents, GetLogs, GetBill, DoSubmit, DoCancel, GetPlan} {
			for _, body := range []string{"{", "[]", `"x"`, `{"job":7,"id":7}`, "\x00"} {
				var a answer[json.RawMessage]
				if err := json.Unmarshal(d.server.Handle(t.Context(), Subject(Admin, "ann", v), []byte(body)), &a); err != nil || code(a.Problem) != "invalid" {
					t.Errorf("%s %q: %v, %v", v, body, a.Problem, err)
				}
			}
		}
	})
}

// FuzzRequests: whatever the bytes and the subject, there is one answer in JSON.
func FuzzRequests(f *testing.F) {
	for _, v := range []Verb{GetClock, GetJobs, GetJob, GetEvents, GetFailovers, GetCheckpoints, GetBill, GetOffers, GetInstances, GetLogs, GetPlan, GetHealth, DoSubmit, DoCancel} {
		for _, body := range []string{"", "{}", `{"job":"tuned","after":18446744073709551615,"limit":-1,"n":-1}`, `{"job":"tuned","epoch":-1,"tail":-1}`, `{"id":"x","spec":{"policy":{"budget":"1"}}}`} {
			f.Add(Subject(Admin, "ann", v), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, subject string, body []byte) {
		d := newDesk(t)
		d.at(0, tuned, submit("tuned"))
		d.serve(func() {
			var a answer[json.RawMessage]
			if out := d.server.Handle(t.Context(), subject, body); json.Unmarshal(out, &a) != nil {
				t.Fatalf("answered %q", out)
			}
		})
	})
}

func TestARequestThatRunsOutOfTimeBeforeTheModelIsReadySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.server = New(d.cfg) // not run: it never catches up
		ctx, cancel := contextFor(t, time.Second)
		defer cancel()
		var a answer[json.RawMessage]
		if err := json.Unmarshal(d.server.Handle(ctx, Subject(Admin, "ann", GetJobs), nil), &a); err != nil || code(a.Problem) != "unavailable" {
			t.Errorf("%v, %v", a.Problem, err)
		}
	})
}

func TestEverySampleHasASummary(t *testing.T) {
	for _, row := range events.Table {
		if row.Family != "job" && row.Family != "lease" && row.Family != "ops" {
			continue
		}
		f := row.New()
		if Summary(deref(f)) == "" {
			t.Errorf("%s.%s has no summary", row.Family, row.Event)
		}
	}
}
