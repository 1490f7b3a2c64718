package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
)

func batch(epoch int, first int64, texts ...string) events.LogBatch {
	b := events.LogBatch{Epoch: epoch, First: first}
	for i, text := range texts {
		b.Lines = append(b.Lines, events.LogLine{At: start.Add(time.Duration(epoch)*time.Minute + time.Duration(i)*time.Second), Stream: "stdout", Text: text})
	}
	return b
}

// life is a job that moves on each time somebody looks at it: at each look
// one more batch of output is there, and after the last one it has ended.
type life struct {
	mu      sync.Mutex
	batches []events.LogBatch
	outcome events.Outcome
	looks   int
}

func (l *life) answers() answers {
	a := system()
	a[console.GetJob] = func([]byte) any {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.looks++; l.looks > len(l.batches) {
			return cannedEnded(l.outcome)
		}
		return cannedRunning()
	}
	a[console.GetLogs] = func(body []byte) any {
		l.mu.Lock()
		defer l.mu.Unlock()
		var q console.Query
		if err := json.Unmarshal(body, &q); err != nil {
			return &console.Problem{Code: "invalid", Message: err.Error()}
		}
		p := console.LogPage{Next: q.After}
		if there := min(l.looks, len(l.batches)); int(q.After) < there {
			p.Batches, p.Next = l.batches[q.After:q.After+1], q.After+1
			p.More = int(p.Next) < there
		}
		return p
	}
	return a
}

func TestOutputIsOnePieceOverAMove(t *testing.T) {
	t.Parallel()
	l := &life{outcome: events.Succeeded, batches: []events.LogBatch{
		batch(2, 1, "step 1", "step 2"),
		batch(2, 2, "step 2", "step 3"), // the second half of it is new
		batch(2, 2, "step 2", "step 3"), // sent again: the answer was lost
		batch(3, 1, "step 3 again"),
		batch(2, 4, "bye"), // the old machine's last line comes late
		batch(3, 5, "step 7"),
	}}
	r := newRig(t, l.answers())
	got := r.run("run", trainFile, "-y", "--utc")
	want := `--- epoch 2: local/north-a/v100.1/spot, from the beginning ---
step 1
step 2
step 3
--- epoch 3: local/north-b/v100.1/spot, resumes step 1060 ---
step 3 again
(epoch 2) bye
--- 3 lines of epoch 3 missing from line 2 on ---
step 7
`
	if got.code != 0 || got.out != want {
		t.Errorf("exit %d, output\n%s\nwant\n%s\nsaid\n%s", got.code, got.out, want, got.err)
	}
	for _, says := range []string{"12:08:00 noticed: terminate in 2m0s (imds)", "12:08:25 failed-over: #1 notice", "succeeded: llama-7b", " 30% step 1200/4000"} {
		if strings.Count(got.err, says) != 1 {
			t.Errorf("%q is not said once:\n%s", says, got.err)
		}
	}
}

func TestTheOutcomeIsTheExitCode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		outcome events.Outcome
		code    int
	}{
		{events.Succeeded, 0}, {events.Failed, 100}, {events.Cancelled, 103}, {events.OutOfBudget, 104}, {events.MissedDeadline, 105},
	} {
		t.Run(string(tc.outcome), func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"run", trainFile, "-y"}, {"job", "logs", "-f", "llama-7b"}} {
				r := newRig(t, (&life{outcome: tc.outcome}).answers())
				got := r.run(args...)
				if got.code != tc.code || !strings.Contains(got.err, string(tc.outcome)+": llama-7b") {
					t.Errorf("%v: exit %d, %s", args, got.code, got.err)
				}
				if strings.Contains(got.err, "spotferry:") {
					t.Errorf("%v: an outcome is no error of the command: %s", args, got.err)
				}
			}
		})
	}
}

func TestRunWithJSONEndsWithOneObjectOnTheOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t, (&life{outcome: events.Succeeded, batches: []events.LogBatch{batch(2, 1, "a line")}}).answers())
	got := r.run("run", trainFile, "-y", "-o", "json")
	var doc struct {
		SchemaVersion int `json:"schema_version"`
		Status        string
	}
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || doc.Status != "succeeded" || doc.SchemaVersion != 1 {
		t.Errorf("%v: %s", err, got.out)
	}
	if !strings.Contains(got.err, "a line\n") {
		t.Errorf("the output is not beside it: %s", got.err)
	}
}

func TestCtrlCStopsWatchingAndTheJobGoesOn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	a := system()
	a[console.GetLogs] = func([]byte) any { cancel(); return console.LogPage{} }
	r := newRig(t, a)
	got := r.runIn(ctx, "run", trainFile, "-y", "--state", "/tmp/my state")
	if got.code != 130 || !strings.Contains(got.err, "the job goes on") ||
		!strings.Contains(got.err, "spotferry job logs -f "+string(cannedJob)+" --state '/tmp/my state'") {
		t.Errorf("exit %d, %s", got.code, got.err)
	}
	if r.ask(console.DoCancel) != 0 {
		t.Error("the job was cancelled")
	}
}

func TestASystemThatGoesAwayIsWaitedForAndNothingIsShownTwice(t *testing.T) {
	t.Parallel()
	l := &life{outcome: events.Succeeded, batches: []events.LogBatch{batch(2, 1, "one"), batch(2, 2, "two")}}
	a := l.answers()
	jobs := a[console.GetJob]
	n := 0
	a[console.GetJob] = func(b []byte) any {
		if n++; n == 2 || n == 3 {
			return &console.Problem{Code: "unavailable", Message: "starting"}
		}
		return jobs(b)
	}
	r := newRig(t, a)
	got := r.run("run", trainFile, "-y")
	if got.code != 0 || !strings.HasSuffix(got.out, "---\none\ntwo\n") || strings.Count(got.err, "cannot be reached") != 1 || strings.Count(got.err, "the system is back") != 1 {
		t.Errorf("exit %d, %s\n%s", got.code, got.out, got.err)
	}
	for _, says := range []string{"noticed:", "failed-over:"} {
		if strings.Count(got.err, says) != 1 {
			t.Errorf("%q is not said once:\n%s", says, got.err)
		}
	}
}

func TestPatienceWithASystemThatStaysAwayEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	clock := now
	r.tune = func(e *environment) {
		e.now = func() time.Time { clock = clock.Add(time.Second); return clock }
		open := e.open
		e.open = func(ctx context.Context, dir string, readable bool) (session, error) {
			s, err := open(ctx, dir, readable)
			r.setAway(true)
			return s, err
		}
		e.timeout = time.Second
	}
	e := r.environment(&bytes.Buffer{}, &bytes.Buffer{})
	l, err := e.connect(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	f := failureOf(t.Context(), e.followToEnd(t.Context(), l, string(cannedJob)))
	if f.exit != 4 || !strings.Contains(f.Remedy, "job logs -f") || clock.Sub(now) > 5*time.Minute {
		t.Errorf("exit %d, %q, %q after %v", f.exit, f.What, f.Remedy, clock.Sub(now))
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	past := []events.LogBatch{batch(2, 1, "a", "b"), batch(3, 1, "c", "d", "e")}
	for _, tc := range []struct {
		name, want string
		args       []string
	}{
		{"all of it", "--- epoch 2: local/north-a/v100.1/spot, from the beginning ---\na\nb\n--- epoch 3: local/north-b/v100.1/spot, resumes step 1060 ---\nc\nd\ne\n", nil},
		{"the last two lines", "d\ne\n", []string{"--tail", "2"}},
		{"the last four lines, with the move between", "b\n--- epoch 3: local/north-b/v100.1/spot, resumes step 1060 ---\nc\nd\ne\n", []string{"--tail", "4"}},
		{"more lines than there are", "--- epoch 2: local/north-a/v100.1/spot, from the beginning ---\na\nb\n--- epoch 3: local/north-b/v100.1/spot, resumes step 1060 ---\nc\nd\ne\n", []string{"--tail", "50"}},
		{"since a time", "--- epoch 3: local/north-b/v100.1/spot, resumes step 1060 ---\nd\ne\n", []string{"--since", "2026-03-04T12:03:01Z"}},
		{"with times", "12:03:02.000 e\n", []string{"--tail", "1", "-t"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := &life{batches: past, looks: len(past)}
			r := newRig(t, l.answers())
			got := r.run(append([]string{"job", "logs", "llama-7b", "--utc"}, tc.args...)...)
			if got.code != 0 || got.out != tc.want {
				t.Errorf("exit %d\n%s\nwant\n%s\n%s", got.code, got.out, tc.want, got.err)
			}
		})
	}
}

func TestLogsAsJSONAreAnObjectALine(t *testing.T) {
	t.Parallel()
	l := &life{batches: []events.LogBatch{batch(2, 1, hostile), batch(2, 4, "d")}, looks: 2}
	r := newRig(t, l.answers())
	got := r.run("job", "logs", "llama-7b", "-o", "json")
	var kinds []string
	for line := range strings.Lines(got.out) {
		var i struct {
			logItem
			SchemaVersion int `json:"schema_version"`
		}
		if err := json.Unmarshal([]byte(line), &i); err != nil || i.SchemaVersion != 1 {
			t.Fatalf("%v: %s", err, line)
		}
		kinds = append(kinds, fmt.Sprintf("%s %d", i.Kind, i.Line))
		if i.Line == 1 && i.Text != hostile {
			t.Errorf("the text came as %q", i.Text)
		}
	}
	if fmt.Sprint(kinds) != "[epoch 0 line 1 gap 2 line 4]" || unsafeIn(got.out) {
		t.Errorf("%v in %q", kinds, got.out)
	}
}

func TestHostileOutputReachesFilesAsItIsAndTerminalsAsText(t *testing.T) {
	t.Parallel()
	for _, tty := range []bool{true, false} {
		l := &life{batches: []events.LogBatch{batch(2, 1, hostile)}, looks: 1}
		r := newRig(t, l.answers())
		r.tty = tty
		got := r.run("job", "logs", "llama-7b")
		if strings.Contains(got.out, hostile) == tty || unsafeIn(got.out) == tty || !strings.Contains(got.out, "evil") {
			t.Errorf("terminal %v: %q", tty, got.out)
		}
	}
}

// Whatever the machines send, and however often, every line is shown once and
// in order, and every one that is not shown is told as missing.
func TestALineupLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l lineup
		due, marked := map[int]int64{}, map[int]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			b := events.LogBatch{
				Epoch: rapid.IntRange(1, 3).Draw(t, "epoch"),
				First: rapid.OneOf(rapid.Int64Range(-2, 30), rapid.Int64()).Draw(t, "first"),
				Lines: make([]events.LogLine, rapid.IntRange(0, 5).Draw(t, "lines")),
			}
			for _, i := range l.take(b) {
				if due[i.Epoch] == 0 {
					due[i.Epoch] = 1
				}
				switch i.Kind {
				case "epoch":
					if marked[i.Epoch] {
						t.Fatalf("epoch %d is marked twice", i.Epoch)
					}
					marked[i.Epoch] = true
				case "gap":
					if i.Line != due[i.Epoch] || i.Missing < 1 {
						t.Fatalf("gap of %d at %d, due is %d", i.Missing, i.Line, due[i.Epoch])
					}
					due[i.Epoch] += i.Missing
				case "line":
					if i.Line != due[i.Epoch] {
						t.Fatalf("line %d of epoch %d, due is %d", i.Line, i.Epoch, due[i.Epoch])
					}
					due[i.Epoch]++
				}
			}
		}
	})
}

func TestTailFollowsWhatHappens(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	entries := cannedEntries()
	a := system()
	n := 0
	a[console.GetEvents] = func(b []byte) any {
		if n++; n > 8 {
			cancel()
		}
		return cannedEvents(entries[:min(len(entries), n+1)])(b)
	}
	r := newRig(t, a)
	got := r.runIn(ctx, "events", "tail", "--last", "1", "--utc")
	lines := regexp.MustCompile(`(?m)^12:\d\d`).FindAllString(got.out, -1)
	if got.code != 130 || len(lines) != 5 || strings.Count(got.out, "job.failed-over") != 1 {
		t.Errorf("exit %d, %d events\n%s%s", got.code, len(lines), got.out, got.err)
	}
}

func TestAHostileNameForgesNoLine(t *testing.T) {
	t.Parallel()
	a := (&life{outcome: events.Failed, batches: []events.LogBatch{batch(2, 1, "x")}}).answers()
	jobs := a[console.GetJob]
	a[console.GetJob] = func(b []byte) any {
		j := jobs(b).(console.Job)
		j.Name, j.Detail = hostile, hostile
		return j
	}
	a[console.DoSubmit] = a[console.GetJob]
	evil := cannedEntries()
	evil[2].Summary = hostile
	a[console.GetEvents] = cannedEvents(evil)
	r := newRig(t, a)
	r.tty = true
	got := r.run("run", trainFile, "-y")
	said := strings.ReplaceAll(got.err, "\r\x1b[K", "") // our own bar
	if got.code != 100 || unsafeIn(said) || unsafeIn(got.out) || strings.Count(said, "forged") < 3 {
		t.Errorf("exit %d, %q", got.code, said)
	}
}
