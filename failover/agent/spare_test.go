package agent

import (
	"testing"
	"time"
)

// TestSpare: beside a trainer that leaves cores idle the link's share holds, and
// beside one that uses all of them a hundredth of them is what uploads cost.
func TestSpare(t *testing.T) {
	t.Parallel()
	const MB = 1_000_000
	for _, tc := range []struct {
		name        string
		cores       int
		idle, own   float64 // cores, while uploads run as they did
		sent        int64   // bytes a second, meanwhile
		limit, want int64   // bytes a second
	}{
		{"idle cores leave the link's share alone", 8, 4, 0.2, 100 * MB, 100 * MB, 100 * MB},
		{"no idle core: half of what is used is given back", 2, 0, 0.1, 50 * MB, 50 * MB, 25 * MB},
		{"many cores, all busy: a hundredth is a lot", 96, 0, 0.9, 500 * MB, 400 * MB, 400 * MB},
		{"who is alone finds what it uses itself and what is idle", 2, 1.9, 0.1, 50 * MB, 900 * MB, 900 * MB},
		{"a trainer that wakes up gets its cores back", 2, 0.02, 0.9, 450 * MB, 450 * MB, 225 * MB},
		{"nothing is known of the cost yet: it is assumed", 2, 0, 0, 0, 50 * MB, 10 * MB},
		{"without a limit none is asked for", 2, 2, 0, 0, 0, 0},
	} {
		var s spare
		s.look(time.Second, Load{Cores: tc.cores}, 0)
		s.look(2*time.Second, Load{tc.cores, seconds(tc.idle), seconds(tc.own)}, tc.sent)
		if tc.limit == 0 {
			s.rate = 0
		}
		if got := s.within(tc.limit, 0); got < tc.want*95/100 || got > tc.want*105/100 {
			t.Errorf("%s: %d bytes a second, want %d", tc.name, got, tc.want)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// TestSpareSettles: step by step uploads give back all but a hundredth.
func TestSpareSettles(t *testing.T) {
	t.Parallel()
	const perByte = 2e-9
	var s spare
	var own, idle float64
	var sent int64
	rate := int64(500_000_000)
	for second := range 10 {
		s.look(time.Duration(second+1)*time.Second, Load{2, seconds(idle), seconds(own)}, sent)
		rate = s.within(500_000_000, rate)
		own += perByte * float64(rate)
		sent += rate
	}
	if took := perByte * float64(rate) / 2; took > 0.012 {
		t.Errorf("uploads still take %.1f %% of the cores", 100*took)
	}
}

func TestReadLoad(t *testing.T) {
	l, ok := ReadLoad()
	if !ok {
		t.Skip("this kernel does not tell")
	}
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
	}
	again, _ := ReadLoad()
	if l.Cores < 1 || l.Idle <= 0 || again.Own-l.Own < 10*time.Millisecond {
		t.Errorf("load %+v, and after 50 ms of work %+v", l, again)
	}
}
