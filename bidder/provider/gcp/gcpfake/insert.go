package gcpfake

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// record is a machine that was asked for.
type record struct {
	zone, name, request string
	body                []byte
	wire                instance
	insert              *operation
	behind              events.InstanceID // "" until the seller behind has said
	made                bool              // it exists, or did, or may
	born                time.Time         // market
	deleted             *operation        // asked to be
	buried              time.Time         // when a stopped one was deleted
}

func (f *Fake) insert(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 2<<20))
	var wire instance
	if err != nil || json.Unmarshal(body, &wire) != nil {
		refuse(w, 400, "parseError", "Parse Error")
		return
	}
	zone, request := r.PathValue("zone"), r.URL.Query().Get("requestId")
	if field := wire.wrong(); field != "" {
		refuse(w, 400, "invalid", "Invalid value for field 'resource."+field+"'")
		return
	}
	if request != "" && !uuid.MatchString(request) {
		refuse(w, 400, "invalid", "Invalid value for 'requestId': must be a UUID")
		return
	}
	f.use(wire.alsoNeeds()...)
	rec, replay, taken := f.open(zone, request, body, wire)
	switch {
	case taken:
		refuse(w, 409, "alreadyExists", "The resource 'projects/"+f.cfg.Project+"/zones/"+zone+"/instances/"+wire.Name+"' already exists")
		return
	case replay:
		reply(w, f.shown(rec.insert)) // the same id is the same request, whatever it says now
		return
	}
	f.buy(w, rec)
}

// open finds or makes the record of a request. A repetition to the letter is asked
// of the seller behind again, so that what goes wrong there is seen here.
func (f *Fake) open(zone, request string, body []byte, wire instance) (rec *record, replay, taken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.requests[request]; request != "" && old != nil {
		return old, !bytes.Equal(old.body, body), false
	}
	key := zone + "/" + wire.Name
	if old := f.records[key]; old != nil && old.made {
		return nil, false, true
	}
	rec = &record{zone: zone, name: wire.Name, request: request, body: body, wire: wire}
	rec.insert = f.operate("insert", rec)
	f.records[key] = rec
	if request != "" {
		f.requests[request] = rec
	}
	return rec, false, false
}

// bought is how a purchase ended.
type bought struct {
	instance provider.Instance
	err      error
}

// buy asks the seller behind and answers when it has, or with an operation that runs.
func (f *Fake) buy(w http.ResponseWriter, rec *record) {
	ended := make(chan bought, 1)
	f.buying.Go(func() {
		i, err := f.backend.Launch(f.ctx, f.spec(rec), rec.name)
		f.finish(rec, i, err)
		ended <- bought{i, err}
	})
	t := time.NewTimer(f.cfg.Accept)
	defer t.Stop()
	select {
	case <-t.C:
		reply(w, f.shown(rec.insert))
	case b := <-ended:
		f.answer(w, rec, b)
	}
}

// answer tells how a purchase ended that ended soon. What Google says of capacity
// and of quota it says through the operation.
func (f *Fake) answer(w http.ResponseWriter, rec *record, b bought) {
	e, ok := errors.AsType[*provider.Error](b.err)
	if b.err == nil || ok && !lost(e) && wordFor(e, provider.OpLaunch, rec.name).late {
		reply(w, f.started(rec.insert))
		return
	}
	fail(w, provider.OpLaunch, rec.name, b.err)
}

// finish closes the operation of a purchase and forgets what came to nothing.
func (f *Fake) finish(rec *record, i provider.Instance, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := errors.AsType[*provider.Error](err)
	switch {
	case err == nil:
		rec.behind, rec.made, rec.born = i.ID, true, i.Started
	case ok && e.MaybeCreated:
		rec.made = true
	case !rec.made:
		delete(f.records, rec.zone+"/"+rec.name)
		delete(f.requests, rec.request)
	}
	at := rec.born
	if at.IsZero() {
		at = f.cfg.Now()
	}
	switch {
	case err == nil, ok && lost(e) && e.MaybeCreated:
		rec.insert.finish(at, nil)
	case ok:
		said := wordFor(e, provider.OpLaunch, rec.name)
		rec.insert.finish(at, &said)
	default:
		rec.insert.finish(at, &word{status: 500, code: "INTERNAL_ERROR", message: "Internal error"})
	}
}

// spec is what the seller behind is asked for. Google knows no limit of price.
func (f *Fake) spec(rec *record) provider.LaunchSpec {
	capacity := events.OnDemand
	if rec.wire.Scheduling.Model == "SPOT" {
		capacity = events.Spot
	}
	spec := provider.LaunchSpec{
		Pool: events.Pool{
			Seller: f.cfg.Seller, Region: regionOf(rec.zone), Zone: rec.zone, InstanceType: rec.wire.offered(), Capacity: capacity, Gang: 1,
		},
		MaxPrice: math.MaxInt64, Labels: rec.wire.Labels,
	}
	for _, m := range rec.wire.Metadata.Items {
		if m.Key == "user-data" {
			spec.UserData = []byte(m.Value)
		}
	}
	return spec
}
