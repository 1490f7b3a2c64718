package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// targets are what is killed: programs by their name, and what is on a machine.
func targets() []string {
	return []string{"watcher", "bidder", "failover", "gateway", "ledger", "provider-local", "console", "bus", "agent", "trainer"}
}

const (
	leastEach   = 3  // kills of each target in a whole run
	leastInside = 15 // of all, inside a failover
	leastPoints = 15 // different named points at which a program killed itself
)

// stroke is one planned kill.
type stroke struct {
	target  string
	replica int
	inside  bool          // a failover, which is provoked if none is going on
	wait    time.Duration // before it; inside a failover: after its beginning was seen
	down    time.Duration // until the program is started again
}

// plan draws the kills of a run. Every target comes up at least leastEach times in
// a run of at least as many kills as that takes, and two in five fall inside a failover.
func plan(seed uint64, kills, replicas int) []stroke {
	r := rand.New(rand.NewPCG(seed, 0xC4A05))
	between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo))) }
	all := targets()
	var out []stroke
	for i := range kills {
		s := stroke{target: all[i%len(all)]}
		if i >= (leastEach+1)*len(all) {
			s.target = all[r.IntN(len(all))]
		}
		s.replica, s.inside = r.IntN(replicas), i%5 < 2
		s.wait, s.down = between(100*time.Millisecond, 1500*time.Millisecond), between(50*time.Millisecond, 1500*time.Millisecond)
		if s.inside {
			s.wait = between(0, 900*time.Millisecond)
		}
		out = append(out, s)
	}
	// Which of a target's kills fall inside must not follow from where it stands in the list.
	r.Shuffle(len(out), func(i, j int) { out[i].inside, out[j].inside = out[j].inside, out[i].inside })
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func TestAPlanIsTheSameForASeedAndHitsEverything(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		p := plan(seed, 60, 2)
		if !slices.Equal(p, plan(seed, 60, 2)) || slices.Equal(p, plan(seed+1, 60, 2)) {
			t.Fatalf("seed %d does not decide the plan", seed)
		}
		count, inside, second := map[string]int{}, 0, 0
		for _, s := range p {
			count[s.target]++
			if s.inside {
				inside++
			}
			second += s.replica
		}
		for _, target := range targets() {
			if count[target] < leastEach {
				t.Errorf("seed %d kills %s %d times", seed, target, count[target])
			}
		}
		if len(p) != 60 || inside < leastInside+3 || second == 0 {
			t.Errorf("seed %d: %d kills, %d inside, %d of second replicas", seed, len(p), inside, second)
		}
	}
}

// points are where programs kill themselves, as their code names them. Which comes
// up depends on what happens; more are named than have to be hit.
func points() []string {
	var out []string
	for program, names := range map[string][]string{
		"bidder": {"before-intent", "after-reserve", "after-intent", "after-call-before-response", "after-response-before-record",
			"before-terminate", "after-terminate-no-confirm", "confirmed-not-recorded", "before-append-of-lease.terminating", "after-bidder-on-job.noticed"},
		"ledger":   {"read-meter", "entry-no-ack", "before-append-of-money.settled", "after-append-of-money.settled"},
		"failover": {"after-append-of-job.leased", "before-append-of-job.leased", "after-failover-on-lease.launched", "after-append-of-job.released", "before-failover-on-lease.ended"},
		"gateway": {"after-append-of-job.joined", "before-append-of-job.placed", "after-append-of-job.placed", "after-append-of-job.started",
			"before-append-of-job.noticed", "after-append-of-job.noticed", "before-append-of-job.committed", "after-append-of-job.committed", "after-append-of-job.failed-over"},
	} {
		for _, n := range names {
			out = append(out, fmt.Sprintf("%s.%s", program, n))
		}
	}
	slices.Sort(out)
	return out
}
