package trace

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Baselines are the costs that well-known policies, and one that knows the
// future, reach on the recorded markets.
type Baselines struct {
	cost map[run]float64
}

// run is one job under one policy; lengths in ticks.
type run struct {
	pools                          string
	work, deadline, restart, start int
	policy                         string
}

// Policies in the baselines that people compare with.
const (
	UniformProgress = "up_failover_cheapest" // Can't Be Late (NSDI'24), over several pools
	Omniscient      = "omniscient"           // the exact optimum with the future known: nothing can be cheaper
)

// AllZones is the pool set of all nine V100 zones.
const AllZones = "A9:all9"

// OpenBaselines reads the baselines of the trace directory dir.
func OpenBaselines(dir string) (*Baselines, error) {
	b := &Baselines{cost: map[run]float64{}}
	head := []string{"pool_set", "work_ticks", "deadline_ticks", "restart_ticks", "start_tick", "policy", "cost_over_ondemand"}
	err := scan(filepath.Join(dir, baselineFile), func(line int, f []string) error {
		if len(f) < len(head) {
			return fmt.Errorf("%d columns where at least %d should be", len(f), len(head))
		}
		if line == 1 {
			if got := strings.Join(f[:len(head)], ","); got != strings.Join(head, ",") {
				return fmt.Errorf("columns are %s", got)
			}
			return nil
		}
		return b.add(f)
	})
	return b, err
}

func (b *Baselines) add(f []string) error {
	r := run{pools: strings.Clone(f[0]), policy: strings.Clone(f[5])}
	var errs []error
	for i, to := range []*int{&r.work, &r.deadline, &r.restart, &r.start} {
		n, err := strconv.Atoi(f[i+1])
		*to, errs = n, append(errs, err)
	}
	cost, err := strconv.ParseFloat(f[6], 64)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	b.cost[r] = cost
	return nil
}

// Baseline returns what a policy paid for one job as a fraction of the on-demand
// cost, which is the on-demand price times work and one restart. Lengths are in
// ticks; pools is a pool set such as AllZones. It is false for a run that is not in the table.
func (b *Baselines) Baseline(pools string, work, deadline, restart, start int, policy string) (float64, bool) {
	v, ok := b.cost[run{pools, work, deadline, restart, start, policy}]
	return v, ok
}
