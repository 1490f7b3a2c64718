package lambdafake

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// request is the body of a launch.
type request struct {
	Region   string   `json:"region_name"`
	Type     string   `json:"instance_type_name"`
	Keys     []string `json:"ssh_key_names"`
	Quantity *int     `json:"quantity"`
	Name     string   `json:"name"`
	UserData string   `json:"user_data"`
	Tags     []tag    `json:"tags"`
}

const mostName, mostTag = 64, 128

// wrong says what Lambda does not take of a request.
func (q request) wrong() string {
	key := regexp.MustCompile(`^[a-z][a-z0-9:-]+$`)
	switch {
	case len(q.Keys) != 1:
		return "Exactly one SSH key must be specified."
	case len(q.Name) > mostName:
		return "The name is too long."
	case q.Quantity != nil && *q.Quantity != 1:
		return "The quantity must be 1."
	}
	for _, t := range q.Tags {
		if !key.MatchString(t.Key) || len(t.Key) > 55 || len(t.Value) > mostTag {
			return fmt.Sprintf("Tag %.60q is malformed.", t.Key)
		}
	}
	return ""
}

func (f *Fake) launch(w http.ResponseWriter, r *http.Request) {
	var q request
	if !decode(w, r, &q) {
		return
	}
	if wrong := q.wrong(); wrong != "" {
		say(w, http.StatusBadRequest, "global/invalid-parameters", wrong)
		return
	}
	all, err := f.kinds(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	at := slices.IndexFunc(all, func(k *kind) bool { return k.name == q.Type })
	if at < 0 {
		refuse(w, &provider.Error{Kind: provider.OfferGone})
		return
	}
	pool, there := all[at].pools[q.Region]
	if kind, ok := f.admit(); !ok || !there {
		if ok {
			kind = provider.NoCapacity
		}
		refuse(w, &provider.Error{Kind: kind})
		return
	}
	f.rent(w, r.Context(), q, pool, all[at].offer.Price)
}

// admit says whether a launch comes neither too fast nor to a type that is listed only.
func (f *Fake) admit() (provider.Kind, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now().Control
	if f.cfg.Every > 0 && now.Sub(f.last) < f.cfg.Every {
		return provider.Throttled, false
	}
	f.last = now
	if f.refusals > 0 {
		f.refusals--
		return provider.NoCapacity, false
	}
	return 0, true
}

func (f *Fake) rent(w http.ResponseWriter, ctx context.Context, q request, pool events.Pool, price events.PerInstanceHour) {
	name := events.Token(q.Name)
	f.mu.Lock() // it is ours before it is bought: whoever lists meanwhile sees whose it is
	m := &machine{token: f.fresh(name), name: q.Name, tags: q.Tags, since: f.cfg.Now().Control}
	f.add(m)
	f.launches++
	f.mu.Unlock()
	i, err := f.cfg.Backend.Launch(ctx, provider.LaunchSpec{
		Pool: pool, MaxPrice: price, UserData: f.cfg.UserData(q.UserData), Labels: map[string]string{"name": q.Name},
	}, m.token)
	f.mu.Lock()
	switch {
	case err == nil:
		m.backend = i.ID
	case !made(err):
		f.launches--
		delete(f.machines, m.id)
		if f.used[name] == 1 {
			delete(f.used, name)
		}
	}
	f.mu.Unlock()
	if err != nil {
		refuse(w, err)
		return
	}
	give(w, map[string]any{"instance_ids": []string{m.id}})
}

// made says whether a refusal came after the effect.
func made(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && e.MaybeCreated
}

// add gives a machine its id. f.mu is held.
func (f *Fake) add(m *machine) {
	f.lastID++
	m.id = fmt.Sprintf("%032x", f.lastID)
	f.machines[m.id] = m
}

// of is the machine of one of the backend. What is there without us is somebody else's. f.mu is held.
func (f *Fake) of(i provider.Instance) *machine {
	for _, m := range f.sorted() {
		if m.backend == i.ID || m.backend == "" && m.token == i.Token {
			m.backend = i.ID
			return m
		}
	}
	m := &machine{backend: i.ID, token: i.Token, name: i.Token, since: f.cfg.Now().Control}
	f.add(m)
	return m
}

func (f *Fake) sorted() []*machine {
	var all []*machine
	for _, m := range f.machines {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *machine) int { return strings.Compare(a.id, b.id) })
	return all
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
		rows = append(rows, f.row(f.of(i), i))
	}
	give(w, rows)
}

func (f *Fake) row(m *machine, i provider.Instance) map[string]any {
	row := map[string]any{
		"id": m.id, "name": m.name, "status": m.status(i), "ssh_key_names": []string{"key"}, "file_system_names": []string{}, "tags": m.tags,
		"region": map[string]any{"name": i.Pool.Zone}, "instance_type": map[string]any{"name": i.Pool.InstanceType, "price_cents_per_hour": cents(i.Price())},
	}
	if f.cfg.Now().Control.Sub(m.since) >= f.cfg.IPAfter {
		row["ip"] = "192.0.2.14"
	}
	return row
}

func (m *machine) status(i provider.Instance) string {
	switch i.State {
	case provider.Pending:
		return "booting"
	case provider.Stopping:
		return "terminating"
	case provider.Running:
		return "active"
	}
	switch i.EndedBy {
	case "seller":
		return "preempted"
	case "fault":
		if !m.ordered { // until then it is there, and is of no use
			return "unhealthy"
		}
	}
	return "terminated"
}

func (f *Fake) terminate(w http.ResponseWriter, r *http.Request) {
	var q struct {
		IDs []string `json:"instance_ids"`
	}
	if !decode(w, r, &q) {
		return
	}
	gone := []map[string]any{}
	for _, id := range q.IDs {
		f.mu.Lock()
		m := f.machines[id]
		f.mu.Unlock()
		if m == nil || m.backend == "" {
			refuse(w, &provider.Error{Kind: provider.NotFound})
			return
		}
		if err := f.cfg.Backend.Terminate(r.Context(), m.backend); err != nil {
			refuse(w, err)
			return
		}
		f.mu.Lock()
		m.ordered = true
		f.mu.Unlock()
		gone = append(gone, map[string]any{"id": id, "status": "terminating"})
	}
	give(w, map[string]any{"terminated_instances": gone})
}
