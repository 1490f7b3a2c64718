package events

import (
	"errors"
	"testing"
)

func TestAFailoversTraceFollowsFromItsFirstSign(t *testing.T) {
	t.Parallel()
	const sign = EventID("01k5c3v7q2w8r9t0y1z2x3m4n5-7")
	first := FailoverTrace(sign)
	// The value is fixed: two versions of the program have to agree on it.
	if got, want := Traceparent(first, first.Span(RootSpan)), "00-cd56fe70c73e2f2ff5908f3820af89db-be34f7baf02e1846-01"; got != want {
		t.Errorf("traceparent %s, want %s", got, want)
	}
	if (Failover{N: 3, Evidence: []EventID{sign, "x-1"}}).Trace() != first || first == FailoverTrace(sign+"0") || (Failover{}).Trace() == first {
		t.Error("the same move has the same trace, and no other has it")
	}
	if first.Span("boot") == first.Span("save") || first.Span("boot") == FailoverTrace("x-1").Span("boot") {
		t.Error("two spans share an id")
	}
}

func TestTraceparents(t *testing.T) {
	t.Parallel()
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, tc := range []struct {
		name, s string
		ok      bool
	}{
		{"as the standard shows it", "00-" + id + "-" + span + "-01", true},
		{"not sampled", "00-" + id + "-" + span + "-00", true},
		{"of a later version, with more", "cc-" + id + "-" + span + "-01-what-the-future-brings", true},
		{"version 00 has no more", "00-" + id + "-" + span + "-01-more", false},
		{"version ff is none", "ff-" + id + "-" + span + "-01", false},
		{"upper case", "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + span + "-01", false},
		{"no trace", "00-00000000000000000000000000000000-" + span + "-01", false},
		{"no span", "00-" + id + "-0000000000000000-01", false},
		{"too short", "00-" + id + "-" + span, false},
		{"too long", "00-" + id + "00-" + span + "-01", false},
		{"not hex", "00-" + id[:31] + "g-" + span + "-01", false},
		{"flags that are not hex", "00-" + id + "-" + span + "-zz", false},
		{"nothing", "", false},
		{"garbage", "\x00-\xff-\n-", false},
	} {
		tr, sp, err := ParseTraceparent(tc.s)
		switch {
		case (err == nil) != tc.ok:
			t.Errorf("%s: %v", tc.name, err)
		case tc.ok && (tr.String() != id || sp.String() != span):
			t.Errorf("%s: %s, %s", tc.name, tr, sp)
		case !tc.ok && (!errors.Is(err, ErrTraceparent) || tr != TraceID{} || sp != SpanID{}):
			t.Errorf("%s: %v, %s, %s", tc.name, err, tr, sp)
		}
	}
}

func FuzzParseTraceparent(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Fuzz(func(t *testing.T, s string) {
		tr, sp, err := ParseTraceparent(s)
		if again := Traceparent(tr, sp); err == nil && s[:2] == "00" && s[:53] != again[:53] {
			t.Errorf("%q is written as %q", s, again)
		}
	})
}
