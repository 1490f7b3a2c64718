package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/jobfile"
)

func TestEveryErrorHasItsExitCode(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	problem := func(code string) error { return fmt.Errorf("asking: %w", &console.Problem{Code: code, Message: "m"}) }
	for _, tc := range []struct {
		name string
		ctx  context.Context
		err  error
		want exit
	}{
		{"a usage error", t.Context(), usagef("", "no"), exitUsage},
		{"an invalid job file", t.Context(), &jobfile.Error{Problems: []jobfile.Problem{{Message: "m"}}}, exitUsage},
		{"an invalid request", t.Context(), problem("invalid"), exitUsage},
		{"a job that is not there", t.Context(), problem("not-found"), exitNotFound},
		{"an impossible job", t.Context(), problem("impossible"), exitImpossible},
		{"a conflict", t.Context(), problem("conflict"), exitConflict},
		{"a system that cannot serve", t.Context(), problem("unavailable"), exitUnreachable},
		{"a system's own trouble", t.Context(), problem("internal"), exitInternal},
		{"a code of a later version", t.Context(), problem("new"), exitInternal},
		{"nobody answers", t.Context(), fmt.Errorf("x: %w", console.ErrUnreachable), exitUnreachable},
		{"no answer in time", t.Context(), context.DeadlineExceeded, exitUnreachable},
		{"a credential that is refused", t.Context(), nats.ErrAuthorization, exitAuth},
		{"a file of somebody else", t.Context(), &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, exitAuth},
		{"Ctrl-C", over, context.Canceled, exitInterrupted},
		{"a cancellation that nobody asked for", t.Context(), context.Canceled, exitInternal},
		{"anything else", t.Context(), errors.New("x"), exitInternal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if f := failureOf(tc.ctx, tc.err); f.exit != tc.want {
				t.Errorf("exit %d, want %d", f.exit, tc.want)
			}
		})
	}
}

func TestExitCodesAreAsTheyWerePromised(t *testing.T) {
	t.Parallel()
	want := map[string]exit{
		"ok": 0, "internal": 1, "usage": 2, "auth": 3, "unreachable": 4, "impossible": 5, "conflict": 6,
		"failed": 100, "not-finished": 101, "not-found": 102, "cancelled": 103, "out-of-budget": 104, "missed-deadline": 105, "interrupted": 130,
	}
	for _, c := range exitCodes() {
		if code, ok := want[c.name]; !ok || code != c.code || c.code.name() != c.name {
			t.Errorf("%s is %d", c.name, c.code)
		}
		delete(want, c.name)
	}
	if len(want) > 0 {
		t.Errorf("%v are missing", want)
	}
	if got := newRig(t, nil).run("help", "exit-codes"); !strings.Contains(got.out, "105  missed-deadline") {
		t.Errorf("help exit-codes: %s", got.out)
	}
	if outcomeExit(events.Outcome("")) != exitUnfinished {
		t.Error("a job without an outcome has not finished")
	}
}

func TestUsageErrorsSayWhatWasMeant(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	for _, tc := range []struct{ args, says string }{
		{"jbo ls", "did you mean 'spotferry job'?"},
		{"job sohw x", "did you mean 'spotferry job show'?"},
		{"frobnicate", "'spotferry --help' lists its commands"},
		{"help job lgos", "did you mean 'spotferry job logs'?"},
		{"offers --regoin north", "did you mean --region?"},
		{"offers --zzz", "'spotferry offers --help' lists its flags"},
		{"job show", "spotferry job show needs JOB"},
		{"job show a b", `does not take "b"`},
		{"job ls -o xml", "give one of table, wide, json, yaml, name"},
		{"failover show x three", "is not the number of a failover"},
		{"failover ls --since yesterday", "write a span such as 90m"},
		{"job logs x --tail many", "invalid argument"},
		{"run testdata/train.yaml --env NOPE", "this shell has no such variable"},
		{"run", "spotferry run needs FILE"},
	} {
		got := r.run(strings.Fields(tc.args)...)
		if got.code != 2 || !strings.Contains(got.err, tc.says) || got.out != "" {
			t.Errorf("%s: exit %d, %q, %s\nwant %q", tc.args, got.code, got.out, got.err, tc.says)
		}
	}
}

func TestProblemsOfTheSystemAreToldWithTheirRemedy(t *testing.T) {
	t.Parallel()
	a := system()
	a[console.GetJob] = always(&console.Problem{Code: "not-found", Message: `no job is called "` + hostile + `"`, Remedy: "'spotferry job ls' lists them"})
	r := newRig(t, a)
	got := r.run("job", "show", "x")
	if got.code != 102 || !strings.Contains(got.err, "\n  'spotferry job ls' lists them\n") || unsafeIn(got.err) {
		t.Errorf("exit %d, %q", got.code, got.err)
	}
	if got := r.run("checkpoint", "show", "x", "999"); got.code != 102 {
		t.Errorf("exit %d, %s", got.code, got.err)
	}
	if got := r.run("failover", "show", "x", "9"); got.code != 102 {
		t.Errorf("exit %d, %s", got.code, got.err)
	}
	r.setAway(true)
	if got := r.run("job", "ls"); got.code != 4 || strings.Count(got.err, "\n") != 1 {
		t.Errorf("exit %d, %q", got.code, got.err)
	}
}
