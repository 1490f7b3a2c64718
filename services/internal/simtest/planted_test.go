package simtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
)

// crooked is a seller, or a road to it, that does one thing wrong.
type crooked struct {
	provider.Provider
	ends bool // false: what is to be ended lives on
	list func(*provider.Listing)
}

// Terminate implements provider.Provider.
func (c crooked) Terminate(ctx context.Context, id events.InstanceID) error {
	if !c.ends {
		return nil
	}
	return c.Provider.Terminate(ctx, id)
}

// List implements provider.Provider.
func (c crooked) List(ctx context.Context) (provider.Listing, error) {
	l, err := c.Provider.List(ctx)
	if c.list != nil {
		c.list(&l)
	}
	return l, err
}

// Oracles that never speak prove nothing: each of these worlds has one thing wrong
// that no fault of the simulation explains.
func TestTheOraclesSeeWhatIsWrong(t *testing.T) {
	reclaimed := quiet
	reclaimed.reclaim = 6 * time.Minute
	for _, tc := range []struct {
		name    string
		trouble trouble
		plant   func(*world)
		want    string
	}{
		{"nothing", reclaimed, func(*world) {}, ""},
		{"a machine that is given back lives on", quiet, func(w *world) {
			w.journal.Provider = crooked{Provider: w.fake}
		}, "I-12: machine"},
		{"the seller's list tells other prices than its meter", quiet, func(w *world) {
			w.journal.Provider = crooked{Provider: w.fake, ends: true, list: func(l *provider.Listing) {
				for i := range l.Instances {
					if p := l.Instances[i].Prices; len(p) > 0 {
						p[0].Price += events.DollarPerHour / 100_000
					}
				}
			}}
		}, "I-9: the ledger has"},
		{"another's machine is taken for ours", quiet, func(w *world) {
			w.journal.Provider = crooked{Provider: w.fake, ends: true, list: func(l *provider.Listing) {
				for i, inst := range l.Instances {
					if slices.Contains(w.foreign, inst.ID) {
						l.Instances[i].Labels = map[string]string{"env": "sim", "org": string(org)}
					}
				}
			}}
		}, "I-4: "},
		{"a trainer restores another state than was saved", reclaimed, func(w *world) {
			w.flaw = func(t *trainer) { t.now[0]++ }
		}, "I-7: job"},
		{"a trainer skips a step after a restore", reclaimed, func(w *world) {
			w.flaw = func(t *trainer) { t.at++ }
		}, "I-7: job"},
		{"nothing can be saved", reclaimed, func(w *world) {
			w.store = w.newShelf(func(op mem.Op) (f mem.Fault) {
				if op.Verb == mem.Put {
					f.Before = errLost
				}
				return f
			})
		}, "I-8: job"},
		{"an object of the newest checkpoint is deleted", quiet, func(w *world) {
			w.alive.Go(func() {
				sleep(w.ctx, 10*time.Minute)
				for _, name := range w.store.of(string(w.order[0])) {
					_ = w.store.Delete(w.ctx, name)
				}
			})
		}, "I-6: job"},
		{"what is deleted stays", quiet, func(w *world) { w.store.stuck = true }, "and the store still has"},
		{"a job's owner can pay less than the system was told", quiet, func(w *world) {
			for _, j := range w.jobs {
				j.limit = 1000
			}
		}, "I-3: job"},
		{"machines never answer", quiet, func(w *world) {
			w.opt.trouble.noBoot = 1
			w.calmAt = w.began.Add(24 * time.Hour)
		}, "I-11: job"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := simulate(t, 3, newHits(), options{hours: 1, jobs: 1, trouble: tc.trouble, plant: tc.plant})
			switch seen := strings.Join(v.wrong, "\n"); {
			case tc.want == "" && seen != "":
				t.Errorf("the oracles say:\n%s", seen)
			case !strings.Contains(seen, tc.want):
				t.Errorf("the oracles say nothing of %q but:\n%s", tc.want, seen)
			}
		})
	}
}
