package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// settled compares the ledger with the meter of some jobs that are closed, finds nothing left
// of them, and has the figures stay when nobody serves.
func (s *installation) settled(jobs ...string) {
	t := s.t
	t.Helper()
	r := readRecords(t, s.evidence)
	bills := r.bills(t)
	for _, job := range jobs {
		bill := ask1[struct {
			Total    string `json:"total"`
			Reserved string `json:"reserved"`
			Finality string `json:"finality"`
		}](s, "bill", "show", job)
		if want := dollarsOf(of(bills, job)); bill.Total != want || bill.Reserved != dollarsOf(0) || bill.Finality != "final" {
			t.Errorf("job %s: the ledger says %+v, the meter %s", job, bill, want)
		}
	}
	left := ask1[struct {
		Items []struct{ State, Seller string } `json:"items"`
	}](s, "instance", "ls")
	if len(left.Items) != 0 {
		t.Errorf("instances are left: %+v", left.Items)
	}
	until(t, "the last host has left", func() bool { return len(s.processes()) == 0 })
	before := s.figures(jobs...)
	s.stop()
	for what, after := range s.figures(jobs...) {
		same(t, what, before[what], after)
	}
}

// dollarsOf writes micro-dollars as -o json does.
func dollarsOf(micros int64) string { return fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6) }

// same compares what two commands printed.
func same(t *testing.T, what string, before, after result) {
	t.Helper()
	if before.code != 0 || after.code != 0 {
		t.Errorf("%s: exit %d then %d: %s%s", what, before.code, after.code, before.err, after.err)
	}
	if before.out == after.out {
		return
	}
	b, a := strings.Split(before.out, "\n"), strings.Split(after.out, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Errorf("%s: line %d was %q, is %q", what, i+1, b[i], a[i])
			return
		}
	}
	t.Errorf("%s: had %d lines, has %d", what, len(b), len(a))
}

// figures are what the reading commands say of the jobs.
func (s *installation) figures(jobs ...string) map[string]result {
	s.t.Helper()
	all := map[string]result{}
	commands := [][]string{{"failover", "ls"}, {"bill", "show"}, {"job", "ls"}}
	for _, j := range jobs {
		commands = append(commands, []string{"job", "show", j}, []string{"bill", "show", j})
	}
	for _, c := range commands {
		all[strings.Join(c, " ")] = s.command(append(slices.Clone(c), "-o", "json")...)
	}
	return all
}
