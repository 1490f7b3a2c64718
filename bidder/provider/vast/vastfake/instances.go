package vastfake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// order is the body of a create.
type order struct {
	Image         string            `json:"image"`
	Disk          float64           `json:"disk"`
	Label         string            `json:"label"`
	Env           map[string]string `json:"env"`
	Price         *json.Number      `json:"price"`
	CancelUnavail bool              `json:"cancel_unavail"`
}

const (
	leastDisk = 8
	mostLabel = 256
)

func (f *Fake) create(w http.ResponseWriter, r *http.Request) {
	var o order
	if !decode(w, r, &o) {
		return
	}
	if o.Image == "" || o.Disk < leastDisk || len(o.Label) > mostLabel {
		say(w, http.StatusBadRequest, "invalid_args", "image, disk of at least 8 and a label up to 256 are wanted", 0)
		return
	}
	id, _ := strconv.Atoi(r.PathValue("id")) // 0 is no offer
	f.mu.Lock()
	a, sold := f.asks[id]
	f.mu.Unlock()
	if !sold || f.cfg.Now().Control.After(a.expires) {
		refuse(w, &provider.Error{Kind: provider.OfferGone}, 0)
		return
	}
	price, err := priceOf(o, a)
	if err != nil {
		say(w, http.StatusBadRequest, "invalid_price", err.Error(), 0)
		return
	}
	f.rent(w, r.Context(), o, a, price)
}

// priceOf is the most that the backend may charge. Without a price the machine is
// on demand, whatever the offer was found as.
func priceOf(o order, a ask) (events.PerInstanceHour, error) {
	if !a.bid {
		return math.MaxInt64, nil
	}
	if o.Price == nil {
		return 2 * a.price, nil
	}
	p, err := events.ParsePerInstanceHour(o.Price.String())
	if err != nil || p > 128*events.DollarPerHour {
		return 0, errors.Join(err, fmt.Errorf("price %s", o.Price))
	}
	return p, nil
}

// rent buys from the backend.
func (f *Fake) rent(w http.ResponseWriter, ctx context.Context, o order, a ask, price events.PerInstanceHour) {
	token := f.fresh(tokenOf(o.Label))
	c := &contract{
		token: token, label: o.Label, env: o.Env, machine: machineOf(a.pool), isBid: a.bid && o.Price != nil, base: a.price, start: f.cfg.Now().Market,
		spec: provider.LaunchSpec{Pool: a.pool, MaxPrice: price, UserData: f.cfg.UserData(o.Env), Labels: map[string]string{"label": o.Label}},
	}
	f.draw(c)
	i, err := f.cfg.Backend.Launch(ctx, c.spec, token)
	e, typed := errors.AsType[*provider.Error](err)
	switch {
	case err == nil:
		f.mu.Lock()
		c.backend, c.start, c.base = i.ID, i.Started, i.Price()
		f.mu.Unlock()
		tell(w, http.StatusOK, map[string]any{"success": true, "new_contract": c.id})
	case typed && e.MaybeCreated: // it is there, and the backend's list will have it
		refuse(w, err, c.id)
	case typed && e.Kind == provider.PriceTooLow && (!o.CancelUnavail || f.cfg.LeaveStopped):
		f.mu.Lock()
		c.hollow = true
		f.mu.Unlock()
		refuse(w, err, c.id)
	default:
		f.tear(c)
		refuse(w, err, 0)
	}
}

// draw up a contract before the machine is bought: whoever lists meanwhile sees whose it is.
func (f *Fake) draw(c *contract) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastID++
	f.creates++
	c.id = f.lastID
	f.contracts[c.id] = c
}

// tear up a contract with which nothing was bought.
func (f *Fake) tear(c *contract) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.creates--
	delete(f.contracts, c.id)
	if f.used[c.token] == 1 {
		delete(f.used, c.token)
	}
}

// refresh takes what the backend lists. What is there without us is somebody else's.
func (f *Fake) refresh(ctx context.Context) (map[events.InstanceID]provider.Instance, bool, error) {
	l, err := f.cfg.Backend.List(ctx)
	if err != nil {
		return nil, false, err
	}
	there := map[events.InstanceID]provider.Instance{}
	var doomed []events.InstanceID
	f.mu.Lock()
	for _, i := range l.Instances {
		there[i.ID] = i
		c := f.contractOf(i)
		if c.destroyed && i.State != provider.Gone && i.State != provider.Stopping {
			doomed = append(doomed, i.ID)
		}
		c.base = priceNow(i, c.base)
	}
	f.mu.Unlock()
	for _, id := range doomed {
		if err := f.cfg.Backend.Terminate(ctx, id); err != nil {
			return nil, false, err
		}
	}
	return there, l.Complete, nil
}

func priceNow(i provider.Instance, otherwise events.PerInstanceHour) events.PerInstanceHour {
	if len(i.Prices) == 0 {
		return otherwise
	}
	return cmp.Or(i.Prices[len(i.Prices)-1].Price, otherwise)
}

// contractOf is the contract of a machine of the backend. f.mu is held.
func (f *Fake) contractOf(i provider.Instance) *contract {
	for _, c := range f.sorted() {
		if c.backend == i.ID || c.backend == "" && !c.hollow && c.token == i.Token {
			c.backend = i.ID
			return c
		}
	}
	f.lastID++
	c := &contract{id: f.lastID, backend: i.ID, token: i.Token, label: i.Token, machine: machineOf(i.Pool), start: i.Started}
	f.contracts[c.id] = c
	return c
}

// shown is a contract as a list has it; nil if it has not.
func (f *Fake) shown(c *contract, there map[events.InstanceID]provider.Instance) map[string]any {
	row := map[string]any{
		"id": c.id, "label": c.label, "machine_id": c.machine, "start_date": float64(c.start.UnixNano()) / 1e9, "is_bid": c.isBid,
		"dph_base": json.Number(c.base.String()), "extra_env": pairs(c.env), "status_msg": nil,
	}
	state := func(actual any, all string) map[string]any {
		row["actual_status"], row["cur_state"], row["next_state"], row["intended_status"] = actual, all, all, all
		return row
	}
	i, listed := there[c.backend]
	switch {
	case c.hollow && !c.destroyed:
		return state("stopped", "stopped")
	case c.backend == "" || !listed || c.destroyed && i.State == provider.Gone:
		return nil
	case i.State == provider.Pending:
		return state("loading", "running")
	case i.State == provider.Running, i.State == provider.Stopping:
		return state("running", "running")
	case i.EndedBy == "seller":
		return state("stopped", "stopped")
	case i.EndedBy == "machine":
		return state("exited", "running")
	case i.EndedBy == "fault":
		return state("offline", "running")
	}
	return nil
}

func pairs(env map[string]string) [][]string {
	out := [][]string{}
	for k, v := range env {
		out = append(out, []string{k, v})
	}
	slices.SortFunc(out, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return out
}
