package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
)

func cannedStats() console.FailoverStats {
	row := console.FailoverStat{Key: "local", Count: 1, Noticed: 1, Took: console.Quantiles{P50: 25_000, P95: 25_000, Max: 25_000}, LostSteps: 40, LostMS: 6100, LostCost: 12_345,
		Phases: []console.PhaseStat{{Name: "save", Count: 1, Quantiles: console.Quantiles{P50: 3100, P95: 3100, Max: 3100}}, {Name: "boot", Count: 1, Quantiles: console.Quantiles{P50: 11_000, P95: 11_000, Max: 11_000}}}}
	all := row
	all.Key = ""
	return console.FailoverStats{By: "seller", Rows: []console.FailoverStat{row}, All: all}
}

// cannedReport is a move that was understood only later, with an answer before it that came to nothing.
func cannedReport() console.FailoverReport {
	f := cannedFailover()
	loss := 1.25
	f.Cause, f.Detail = events.CauseHostFault, "its host failed "+hostile
	f.Refined = []console.Refinement{{Event: "01jx3kq8zr5v9m2c7t4b6n0d1e-9", Time: f.Record.Ended.Add(time.Minute), Cause: f.Cause, Detail: f.Detail, Evidence: []events.EventID{"gone-1"}}}
	decided := f.Record.Began.Add(60 * time.Millisecond)
	return console.FailoverReport{
		Failover: f, Of: 2, Trace: f.Record.Trace().String(),
		Evidence: []console.Evidence{
			{ID: f.Record.Evidence[0], Time: f.Record.Began, Type: "job.noticed", Summary: "terminate in 2m0s (imds) " + hostile},
			{ID: "gone-1", After: f.Refined[0].Event},
		},
		Choice:     &console.Choice{Event: f.Record.Decision, Time: decided, Lease: f.Record.To.Lease, Decision: cannedDecision(), Replay: console.Replay{Same: true}},
		Considered: []console.ChoiceRef{{Event: events.EventID(string(f.Record.To.Lease) + "-0"), Time: decided, Lease: f.Record.To.Lease, Action: "wait", Rule: "deadline-net", Summary: "bought nothing: waiting-for-capacity: " + hostile, Outcome: "declined"}},
		LastWords: &console.LastWords{Event: "01jx3kq8zr5v9m2c7t4b6n0d1e-7", Time: f.Record.Ended, JobLastWords: events.JobLastWords{
			Epoch: 2, Lease: f.Record.From.Lease, Lines: []events.LogLine{{At: f.Record.Began, Stream: "stderr", Text: hostile}, {At: f.Record.Began.Add(time.Second), Stream: "stdout", Text: "step 1100 loss 1.25"}},
			Heartbeat: &events.Heartbeat{Lease: f.Record.From.Lease, State: "training", Step: 1100, Loss: &loss, At: f.Record.Began.Add(-2 * time.Second), Trouble: hostile,
				GPUs: []events.GPUSample{{Name: hostile, Util: 0.97, MemUsedMiB: 15_000, MemMiB: 16_384, TempC: 71, PowerW: 240}}},
		}},
		Bill: cannedBill().Lines,
	}
}

// cannedMove answers for the one move that there is.
func cannedMove(body []byte) any {
	var q console.FailoverQuery
	if err := json.Unmarshal(body, &q); err != nil || q.N > 1 {
		return &console.Problem{Code: "not-found", Message: "no failover has that number", Remedy: "'spotferry failover ls' lists them"}
	}
	return cannedReport()
}

func TestFailoversAreNarrowedByTheSystem(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	got := r.run("failover", "ls", "--job", "llama-7b", "--seller", "local", "--cause", "gpu-fault", "--since", "12h", "--until", "2026-03-04T12:10:00Z", "--sort", "boot", "--limit", "7")
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	want := console.FailoverQuery{Job: "llama-7b", Seller: "local", Cause: "gpu-fault", Since: now.Add(-12 * time.Hour), Until: start.Add(10 * time.Minute), Sort: "boot", Limit: 7}
	var asked console.FailoverQuery
	if err := json.Unmarshal(r.sent[console.GetFailoverList], &asked); err != nil || asked != want {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
	for _, tc := range []struct {
		args string
		says string
	}{
		{"--cause sunspots", "gpu-fault"}, {"--since yesterday", "write a span"}, {"--until -5m", "write a span"}, {"--limit -1", "how many"},
	} {
		if got := r.run(append([]string{"failover", "ls"}, strings.Fields(tc.args)...)...); got.code != 2 || !strings.Contains(got.err, tc.says) {
			t.Errorf("%s: exit %d, %s", tc.args, got.code, got.err)
		}
	}
}

func TestAListOfManyPartsIsReadWhole(t *testing.T) {
	t.Parallel()
	a := system()
	a[console.GetFailoverList] = func(body []byte) any {
		var q console.FailoverQuery
		if err := json.Unmarshal(body, &q); err != nil || q.Offset > 2 {
			return &console.Problem{Code: "invalid", Message: "no such part"}
		}
		return console.FailoverList{Items: []console.Failover{cannedFailover()}, Next: q.Offset + 1, More: q.Offset < 2}
	}
	if got := newRig(t, a).run("failover", "ls", "-o", "name"); got.out != strings.Repeat(string(cannedJob)+"/1\n", 3) {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
}

func TestOnlyTheNewestOfManyAnswersAreExplained(t *testing.T) {
	t.Parallel()
	rep := cannedReport()
	for range 30 {
		rep.Considered = append(rep.Considered, rep.Considered[0])
	}
	a := system()
	a[console.GetFailover] = always(rep)
	r := newRig(t, a)
	got := r.run("failover", "show", "llama-7b", "--explain")
	if got.code != 0 || r.ask(console.GetDecision) != mostExplained || !strings.Contains(got.out, "and 21 decisions before these") {
		t.Errorf("%d asked; exit %d: %s%s", r.ask(console.GetDecision), got.code, got.out, got.err)
	}
}

func TestAPhaseBeforeTheFirstSignIsDrawn(t *testing.T) {
	t.Parallel()
	rep := cannedReport()
	rep.Record.Phases = append(rep.Record.Phases, events.Phase{Name: "acquire", Began: rep.Record.Began.Add(-4 * time.Second), MS: 3000, Clock: "control"})
	a := system()
	a[console.GetFailover] = always(rep)
	if got := newRig(t, a).run("failover", "show", "llama-7b"); !strings.Contains(got.out, "  -4s ") || !strings.Contains(got.out, "Phases (29s)") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
}

func TestAMoveThatNobodyKnowsIsNamed(t *testing.T) {
	t.Parallel()
	a := system()
	a[console.GetFailover] = always(&console.Problem{Code: "not-found", Message: "no failover is number 9", Remedy: "'spotferry failover ls' lists them"})
	r := newRig(t, a)
	if got := r.run("failover", "show", "llama-7b", "9"); got.code != 102 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if got := r.run("failover", "show", "llama-7b", "first"); got.code != 2 || r.ask(console.GetFailover) != 1 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
