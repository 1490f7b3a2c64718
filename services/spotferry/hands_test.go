package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
)

// cannedHold is one of the pool that is the cheapest.
func cannedHold(whole bool) *console.Hold {
	h := &console.Hold{Seller: "local", By: "bob", Reason: "slow disks " + hostile, Since: now.Add(-90 * time.Minute), Event: "ops-local-7"}
	if !whole {
		p := pool("north-b", events.Spot)
		h.Pool = &p
	}
	return h
}

// operated is the canned system as operations see it, and what they do to it.
func operated() answers {
	a := system()
	held := console.Ops{Holds: []console.Hold{*cannedHold(false)}}
	from, to := cannedSide(3, "north-b"), pool("north-a", events.Spot)
	a[console.GetOps] = always(held)
	a[console.GetSellers] = always([]console.Seller{{Name: "aws", Pools: 40, Machines: 2, Held: cannedHold(true)}, {Name: "local", Pools: 3, Holds: 1, Machines: 1}})
	a[console.GetPools] = always([]console.Pool{
		{Pool: pool("north-a", events.OnDemand), Quoted: true, Price: 3_060_000_000, AgeMS: 3000},
		{Pool: pool("north-a", events.Spot), Quoted: true, Price: 880_000_000, AgeMS: 2000},
		{Pool: pool("north-b", events.Spot), Held: cannedHold(false)},
	})
	a[console.GetBudget] = always([]console.Budget{{
		Job: cannedJob, Name: "llama-7b", Status: "running", Limit: 20 * events.Dollar, Spent: 1_230_000, Reserved: 500_000, Free: 18_270_000,
		Limits: []console.Limit{{Amount: 15 * events.Dollar, By: "alice", Reason: "submission", At: start}, {Amount: 20 * events.Dollar, By: "bob", Reason: "two more epochs " + hostile, At: start.Add(time.Hour)}},
	}})
	a[console.GetReapable] = always([]console.Reapable{{Instance: "i-0666", Pool: pool("north-c", events.Spot), Token: "x-1-1", State: "running", Price: 880_000_000, Why: "its token " + hostile + " names no lease of ours"}})
	a[console.GetDrill] = always(console.Drill{
		Job: cannedJob, Name: "llama-7b", Status: "running", Possible: true, From: &from, To: &to, Price: 880_000_000, BothS: 600, Machine: 146_667,
		LostS: 1800, Lost: 459_000, Expected: 605_667, Most: 300_000, Free: 18_270_000,
	})
	for _, v := range []console.Verb{console.DoHold, console.DoRelease, console.DoUnfreeze} {
		a[v] = always(held)
	}
	a[console.DoFreeze] = always(console.Ops{Freeze: &console.Freeze{By: "alice", Reason: "incident 7", Since: now}, UnderWay: []events.LeaseID{cannedJob.Lease(4, 1)}})
	for _, v := range []console.Verb{console.DoPause, console.DoResume, console.DoMigrate, console.DoDrill} {
		a[v] = always(cannedRunning())
	}
	a[console.DoBudget] = always(console.Budget{Job: cannedJob, Name: "llama-7b", Limit: 80 * events.Dollar})
	a[console.DoReap] = a[console.GetReapable]
	for _, v := range []console.Verb{console.DoPin, console.DoUnpin, console.DoDrop} {
		a[v] = always(cannedCheckpoints())
	}
	a[console.DoCollect] = always(gateway.Collected{Job: cannedJob, Dropped: []string{"e2-s900"}, Objects: 3, Bytes: 5_000_000})
	return a
}

func TestWhatOperationsReadPrintsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"seller-ls": {"seller", "ls"}, "pool-ls": {"pool", "ls"}, "budget-show": {"budget", "show"}, "budget-show-job": {"budget", "show", "llama-7b"},
		"instance-reap": {"instance", "reap", "--dry-run"},
	} {
		r := newRig(t, operated())
		for _, format := range formats() {
			got := r.run(append(args, "--utc", "-o", format)...)
			if got.code != 0 || unsafeIn(got.out) {
				t.Errorf("%s -o %s: exit %d: %s%q", name, format, got.code, got.err, got.out)
			}
			if format != "yaml" {
				golden(t, name+"-"+format, got.out)
			}
		}
		if r.ask(console.DoReap) != 0 {
			t.Error("a dry run did something")
		}
	}
}

// acting is every command that changes something but submit, with arguments and
// what it sends, and nothing else: -y stands for the answers to its questions.
func acting() map[string]struct {
	args []string
	verb console.Verb
	sent string
} {
	type a = struct {
		args []string
		verb console.Verb
		sent string
	}
	b := `{"seller":"local","region":"north","zone":"north-b","instance_type":"v100.1","capacity_type":"spot","gang_size":1}`
	job := string(cannedJob)
	return map[string]a{
		"seller hold":      {[]string{"aws"}, console.DoHold, `{"seller":"aws","reason":"because"}`},
		"seller release":   {[]string{"aws"}, console.DoRelease, `{"seller":"aws","reason":"because"}`},
		"pool hold":        {[]string{"local/north-b/v100.1/spot"}, console.DoHold, `{"pools":[` + b + `],"reason":"because"}`},
		"pool release":     {[]string{"--zone", "NORTH-B"}, console.DoRelease, `{"pools":[` + b + `],"reason":"because"}`},
		"freeze":           {nil, console.DoFreeze, `{"reason":"because"}`},
		"unfreeze":         {nil, console.DoUnfreeze, `{"reason":"because"}`},
		"job cancel":       {[]string{"llama-7b", "-y"}, console.DoCancel, `{"job":"` + job + `","reason":"because"}`},
		"job pause":        {[]string{"llama-7b"}, console.DoPause, `{"job":"llama-7b","reason":"because"}`},
		"job resume":       {[]string{"llama-7b"}, console.DoResume, `{"job":"llama-7b","reason":"because"}`},
		"job migrate":      {[]string{"llama-7b"}, console.DoMigrate, `{"job":"llama-7b","reason":"because"}`},
		"job drill":        {[]string{"llama-7b", "-y", "-d", "--deadline", "1m30s"}, console.DoDrill, `{"job":"` + job + `","deadline_s":90,"reason":"because"}`},
		"budget set":       {[]string{"llama-7b", "$80"}, console.DoBudget, `{"job":"llama-7b","limit":"80.000000","reason":"because"}`},
		"checkpoint pin":   {[]string{"llama-7b", "1060"}, console.DoPin, `{"job":"llama-7b","names":["e2-s1060"],"reason":"because"}`},
		"checkpoint unpin": {[]string{"llama-7b", "1060"}, console.DoUnpin, `{"job":"llama-7b","names":["e2-s1060"],"reason":"because"}`},
		"checkpoint rm":    {[]string{"llama-7b", "1000", "-y"}, console.DoDrop, `{"job":"llama-7b","names":["e2-s1000"],"reason":"because"}`},
		"checkpoint gc":    {[]string{"llama-7b"}, console.DoCollect, `{"job":"llama-7b","reason":"because"}`},
		"instance reap":    {[]string{"i-0666", "-y"}, console.DoReap, `{"instances":["i-0666"],"reason":"because"}`},
	}
}

func TestEveryActSaysWhyAndSendsWhatWasMeant(t *testing.T) {
	t.Parallel()
	for name, a := range acting() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, operated())
			words := append(strings.Fields(name), a.args...)
			for _, why := range [][]string{nil, {"--reason", "  "}} {
				if got := r.run(append(words, why...)...); got.code != 2 || !strings.Contains(got.err, "needs a reason") || !strings.Contains(got.err, "--reason") {
					t.Errorf("without a reason: exit %d, %s", got.code, got.err)
				}
			}
			if r.ask(a.verb) != 0 {
				t.Fatal("it was done without a reason")
			}
			if got := r.run(append(words, "--reason", " because ")...); got.code != 0 || unsafeIn(got.out) || got.out == "" {
				t.Fatalf("exit %d: %s%s", got.code, got.out, got.err)
			}
			if got := string(r.sent[a.verb]); got != a.sent {
				t.Errorf("sent %s\nwant %s", got, a.sent)
			}
		})
	}
}

// TestEveryCommandThatChangesSomethingIsAmongThem: a new one cannot be forgotten.
func TestEveryCommandThatChangesSomethingIsAmongThem(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := newRig(t, nil)
	var walk func(c *cobra.Command, path string)
	known := acting()
	found := 0
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			name := strings.TrimSpace(path + " " + sub.Name())
			walk(sub, name)
			if sub.Flags().Lookup("reason") == nil {
				continue
			}
			if found++; known[name].verb == "" {
				t.Errorf("%q takes a reason and is in no test", name)
			}
		}
	}
	walk(rootCommand(r.environment(&out, &out)), "")
	if found != len(known) {
		t.Errorf("%d commands take a reason, want %d", found, len(known))
	}
}

func TestWhatCostsOrEndsSomethingAsksFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		verb console.Verb
		asks string
	}{
		"a drill, with its cost":           {[]string{"job", "drill", "llama-7b", "-d"}, console.DoDrill, "about $0.61?"},
		"a budget below what is committed": {[]string{"budget", "set", "llama-7b", "1"}, console.DoBudget, "has spent $1.23 and has $0.50 reserved"},
		"reaping":                          {[]string{"instance", "reap"}, console.DoReap, "End 1 machine?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(tc.args, "--reason", "because")
			r := newRig(t, operated())
			if got := r.run(append(args, "--no-input")...); got.code != 2 || !strings.Contains(got.err, "-y") || r.ask(tc.verb) != 0 {
				t.Errorf("nobody to ask: exit %d, %s", got.code, got.err)
			}
			r.tty, r.stdin = true, strings.NewReader("n\n")
			if got := r.run(args...); got.code != 103 || !strings.Contains(got.err, tc.asks) || r.ask(tc.verb) != 0 {
				t.Errorf("no: exit %d, %s", got.code, got.err)
			}
			r.stdin = strings.NewReader("y\n")
			if got := r.run(args...); got.code != 0 || r.ask(tc.verb) != 1 {
				t.Errorf("yes: exit %d, %s", got.code, got.err)
			}
		})
	}
	r := newRig(t, operated())
	if got := r.run("budget", "set", "llama-7b", "80", "--reason", "more"); got.code != 0 {
		t.Errorf("a raise is not asked about: exit %d, %s", got.code, got.err)
	}
}

func TestADrillShowsItsCostAndIsFollowedToItsRecord(t *testing.T) {
	t.Parallel()
	a := operated()
	report := console.FailoverReport{Failover: cannedFailover(), Of: 2}
	report.Record.N, report.Record.Drill = 2, true
	drilled := false
	looks := 0
	a[console.DoDrill] = func([]byte) any { drilled = true; return cannedRunning() }
	a[console.GetJob] = func([]byte) any {
		j := cannedRunning()
		if drilled {
			if looks++; looks > 3 {
				j.Failovers = 2
			}
		}
		return j
	}
	a[console.GetFailover] = always(report)
	r := newRig(t, a)
	got := r.run("job", "drill", "llama-7b", "--no-notice", "-y", "--reason", "rehearsal")
	for _, want := range []string{"is done again", "$0.46", "expected", "$0.61"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("the cost does not say %q: %s", want, got.err)
		}
	}
	if got.code != 0 || !strings.Contains(got.out, "failover 2 of 2") || !strings.Contains(got.out, "drill") || looks < 4 {
		t.Errorf("exit %d, %d looks:\n%s%s", got.code, looks, got.out, got.err)
	}
	var q console.FailoverQuery
	if err := json.Unmarshal(r.sent[console.GetFailover], &q); err != nil || q.N != 2 || q.Job != string(cannedJob) {
		t.Errorf("asked for %+v, %v", q, err)
	}
	if got := r.run("job", "drill", "llama-7b", "--no-notice", "--deadline", "10s", "-y", "--reason", "x"); got.code != 2 {
		t.Errorf("no notice and a deadline: exit %d", got.code)
	}
}

func TestADrillThatIsNotPossibleSaysWhyAndDoesNothing(t *testing.T) {
	t.Parallel()
	a := operated()
	a[console.GetDrill] = always(console.Drill{Job: cannedJob, Name: "llama-7b", Why: "the job is waiting: only a running one has a machine to leave"})
	r := newRig(t, a)
	if got := r.run("job", "drill", "llama-7b", "-y", "--reason", "x"); got.code != 6 || !strings.Contains(got.err, "only a running one") || r.ask(console.DoDrill) != 0 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

func TestWhatIsForbiddenExitsWithItsCode(t *testing.T) {
	t.Parallel()
	a := operated()
	a[console.DoFreeze] = always(&console.Problem{Code: "forbidden", Message: "freeze needs the role operator; alice has viewer", Remedy: "ask for it"})
	if got := newRig(t, a).run("freeze", "--reason", "x"); got.code != 3 || !strings.Contains(got.err, "needs the role operator") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

func TestPoolsAreNamedOrNarrowed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		code int
		sent string
	}{
		"by name":                   {[]string{"local/north-a/v100.1/on-demand"}, 0, "north-a/v100.1/on-demand"},
		"all of a zone":             {[]string{"--zone", "north-a"}, 0, "north-a/v100.1/on-demand north-a/v100.1/spot"},
		"all of a capacity type":    {[]string{"--capacity", "SPOT"}, 0, "north-a/v100.1/spot north-b/v100.1/spot"},
		"one that nobody quotes":    {[]string{"--seller", "aws", "--region", "eu", "--zone", "eu-a", "--type", "p5", "--capacity", "spot"}, 0, "eu-a/p5/spot"},
		"one that is not there":     {[]string{"--seller", "aws"}, 102, ""},
		"nothing":                   {nil, 2, ""},
		"a name that is misspelled": {[]string{"local/north-a"}, 102, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, operated())
			got := r.run(append([]string{"pool", "hold", "--reason", "x"}, tc.args...)...)
			var sent console.HoldRequest
			_ = json.Unmarshal(r.sent[console.DoHold], &sent)
			var names []string
			for _, p := range sent.Pools {
				names = append(names, strings.SplitN(p.String(), "/", 2)[1])
			}
			if got.code != tc.code || strings.Join(names, " ") != tc.sent {
				t.Errorf("exit %d, held %v: %s", got.code, names, got.err)
			}
		})
	}
}

// TestATailHoldsItsPlaceWhileTheSystemComesAndGoes: whatever happens between two
// looks, each event is printed once and in order.
func TestATailHoldsItsPlaceWhileTheSystemComesAndGoes(t *testing.T) {
	t.Parallel()
	const all = 60
	var mu sync.Mutex
	there, looks := 5, 0
	a := answers{}
	ctx, cancel := context.WithCancel(t.Context())
	a[console.GetEvents] = func(body []byte) any {
		mu.Lock()
		defer mu.Unlock()
		var q console.Query
		_ = json.Unmarshal(body, &q)
		if len(q.Types) != 1 || q.Types[0] != "job.committed" || q.Job != "llama-7b" {
			return &console.Problem{Code: "invalid", Message: "the filter was lost"}
		}
		if looks++; looks%7 == 3 { // a system that starts is asked too early
			return &console.Problem{Code: "unavailable", Message: "starting"}
		}
		p := entryPage{Entries: []entry{}, Next: q.After}
		for n := q.After + 1; n <= uint64(there) && len(p.Entries) < 4; n++ {
			p.Entries, p.Next = append(p.Entries, cannedEntry(n, 0, fmt.Sprint(n), "job.committed", "", events.JobCommitted{})), n
		}
		p.More = p.Next < uint64(there)
		if there < all {
			there += looks % 3
		} else if q.After == all { // all of them are printed
			cancel()
		}
		return p
	}
	r := newRig(t, a)
	r.tune = func(e *environment) {
		open, opened := e.open, 0
		e.open = func(ctx context.Context, dir string, readable bool) (session, error) {
			if opened++; opened > 1 && readable {
				t.Error("the state of a system that is to come back was opened")
			}
			return open(ctx, dir, readable)
		}
	}
	go func() {
		for ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
			r.setAway(true)
			time.Sleep(3 * time.Millisecond)
			r.setAway(false)
		}
	}()
	got := r.runIn(ctx, "events", "tail", "--job", "llama-7b", "--type", "job.committed", "--last", "100", "-o", "name")
	var want strings.Builder
	for n := 1; n <= all; n++ {
		fmt.Fprintf(&want, "%d-1\n", n)
	}
	if got.code != int(exitInterrupted) || got.out != want.String() {
		t.Errorf("exit %d, printed\n%s\n%s", got.code, got.out, got.err)
	}
}

func TestWhatATailTakes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a type":                    {[]string{"--type", "ops.frozen,lease"}, 0, ""},
		"a type that is misspelled": {[]string{"--type", "job.lots"}, 2, "job.lost"},
		"a time":                    {[]string{"--since", "12h"}, 0, ""},
		"no time":                   {[]string{"--since", "yesterday"}, 2, ""},
	} {
		r := newRig(t, operated())
		got := r.run(append([]string{"events", "tail", "--no-follow"}, tc.args...)...)
		if got.code != tc.code || !strings.Contains(got.err, tc.says) {
			t.Errorf("%s: exit %d, %s", name, got.code, got.err)
		}
		if tc.code != 0 {
			continue
		}
		var q console.Query
		if err := json.Unmarshal(r.sent[console.GetEvents], &q); err != nil || (len(q.Types) == 0) == q.Since.IsZero() {
			t.Errorf("%s: asked %+v, %v", name, q, err)
		}
	}
}
