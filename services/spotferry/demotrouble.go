package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider/local"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/dev"
)

// troubleLimit is how long the three may take. Each is stopped within seconds; the
// longest has to be still for its progress timeout first.
const troubleLimit = time.Minute

// scenario is one way in which a training goes wrong.
type scenario struct {
	name   string
	state  string // that it must end in
	file   string // its job
	story  string
	taken  bool  // its first machine is taken away
	after  int64 // once this step is committed
	job    events.JobID
	struck bool // the machine was taken
}

func scenarios() []scenario {
	return []scenario{
		{name: "restore ignored", state: string(events.PauseRestoreIgnored), taken: true, after: 20,
			story: "its machine is taken away without a word, and on the next one it begins at step 1 again, in spite of its checkpoint",
			file: `# Never reads SPOTFERRY_RESUME_FROM: after every move it would begin anew, and pay for it.
name: forgetful
run: spotferry trainer --steps 5000 --save-every 20 --hidden 64 --step-interval 50ms --ignore-resume
resources: {accelerators: V100:1}
policy:
  budget: $5
  spot: {policy: spot}
  checkpoint: {framework: hf}
`},
		{name: "stall", state: string(events.PauseStalled),
			story: "it makes 40 steps and then hangs, deaf even to SIGTERM",
			file: `# Hangs after step 40, as a training does that waits for a lost peer.
name: hanging
run: spotferry trainer --steps 5000 --save-every 20 --hidden 64 --step-interval 50ms --stall-at-step 40
resources: {accelerators: V100:1, use_spot: false}
policy:
  budget: $5
  progress_timeout: 10s # without a step or a checkpoint
  checkpoint: {framework: hf}
`},
		{name: "same crash twice", state: string(events.Failed),
			story: "it crashes at step 30 with code 7, is started again from step 20, and crashes there again",
			file: `# Comes no further than step 30: what is wrong with it is wrong on every machine.
name: crashing
run: spotferry trainer --steps 5000 --save-every 20 --hidden 64 --step-interval 50ms --exit-code-at-step 7@30
resources: {accelerators: V100:1, use_spot: false}
policy:
  budget: $5
  checkpoint: {framework: hf}
`},
	}
}

// The market of the three: two pools that are reclaimed only when the story says
// so, and one on demand. Every machine costs at least a minute. The clock is not
// stretched, so that minute is longer than any of these machines lives.
const troubleMinimum = time.Minute

func troublePools() []trace.TablePool {
	const cent = events.DollarPerHour / 100
	pool := func(zone string, capacity events.CapacityType) events.Pool {
		return events.Pool{Seller: "local", Region: "demo", Zone: zone, InstanceType: "v100x1", Capacity: capacity, Gang: 1}
	}
	row := func(p events.Pool, price events.PerInstanceHour, free int64) trace.TablePool {
		return trace.TablePool{Prices: []events.PriceFrom{{Price: price}}, Info: trace.PoolInfo{
			OnDemand: pool("demo-c", events.OnDemand),
			Offer: events.Offer{
				Pool: p, Country: "US", SpeedPct: 100, DiskGB: 200, VCPU: 8, RAMMiB: 61 << 10,
				GPU:   events.GPU{Vendor: "nvidia", Model: "V100", Form: "SXM", Count: 1, MemoryMiB: 16384},
				Terms: events.Terms{GrainS: 1, MinimumS: int64(troubleMinimum / time.Second), FreeIfReclaimedS: free},
			},
		}}
	}
	return []trace.TablePool{
		row(pool("demo-a", events.Spot), 108*cent, 3600),
		row(pool("demo-b", events.Spot), 120*cent, 3600),
		row(pool("demo-c", events.OnDemand), 306*cent, 0),
	}
}

func (d *demo) troubled(cfg *dev.Config) {
	cfg.Scale, cfg.Market = 1, trace.Spec{Kind: "table", Table: &trace.Table{List: troublePools()}}
}

// runTrouble has the three go wrong at once, and accounts for them.
func (d *demo) runTrouble(ctx context.Context, ended chan error) error {
	began := d.e.now()
	cases := scenarios()
	if err := d.submitTrouble(ctx, cases); err != nil {
		return err
	}
	wctx, cancel := context.WithTimeout(ctx, troubleLimit)
	defer cancel()
	if err := d.watchTrouble(wctx, cases, ended); err != nil {
		return err
	}
	return d.reportTrouble(ctx, cases, began)
}

func (d *demo) submitTrouble(ctx context.Context, cases []scenario) error {
	dir := filepath.Join(d.dir, "examples")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	clock, err := console.Ask[console.Clock](ctx, d.session.client, console.GetClock, console.Query{})
	if err != nil {
		return err
	}
	for i := range cases {
		c := &cases[i]
		file := filepath.Join(dir, strings.ReplaceAll(c.name, " ", "-")+".yaml")
		if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
			return fmt.Errorf("writing the job file: %w", err)
		}
		if err := d.submitFile(ctx, file, events.Moment{Control: clock.Control, Market: clock.Market}); err != nil {
			return err
		}
		c.job = d.jobs[i].id
		d.e.term.Note("%s: %s", c.name, c.story)
	}
	return nil
}

// watchTrouble shows what happens until each of them holds no machine and owes nothing.
func (d *demo) watchTrouble(ctx context.Context, cases []scenario, ended chan error) error {
	d.timeline = &follower{demo: d, began: d.e.now()}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := d.timeline.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		settled := 0
		for i := range cases {
			if err := d.strike(&cases[i]); err != nil {
				return err
			}
			if v, ok := d.view(cases[i].job); ok && stopped(v) {
				settled++
			}
		}
		if settled == len(cases) {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			return errors.Join(errors.New("the system ended before its jobs"), err)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("the trainings were not stopped within %s; %s says why", troubleLimit, filepath.Join(d.dir, "dev.log"))
			}
			return ctx.Err()
		}
	}
}

func (d *demo) view(job events.JobID) (console.Job, bool) {
	i := slices.IndexFunc(d.timeline.jobs, func(v console.Job) bool { return v.ID == job })
	if i < 0 {
		return console.Job{}, false
	}
	return d.timeline.jobs[i], true
}

// stopped says whether a job costs nothing any more, until somebody acts.
func stopped(v console.Job) bool {
	halted := v.Over || v.Status == string(events.PauseRestoreIgnored) || v.Status == string(events.PauseStalled)
	return halted && len(v.OpenLeases) == 0 && v.Reserved == 0 && v.Spent > 0
}

// strike has the market take a job's machine, once there is something to go on
// from. It takes it without a warning: a machine that is warned is given back as
// soon as there is a better one, and what is given back is charged.
func (d *demo) strike(c *scenario) error {
	v, ok := d.view(c.job)
	if !c.taken || c.struck || !ok || v.Machine == nil || v.Committed < c.after {
		return nil
	}
	c.struck = true
	return local.WriteDrill(filepath.Join(d.dir, "seller"), local.Drill{Reclaim: []local.Reclaim{
		{ID: "demo", Token: string(v.Machine.Lease)},
	}})
}
