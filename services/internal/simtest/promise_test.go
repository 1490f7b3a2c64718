package simtest

import (
	"testing"
	"time"
)

// Each of these worlds is full of one sort of trouble, so that what is promised
// about it is put to the test in minutes; TestSeeds mixes them all.
func TestPromisesUnderOneSortOfTrouble(t *testing.T) {
	for _, tc := range []struct {
		name    string
		seeds   []uint64
		trouble func(*trouble)
		met     []string
	}{
		{"lists that lack machines prove no absence", []uint64{2}, func(t *trouble) {
			t.partial, t.lost, t.reclaim = 0.7, 0.4, 15*time.Minute
		}, []string{"seller: list partial", "seller: launch unanswered"}},
		{"a machine too many is given back on complete lists alone", []uint64{14, 15}, func(t *trouble) {
			t.partial, t.twice, t.reclaim = 0.8, 0.8, 10*time.Minute
		}, []string{"seller: list partial", "seller: launch twice", "machine that nobody ordered"}},
		{"launches without an answer come to one machine or none", []uint64{3}, func(t *trouble) {
			t.lost, t.reclaim, t.crash = 0.6, 8*time.Minute, 15*time.Minute
		}, []string{"seller: launch unanswered"}},
		{"tight budgets are kept at every commitment", []uint64{4, 5}, func(t *trouble) {
			t.tight, t.reclaim, t.lost = true, 9*time.Minute, 0.3
		}, []string{"job out of budget"}},
		{"an end is asked for until the seller confirms it", []uint64{6}, func(t *trouble) {
			t.deaf, t.reclaim, t.cancels = 0.8, 12*time.Minute, true
		}, []string{"seller: terminate accepted without effect"}},
		{"nothing is given up because time has passed", []uint64{16, 17}, func(t *trouble) {
			t.deaf, t.tight, t.reclaim = 0.98, true, 14*time.Minute
		}, []string{"seller: terminate accepted without effect", "machine that outlived its end"}},
		{"a machine may save until its notice ends", []uint64{12, 18}, func(t *trouble) {
			t.object, t.reclaim = 0.45, 6*time.Minute
		}, []string{"store: put refused", "reclaim with notice"}},
		{"wall clocks that are set change nothing", []uint64{7}, func(t *trouble) {
			t.steps, t.partition = 50*time.Second, 6*time.Minute
		}, []string{"machine's wall clock is set", "partition past the hold"}},
		{"a job whose checkpoints are all lost does not begin anew", []uint64{8}, func(t *trouble) {
			t.ruin = 6 * time.Minute
		}, []string{"store: every checkpoint of a job lost", "job ended for want of a checkpoint"}},
		{"a fair warning is used in full", []uint64{12, 13}, func(t *trouble) {
			t.reclaim = 5 * time.Minute
		}, []string{"machine taken after a fair warning"}},
		{"what the ledger was told before it died is charged", []uint64{9}, func(t *trouble) {
			t.crash, t.only, t.reclaim = 100*time.Second, " ledger on lease.", 8*time.Minute
		}, []string{"crash: before ledger on lease.ended"}},
		{"what failover was told before it died is carried on", []uint64{10}, func(t *trouble) {
			t.crash, t.only, t.reclaim = 100*time.Second, " failover on lease.", 8*time.Minute
		}, []string{"crash: before failover on lease.ended", "crash: before failover on lease.launched"}},
		{"what the bidder was told before it died is bought", []uint64{11}, func(t *trouble) {
			t.crash, t.only, t.reclaim = 100*time.Second, " bidder on job.", 8*time.Minute
		}, []string{"crash: before bidder on job."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHits()
			for _, seed := range tc.seeds {
				o := options{hours: 1.5, jobs: 3, trouble: quiet}
				tc.trouble(&o.trouble)
				v := simulate(t, seed, h, o)
				v.report(t, seed, o)
				t.Logf("seed %d: %s", seed, v.load)
			}
			for _, m := range tc.met {
				if !h.met(m) {
					t.Errorf("never met: %s", m)
				}
			}
		})
	}
}
