package runpodfake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// order is a pod that is wanted.
type order struct {
	name, gpu     string
	count         int
	place         string
	interruptible bool
	most          events.PerInstanceHour
	env           map[string]string
}

func (f *Fake) create(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name   string            `json:"name"`
		Image  string            `json:"image"`
		Env    map[string]string `json:"env"`
		Places []string          `json:"dataCenterIds"`
		GPU    struct {
			ID    string `json:"id"`
			Count int    `json:"count"`
		} `json:"gpu"`
	}
	if !decode(w, r, &body) {
		return
	}
	if body.Name == "" || body.Image == "" || body.GPU.Count < 1 || len(body.Places) != 1 {
		say(w, http.StatusUnprocessableEntity, "name, image and gpu are required")
		return
	}
	f.mu.Lock()
	vague := f.vague > 0
	f.vague = max(f.vague-1, 0)
	f.mu.Unlock()
	if vague {
		say(w, http.StatusBadRequest, "Bad request.")
		return
	}
	id, err := f.make(r.Context(), order{body.Name, body.GPU.ID, body.GPU.Count, body.Places[0], false, anyPrice, body.Env})
	if err != nil {
		refuse(w, err)
		return
	}
	tell(w, http.StatusCreated, map[string]any{"id": id, "name": body.Name, "status": "PROVISIONING"})
}

// make buys a pod from the backend.
func (f *Fake) make(ctx context.Context, o order) (string, error) {
	offers, err := f.cfg.Backend.Offers(ctx)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(offers, func(x events.Offer) bool {
		return idOf(x.GPU) == o.gpu && x.GPU.Count == o.count && x.Pool.Zone == o.place && x.Pool.Capacity.Reclaimable() == o.interruptible
	})
	if at < 0 {
		return "", &provider.Error{Kind: provider.NoCapacity}
	}
	own := tokenOf(o.name)
	f.mu.Lock() // it is ours before it is bought: whoever lists meanwhile sees whose it is
	p := f.add(&pod{token: f.fresh(own), name: o.name, env: o.env})
	f.creates++
	f.mu.Unlock()
	i, err := f.cfg.Backend.Launch(ctx, provider.LaunchSpec{
		Pool: offers[at].Pool, MaxPrice: o.most, UserData: f.cfg.UserData(o.env), Labels: map[string]string{"name": o.name},
	}, p.token)
	e, refused := errors.AsType[*provider.Error](err)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		p.backend = i.ID
	case !refused || !e.MaybeCreated:
		f.creates--
		delete(f.pods, p.id)
		if f.used[own] == 1 {
			delete(f.used, own)
		}
	}
	return p.id, err
}

// add gives a pod its id. f.mu is held.
func (f *Fake) add(p *pod) *pod {
	f.lastID++
	p.id = fmt.Sprintf("pod%08d", f.lastID)
	f.pods[p.id] = p
	return p
}

// of is the pod of a machine of the backend. What is there without us is somebody else's. f.mu is held.
func (f *Fake) of(i provider.Instance) *pod {
	for _, p := range f.sorted() {
		if p.backend == i.ID || p.backend == "" && p.token == i.Token {
			p.backend = i.ID
			return p
		}
	}
	return f.add(&pod{backend: i.ID, token: i.Token, name: i.Token})
}

func (f *Fake) list(w http.ResponseWriter, r *http.Request) {
	l, err := f.cfg.Backend.List(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	if !l.Complete { // there are no pages: all or nothing
		refuse(w, &provider.Error{Kind: provider.Transient})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := []map[string]any{}
	for _, i := range l.Instances {
		p := f.of(i)
		if p.deleted && i.State == provider.Gone {
			continue
		}
		rows = append(rows, map[string]any{
			"id": p.id, "name": p.name, "status": f.status(i), "env": p.env, "cost": cost(i), "dataCenterId": i.Pool.Zone,
			"gpu": map[string]any{"id": i.Pool.InstanceType, "count": 1},
		})
	}
	tell(w, http.StatusOK, map[string]any{"pods": rows})
}

// cost is what a pod costs an hour now.
func cost(i provider.Instance) any {
	if len(i.Prices) == 0 {
		return nil
	}
	return json.Number(i.Prices[len(i.Prices)-1].Price.String())
}

func (f *Fake) status(i provider.Instance) string {
	switch {
	case i.State == provider.Pending, f.cfg.Stuck && i.State == provider.Running:
		return "STARTING"
	case i.State != provider.Gone:
		return "RUNNING"
	case i.EndedBy == "seller" && i.Pool.Capacity.Reclaimable(), i.EndedBy == "machine":
		return "EXITED"
	case i.EndedBy == "fault":
		return "ERROR"
	}
	return "TERMINATED"
}

func (f *Fake) destroy(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	p := f.pods[r.PathValue("id")]
	f.mu.Unlock()
	if p == nil || p.deleted || p.backend == "" {
		refuse(w, &provider.Error{Kind: provider.NotFound})
		return
	}
	if err := f.cfg.Backend.Terminate(r.Context(), p.backend); err != nil {
		refuse(w, err)
		return
	}
	f.mu.Lock()
	p.deleted = true
	f.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}
