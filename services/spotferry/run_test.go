package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
)

const trainFile = "testdata/train.yaml"

func uncertain() console.Plan {
	p := cannedPlan()
	p.Certain, p.Probability, p.Reason = false, 0.72, "the deadline is tight"
	return p
}

func impossible() console.Plan {
	p := cannedPlan()
	p.Possible, p.Certain, p.Reason, p.Cheapest, p.Fastest = false, false, "the budget is too small", 42_000_000, 30
	return p
}

func TestRunAsksBeforeMoneyMoves(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		plan      console.Plan
		tty       bool
		stdin     string
		args      []string
		code      int
		submitted bool
		says      string
	}{
		{"a yes submits", cannedPlan(), true, "y\n", nil, 0, true, "Run llama-7b for about $10.78, $20.00 at most? [y/N]"},
		{"a no does not", cannedPlan(), true, "n\n", nil, 103, false, "was called off"},
		{"an answer that never comes does not", cannedPlan(), true, "", nil, 1, false, "nobody answered"},
		{"-y submits without a question", cannedPlan(), false, "", []string{"-y"}, 0, true, ""},
		{"without a terminal -y is needed", cannedPlan(), false, "y\n", nil, 2, false, "give -y"},
		{"--no-input without -y refuses, terminal or not", cannedPlan(), true, "y\n", []string{"--no-input"}, 2, false, "give -y"},
		{"a risk is told with its probability, and asked", uncertain(), true, "y\n", nil, 0, true, "72% likely to end within budget and deadline: the deadline is tight"},
		{"a risk is not taken by -y alone", uncertain(), false, "", []string{"-y"}, 2, false, "--accept-risk"},
		{"a risk is taken by -y --accept-risk", uncertain(), false, "", []string{"-y", "--accept-risk"}, 0, true, ""},
		{"--accept-risk alone still asks", uncertain(), false, "", []string{"--accept-risk"}, 2, false, "give -y"},
		{"the impossible is refused with its figures", impossible(), true, "y\n", []string{"-y", "--accept-risk"}, 5, false,
			"at best it costs $42.00, the budget is $20.00; at best it takes 30.0 h, the deadline is in 24.0 h); nothing was bought"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := system()
			a[console.GetPlan] = always(tc.plan)
			a[console.GetJob] = always(cannedEnded(events.Succeeded))
			r := newRig(t, a)
			r.tty, r.stdin = tc.tty, strings.NewReader(tc.stdin)
			got := r.run(append([]string{"run", trainFile, "--utc"}, tc.args...)...)
			if got.code != tc.code || (r.ask(console.DoSubmit) > 0) != tc.submitted || !strings.Contains(got.err, tc.says) {
				t.Errorf("exit %d, submitted %d times, said:\n%s\nwant exit %d, submitted %v, said %q", got.code, r.ask(console.DoSubmit), got.err, tc.code, tc.submitted, tc.says)
			}
		})
	}
}

func TestRunSubmitsWhatTheFileAndTheCommandLineSay(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	got := r.run("run", trainFile, "-y", "-d", "-o", "name", "--env", "LR=3e-4", "--team", "research", "--project", "llm", "--label", "cost=a1")
	if got.code != 0 || got.out != string(cannedJob)+"\n" {
		t.Fatalf("exit %d, %q, %s", got.code, got.out, got.err)
	}
	var sent console.SubmitRequest
	if err := json.Unmarshal(r.sent[console.DoSubmit], &sent); err != nil {
		t.Fatal(err)
	}
	a, s := sent.Attribution, sent.Spec
	if sent.ID != cannedJob || a.Team != "research" || a.Project != "llm" || a.Labels["cost"] != "a1" || s.Envs["LR"] != "3e-4" || s.Name != "llama-7b" {
		t.Errorf("submitted %+v", sent)
	}
	if want := market.AddDate(0, 0, 1); !s.Policy.Deadline.Equal(want) {
		t.Errorf("deadline +24h is %v; it counts from the market's time, %v", s.Policy.Deadline, want)
	}
}

func TestJobIDsAreLowerCaseULIDs(t *testing.T) {
	t.Parallel()
	id := string(newJobID())
	if !regexp.MustCompile(`^[0-9a-hjkmnp-tv-z]{26}$`).MatchString(id) || events.CheckToken("job", id) != nil {
		t.Errorf("minted %q", id)
	}
}

func TestABadJobFileIsSaidWithItsLineAlsoWhenTheSystemIsAway(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bad.yaml")
	src := "name: x\nrun: train\npolicy:\n  bugdet: $20\n  deadline: 2020-01-01T00:00:00Z\n"
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, system())
	for _, away := range []bool{false, true} {
		r.setAway(away)
		got := r.run("run", file, "-y")
		for _, says := range []string{file + ":4:3: ", "\n    bugdet: $20\n    ^", "did you mean budget?", "nothing was submitted"} {
			if got.code != 2 || !strings.Contains(got.err, says) {
				t.Errorf("away %v: exit %d, does not say %q:\n%s", away, got.code, says, got.err)
			}
		}
		if strings.Contains(got.err, "deadline is") == away {
			t.Errorf("away %v: only the system knows the market's time:\n%s", away, got.err)
		}
	}
	var doc struct {
		Error struct {
			Code     string
			Exit     int `json:"exit_code"`
			Problems []struct {
				Line, Col int
				Remedy    string
			}
		}
	}
	got := r.run("run", file, "-y", "-o", "json")
	if err := json.Unmarshal([]byte(got.err), &doc); err != nil {
		t.Fatalf("%v: %s", err, got.err)
	}
	if e := doc.Error; e.Code != "usage" || e.Exit != 2 || len(e.Problems) == 0 || e.Problems[0].Line != 4 || e.Problems[0].Col != 3 {
		t.Errorf("as JSON: %+v", e)
	}
	r.setAway(true)
	if got := r.run("run", trainFile, "-y"); got.code != 4 {
		t.Errorf("a good file and nobody there: exit %d, %s", got.code, got.err)
	}
	if got := r.run("run", "no-such.yaml"); got.code != 2 || !strings.Contains(got.err, "no-such.yaml") {
		t.Errorf("no file: exit %d, %s", got.code, got.err)
	}
}

func TestAWorkdirIsPackedAfterConsentAndBeforeSubmission(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(file, []byte("workdir: .\nrun: train\npolicy: {budget: $20}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, system())
	if got := r.run("run", file, "-y", "-d"); got.code != 2 || !strings.Contains(got.err, "named pipe") || r.ask(console.DoSubmit) != 0 {
		t.Errorf("one that cannot be packed: exit %d, %s", got.code, got.err)
	}
	packed := ""
	r.tune = func(e *environment) {
		e.pack = func(_ context.Context, dir string) (events.Archive, error) {
			packed = dir
			return events.Archive{Object: "workdir/ab", Hash: "ab", Bytes: 1}, nil
		}
	}
	got := r.run("run", file, "-y", "-d")
	if got.code != 0 || packed != dir || !strings.Contains(string(r.sent[console.DoSubmit]), `"workdir":{"object":"workdir/ab"`) {
		t.Errorf("exit %d, packed %q, sent %s, %s", got.code, packed, r.sent[console.DoSubmit], got.err)
	}
}

func TestALostAnswerToASubmissionIsAskedForAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	a := system()
	n := 0
	a[console.DoSubmit] = func([]byte) any {
		if n++; n == 1 {
			return &console.Problem{Code: "internal", Message: "no"}
		}
		return cannedRunning()
	}
	r := newRig(t, a)
	if got := r.run("run", trainFile, "-y", "-d"); got.code != 1 || r.ask(console.DoSubmit) != 1 {
		t.Errorf("a refusal is final: exit %d, asked %d times", got.code, r.ask(console.DoSubmit))
	}

	r = newRig(t, system())
	opened := 0
	r.tune = func(e *environment) {
		open := e.open
		e.open = func(ctx context.Context, dir string, readable bool) (session, error) {
			if opened++; opened == 2 || opened == 3 { // away when it is reopened, twice
				return session{}, console.ErrUnreachable
			}
			return open(ctx, dir, readable)
		}
	}
	e := r.environment(io.Discard, io.Discard)
	l, err := e.connect(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // as if the system went away right after the plan
	j, err := e.submit(t.Context(), l, console.SubmitRequest{ID: cannedJob})
	if err != nil || j.ID != cannedJob || opened != 4 || r.ask(console.DoSubmit) != 1 {
		t.Errorf("submit = %v, %v after %d openings, asked %d times", j.ID, err, opened, r.ask(console.DoSubmit))
	}
}
