package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/dev"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// The experiment of the recorded market: one 48 h job on nine V100 zones, from
// one start tick, as the published baselines have it.
const (
	recordedScale    = 288
	recordedStart    = 2658          // tick
	recordedWork     = 886           // ticks: 48 hours
	recordedDeadline = 1108          // ticks: 1.25 times the work
	recordedRestart  = 2             // ticks, at every launch
	recordedOnDemand = 3_060_000_000 // nano-dollars an hour
)

// recorded is a run on a recorded market beside what others did with it. Costs
// are micro-dollars.
type recorded struct {
	Cost            int64   `json:"cost_micros"`
	OnDemand        int64   `json:"on_demand_micros"`
	Fraction        float64 `json:"cost_over_on_demand"`
	UniformProgress float64 `json:"uniform_progress"`
	Omniscient      float64 `json:"omniscient"`
}

func (d *demo) files48h() trace.Files {
	return trace.Files{Dir: d.market, StartTick: recordedStart, RestartTicks: recordedRestart}
}

func (d *demo) recorded(cfg *dev.Config) {
	f := d.files48h()
	cfg.Scale, cfg.Market = recordedScale, trace.Spec{Kind: "files", Files: &f}
}

// recordedJob writes the job file of the experiment.
func (d *demo) recordedJob() (string, error) {
	const tick = trace.TickLength
	work, deadline := recordedWork*tick, recordedDeadline*tick
	const steps = 1800
	interval := time.Duration(int64(work) / recordedScale / steps)
	src := fmt.Sprintf(`# 48 hours of work on recorded V100 prices, %d times as fast.
name: recorded
resources:
  accelerators: V100:1
run: |
  spotferry trainer --steps %d --save-every 10 --save-total-limit 3 --step-interval %s --hidden 256 --seed 1
policy:
  budget: $150
  deadline: +%ds
  checkpoint: {dir: checkpoints, framework: hf}
  spot: {policy: auto}
  work:
    steps: %d
    hours_on: {V100: %ds}
`, recordedScale, steps, interval.Round(time.Millisecond), int64(deadline.Seconds()), steps, int64(work.Seconds()))
	path := filepath.Join(d.dir, "recorded.yaml")
	return path, os.WriteFile(path, []byte(src), 0o600)
}

// compare sets the cost beside the published figures for the same start.
func (d *demo) compare(o outcome) (*recorded, error) {
	r := &recorded{Cost: o.Ledger}
	r.OnDemand = int64(events.Cost(recordedOnDemand, (recordedWork+recordedRestart)*trace.TickLength))
	r.Fraction = float64(r.Cost) / float64(r.OnDemand)
	b, err := trace.OpenBaselines(d.market)
	if err != nil {
		return nil, err
	}
	for policy, into := range map[string]*float64{trace.UniformProgress: &r.UniformProgress, trace.Omniscient: &r.Omniscient} {
		var ok bool
		if *into, ok = b.Baseline(trace.AllZones, recordedWork, recordedDeadline, recordedRestart, recordedStart, policy); !ok {
			return nil, fmt.Errorf("%s has no baseline of %s for start tick %d", d.market, policy, recordedStart)
		}
	}
	if r.Fraction < r.Omniscient {
		return nil, fmt.Errorf("the job cost %.4f of on-demand, less than the omniscient optimum %.4f: the market or the meter is wrong", r.Fraction, r.Omniscient)
	}
	return r, nil
}

func (r *recorded) show(t *terminal.Terminal) {
	t.Print(fmt.Sprintf("\n48 h on recorded V100 prices: $%s, %.4f of on-demand ($%s); Uniform Progress %.4f, omniscient optimum %.4f",
		events.MicroUSD(r.Cost), r.Fraction, events.MicroUSD(r.OnDemand), r.UniformProgress, r.Omniscient))
}
