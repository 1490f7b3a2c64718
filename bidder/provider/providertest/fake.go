package providertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Config describes a fake seller. Durations are control time; zero means at once.
type Config struct {
	Seller string               // "fake" if empty
	Now    func() events.Moment // required
	Offers []events.Offer       // what is sold at first; Put adds more

	Buy        time.Duration // until Launch answers
	Boot       time.Duration // pending before running
	Stop       time.Duration // stopping, at our cost, before gone
	Visible    time.Duration // a new instance is missing from lists this long
	EndVisible time.Duration // an ended instance is listed as it was this long
	Memory     time.Duration // an ended instance is listed this long; 2 h if zero
	Quota      int           // machines alive at once; 0 is no limit

	// Chaos is asked for the fault of every call that no script covers. It must
	// be a function of its own seed and the call, and is called under a lock.
	Chaos func(Call) Fault

	// Called outside every lock, in the order of what happened.
	OnLaunch func(provider.Instance, provider.LaunchSpec)
	OnNotice func(provider.Notice)
	OnEnd    func(provider.Instance)
}

// Fake is a seller in memory. It is safe for concurrent use.
type Fake struct {
	cfg Config

	mu        sync.Mutex
	now       events.Moment // of the call under way
	pools     map[events.Pool]*pool
	machines  map[events.InstanceID]*machine
	byToken   map[string]*machine
	scripts   map[string][]Fault
	calls     map[string]int
	faults    map[Mode]int
	due       []due
	dueSeq    int
	told      []func() // callbacks to make once the lock is free
	listeners []*listener
	locked    bool
	leaves    bool
	foreign   int // terminations of machines that are not ours
	wake      chan struct{}
}

// pool is what is sold in one pool: the truth, and what the feed says of it.
type pool struct {
	offer events.Offer
	stock int                             // machines left; -1 is any number
	quote func(events.Offer) events.Offer // how the feed distorts the offer; nil: not
}

// machine is an instance with what only the seller knows.
type machine struct {
	provider.Instance
	spec    provider.LaunchSpec
	from    events.Moment
	to      events.Moment // Control is zero while it lives
	was     provider.State
	bid     events.PerInstanceHour
	doomed  bool // a reclaim is scheduled
	alien   bool // not ours
	unshown bool // alien, and not in our lists
}

// New builds a fake seller.
func New(cfg Config) *Fake {
	if cfg.Seller == "" {
		cfg.Seller = "fake"
	}
	if cfg.Memory == 0 {
		cfg.Memory = 2 * time.Hour
	}
	f := &Fake{
		cfg: cfg, pools: map[events.Pool]*pool{}, machines: map[events.InstanceID]*machine{},
		byToken: map[string]*machine{}, scripts: map[string][]Fault{}, calls: map[string]int{},
		faults: map[Mode]int{}, wake: make(chan struct{}, 1),
	}
	for _, o := range cfg.Offers {
		f.Put(o)
	}
	return f
}

// do runs fn under the lock at one moment, after what was due by then, and then
// makes the callbacks that came of it.
func (f *Fake) do(fn func()) {
	f.mu.Lock()
	f.now = f.cfg.Now()
	f.settle()
	fn()
	told := f.told
	f.told = nil
	f.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}

// Offers implements provider.Provider.
func (f *Fake) Offers(ctx context.Context) ([]events.Offer, error) {
	c := f.begin(provider.OpOffers, "")
	if err := c.before(ctx); err != nil {
		return nil, err
	}
	var out []events.Offer
	f.do(func() {
		for _, p := range f.sortedPools() {
			o := p.offer
			o.Seen = f.now.Control
			if p.quote != nil {
				o = p.quote(o)
			}
			out = append(out, o)
		}
	})
	if c.Mode == Duplicate {
		out = append(out, out...)
	}
	return out, c.after(ctx, 0)
}

// Launch implements provider.Provider.
func (f *Fake) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	c := f.begin(provider.OpLaunch, token)
	if err := c.before(ctx); err != nil {
		return provider.Instance{}, err
	}
	var id events.InstanceID
	var err error
	f.do(func() { id, err = f.buy(c, spec, token) })
	if err != nil {
		return provider.Instance{}, err
	}
	if err := c.after(ctx, f.cfg.Buy); err != nil {
		return provider.Instance{}, err
	}
	var answer provider.Instance
	f.do(func() { answer = f.machines[id].copy() })
	return answer, nil
}

// Terminate implements provider.Provider.
func (f *Fake) Terminate(ctx context.Context, id events.InstanceID) error {
	c := f.begin(provider.OpTerminate, string(id))
	if err := c.before(ctx); err != nil {
		return err
	}
	f.do(func() { f.stop(f.machines[id]) })
	return c.after(ctx, 0)
}

// List implements provider.Provider.
func (f *Fake) List(ctx context.Context) (provider.Listing, error) {
	c := f.begin(provider.OpList, "")
	if err := c.before(ctx); err != nil {
		return provider.Listing{}, err
	}
	var l provider.Listing
	f.do(func() {
		l = provider.Listing{Complete: true, At: f.now.Control}
		for _, m := range f.sortedMachines() {
			if i, shown := f.shown(m); shown {
				l.Instances = append(l.Instances, i)
			}
		}
	})
	switch c.Mode {
	case Partial:
		l.Complete = false
		l.Instances = l.Instances[:len(l.Instances)/2]
	case Duplicate:
		l.Instances = append(l.Instances, l.Instances...)
	}
	if err := c.after(ctx, 0); err != nil {
		return provider.Listing{}, err
	}
	return l, nil
}

// Metered implements provider.Meter.
func (f *Fake) Metered(ctx context.Context, id events.InstanceID) (provider.Reading, error) {
	c := f.begin(provider.OpMetered, string(id))
	if err := c.before(ctx); err != nil {
		return provider.Reading{}, err
	}
	var r provider.Reading
	var err error
	f.do(func() {
		m := f.machines[id]
		if m == nil || m.alien {
			err = c.refusal(provider.NotFound, fmt.Sprintf("no instance %q in this account", id))
			return
		}
		r = provider.Reading{Amount: f.bill(m), Final: m.State == provider.Gone}
	})
	if err != nil {
		return provider.Reading{}, err
	}
	return r, c.after(ctx, 0)
}

// Rebid implements provider.Rebidder.
func (f *Fake) Rebid(ctx context.Context, id events.InstanceID, price events.PerInstanceHour) error {
	c := f.begin(provider.OpRebid, string(id))
	if err := c.before(ctx); err != nil {
		return err
	}
	var err error
	f.do(func() { err = f.rebid(c, id, price) })
	if err != nil {
		return err
	}
	return c.after(ctx, 0)
}

func (f *Fake) rebid(c call, id events.InstanceID, price events.PerInstanceHour) error {
	m := f.machines[id]
	switch {
	case m == nil || m.alien || m.State == provider.Gone:
		return c.refusal(provider.NotFound, fmt.Sprintf("no living instance %q", id))
	case f.pools[m.Pool] != nil && price < f.pools[m.Pool].offer.Price:
		return c.refusal(provider.PriceTooLow, "the market stands at "+f.pools[m.Pool].offer.Price.String())
	}
	m.bid = price
	return nil
}

func (m *machine) copy() provider.Instance {
	i := m.Instance
	i.Prices = slices.Clone(i.Prices)
	i.Labels = cloneLabels(i.Labels)
	return i
}

func cloneLabels(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}
