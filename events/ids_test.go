package events_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

func TestLeaseIDsComeApartAsTheyWereMade(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		job := events.JobID(rapid.StringMatching(`[0-9a-hjkmnp-tv-z]{26}`).Draw(t, "job"))
		epoch, n := rapid.IntRange(1, 1<<30).Draw(t, "epoch"), rapid.IntRange(1, 1<<30).Draw(t, "n")
		l := job.Lease(epoch, n)
		j, e, m, err := l.Parts()
		if err != nil || j != job || e != epoch || m != n || l.Job() != job {
			t.Fatalf("%s comes apart as %s, %d, %d, %v", l, j, e, m, err)
		}
		if err := events.CheckToken("lease", string(l)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOneLeaseHasOneID(t *testing.T) {
	t.Parallel()
	for _, l := range []events.LeaseID{"", "job", "job-1", "job-1-1-1", "job-0-1", "job-1-0", "job--1-1", "job-01-1", "job-1-+1", "job-1-1 ", "job-1e1-1"} {
		if job, epoch, n, err := l.Parts(); err == nil {
			t.Errorf("%q is read as %s, %d, %d", l, job, epoch, n)
		}
	}
}

func TestTokensFitIntoSubjects(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		if err := events.CheckToken("x", events.Token(s)); err != nil {
			t.Fatalf("Token(%q): %v", s, err)
		}
		if events.CheckToken("x", s) == nil && events.Token(s) != s {
			t.Fatalf("%q is a token and becomes %q", s, events.Token(s))
		}
	})
}

func TestCheckTokenNamesTheField(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "A", "a.b", "*", ">", "a b", "..", "a/b", "é", "a\n", "\x00", strings.Repeat("a", 65)} {
		if err := events.CheckToken("org", s); err == nil || !strings.HasPrefix(err.Error(), "org ") {
			t.Errorf("CheckToken(%q) = %v, want an error that names org", s, err)
		}
	}
	for _, s := range []string{"a", "0", "a-b_c", strings.Repeat("a", 64)} {
		if err := events.CheckToken("org", s); err != nil {
			t.Error(err)
		}
	}
}

func TestAgentSubjectsComeApartAsTheyWereMade(t *testing.T) {
	t.Parallel()
	for _, v := range []events.Verb{events.VerbJoin, events.VerbRenew, events.VerbNotice, events.VerbCommit, events.VerbGrant, events.VerbReject, events.VerbDone, events.VerbLog} {
		job, epoch, verb, err := events.ParseAgentSubject(events.AgentSubject("j", 12, v))
		if err != nil || job != "j" || epoch != 12 || verb != v {
			t.Errorf("%s: %s, %d, %s, %v", v, job, epoch, verb, err)
		}
	}
	for _, s := range []string{"", "agent", "agent.j.1", "agent.j.0.join", "agent.j.-1.join", "agent.j.01.join", "agent.j.+1.join", "agent.j.x.join", "agent.j.1.join.x", "down.j.1.join"} {
		if job, epoch, _, err := events.ParseAgentSubject(s); err == nil {
			t.Errorf("%q is read as %s, %d", s, job, epoch)
		}
	}
}
