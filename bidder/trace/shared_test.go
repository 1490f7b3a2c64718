package trace

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// sharedTraces returns the directory of the recorded traces. They lie beside the
// repository, not in it: without them the test is skipped, but not on CI.
func sharedTraces(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SPOTFERRY_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	dir = filepath.Join(dir, "traces")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v: put the traces beside the repository, or set SPOTFERRY_SHARED", err)
		}
		t.Skipf("the recorded traces are not here: %v", err)
	}
	return dir
}

func TestLawsMatchTheTracesTheyName(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join(sharedTraces(t), "lifetimes", "run_length_summary.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range modelPools() {
		if p.lawOf == "" {
			continue
		}
		found := false
		for _, r := range rows[1:] {
			first, later := number(r[12]), number(r[13])
			if r[1] != p.lawOf || first != p.law.First || later != p.law.Later {
				continue
			}
			found = true
			mean, median := p.law.Mean().Hours()/number(r[6]), p.law.Median().Hours()/number(r[7])
			t.Logf("%s/%s: mean %.2f, median %.2f of the measured (%s)", p.zone, p.typ, mean, median, r[0])
			if math.Abs(math.Log(mean)) > math.Log(4./3) || math.Abs(math.Log(median)) > math.Log(4./3) {
				t.Errorf("%s/%s: mean life %.2f times and median %.2f times the measured", p.zone, p.typ, mean, median)
			}
		}
		if !found {
			t.Errorf("%s/%s: no trace %s with hazards %+v", p.zone, p.typ, p.lawOf, p.law)
		}
	}
}

func number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func recorded(t *testing.T, f Files, origin time.Time) *Recorded {
	t.Helper()
	f.Dir = sharedTraces(t)
	m, err := OpenFiles(f, "local", origin)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRecordedMarketIsTheRecording(t *testing.T) {
	t.Parallel()
	m := recorded(t, Files{StartTick: 2658, RestartTicks: 2}, time.Time{})
	if len(m.Pools()) != 12 {
		t.Fatalf("%d pools, want nine of spot and one on demand a region", len(m.Pools()))
	}
	if s := m.Start(); s.Unix()%195 != 0 || m.Tick(s) != 2658 || m.Tick(s.Add(-1)) != 2657 {
		t.Fatalf("start tick begins at %v", s)
	}
	if first := m.Begins(0); first.After(recordedAt) || recordedAt.Sub(first) >= TickLength {
		t.Errorf("tick 0 begins at %v", first)
	}
	for _, i := range m.Pools() {
		p := i.Offer.Pool
		if i.Boot != 2*TickLength || i.OnDemand.Region != p.Region {
			t.Errorf("%v: %+v", p, i)
		}
		if p.Capacity == events.OnDemand && (m.Price(p, m.Start()).Price != v100OnDemand || !m.InStock(p, m.Start()) || m.Reclaims(p, "k", m.Start()) != nil) {
			t.Errorf("%v: on demand has %v", p, m.Price(p, m.Start()))
		}
	}
}

// TestRecordedAnswersAreTheTicks asks at every tick of a week, and in it, and
// compares with the raw columns.
func TestRecordedAnswersAreTheTicks(t *testing.T) {
	t.Parallel()
	m := recorded(t, Files{}, t0)
	for p, s := range m.zones {
		for i := 300; i < 3400; i++ {
			at := m.Begins(i).Add(TickLength / 3)
			if m.InStock(p, at) != s.up[i] || m.Price(p, at).Price != s.price[i] {
				t.Fatalf("%v, tick %d: in stock %v at %v", p, i, m.InStock(p, at), m.Price(p, at))
			}
			if !s.up[i] {
				continue
			}
			gone := i + 1
			for s.up[gone] {
				gone++
			}
			rs := m.Reclaims(p, "k", at)
			if len(rs) != 1 || !rs[0].At.Equal(m.Begins(gone)) || rs[0].Kind != Unnoticed {
				t.Fatalf("%v, tick %d: %+v, want gone at tick %d", p, i, rs, gone)
			}
			if next := m.NextChange(p, at); next.After(rs[0].At) || m.Tick(next) <= i {
				t.Fatalf("%v, tick %d: next change %v", p, i, next)
			}
		}
	}
}

func TestTheEndOfTheRecordingEndsEveryMachine(t *testing.T) {
	t.Parallel()
	m := recorded(t, Files{NoticeS: 2}, t0)
	p := m.Pools()[8].Offer.Pool
	end := m.Begins(m.ticks)
	rs := m.Reclaims(p, "k", end.Add(-time.Second))
	if len(rs) != 1 || !rs[0].At.Equal(end) || rs[0].Notice != 2*time.Second || m.InStock(p, end) || m.InStock(p, m.Begins(-1)) {
		t.Errorf("reclaims %+v, end %v", rs, end)
	}
}

func TestBaselines(t *testing.T) {
	t.Parallel()
	b, err := OpenBaselines(sharedTraces(t))
	if err != nil {
		t.Fatal(err)
	}
	best, ok := b.Baseline(AllZones, 886, 1108, 2, 2658, Omniscient)
	up, ok2 := b.Baseline(AllZones, 886, 1108, 2, 2658, UniformProgress)
	if !ok || !ok2 || best <= 0 || up < best || up > 1 {
		t.Errorf("omniscient %v %v, uniform progress %v %v", best, ok, up, ok2)
	}
	if _, ok := b.Baseline(AllZones, 886, 1108, 2, 2659, Omniscient); ok {
		t.Error("a start that is not in the table has a baseline")
	}
	t.Logf("start 2658, ratio 1.25: omniscient %.6f, uniform progress %.6f", best, up)
}
