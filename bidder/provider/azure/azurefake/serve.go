package azurefake

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
)

// seller is the name of the pools behind.
const seller = "azure"

// operation is something that takes a while.
type operation struct {
	id     string
	rec    *record
	delete bool
	done   bool
	failed *word
	asked  bool // the seller behind, to end the machine
}

// operate begins one; f.mu is held.
func (f *Fake) operate(r *record, remove bool) *operation {
	f.serial++
	o := &operation{id: "op-" + strconv.Itoa(f.serial), rec: r, delete: remove}
	f.operations[o.id] = o
	return o
}

func (f *Fake) started(w http.ResponseWriter, r *http.Request, o *operation) {
	w.Header().Set("Azure-AsyncOperation", "http://"+r.Host+"/subscriptions/"+f.cfg.Subscription+
		"/providers/Microsoft.Compute/locations/"+cmp.Or(o.rec.body.Location, "global")+"/operations/"+o.id+"?api-version=2024-11-01")
	f.patience(w)
}

func (f *Fake) patience(w http.ResponseWriter) {
	if f.cfg.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.cfg.RetryAfter))
	}
}

// find is a record, if reads have it.
func (f *Fake) find(w http.ResponseWriter, r *http.Request, op string) (rec *record, provisioning, power string, ok bool) {
	all, _, err := f.behindAll(r.Context())
	if err != nil {
		fail(w, op, r.PathValue("name"), err)
		return nil, "", "", false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if rec = f.records[key(r.PathValue("group"), r.PathValue("name"))]; rec != nil {
		provisioning, power, ok, _ = f.stands(rec, all)
	}
	if !ok {
		refuse(w, word{status: 404, code: "ResourceNotFound", message: "The Resource 'Microsoft.Compute/virtualMachines/" + r.PathValue("name") + "' was not found."})
	}
	return rec, provisioning, power, ok
}

func (f *Fake) put(w http.ResponseWriter, r *http.Request) {
	var body vm
	text, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil || json.Unmarshal(text, &body) != nil {
		refuse(w, word{status: 400, code: "InvalidRequestContent", message: "The request content was invalid."})
		return
	}
	if code, what := body.wrong(); code != "" {
		refuse(w, word{status: 400, code: code, message: "The value of parameter " + what + " is invalid."})
		return
	}
	if r.Header.Get("If-None-Match") != "*" {
		refuse(w, word{status: 409, code: "PropertyChangeNotAllowed", message: "Machines are not changed here."})
		return
	}
	f.mu.Lock()
	at := key(r.PathValue("group"), r.PathValue("name"))
	if old := f.records[at]; old != nil && !old.gone && (old.made || old.running || old.left || old.alien) {
		f.mu.Unlock()
		refuse(w, word{status: 412, code: "PreconditionFailed", message: "The resource already exists."})
		return
	}
	rec := &record{group: r.PathValue("group"), name: r.PathValue("name"), body: body, born: f.cfg.Now(), running: true}
	f.records[at] = rec
	o := f.operate(rec, false)
	f.mu.Unlock()
	f.buy(w, r, rec, o)
}

// buy asks the seller behind and answers when it has, or with an operation that runs.
func (f *Fake) buy(w http.ResponseWriter, r *http.Request, rec *record, o *operation) {
	ended := make(chan error, 1)
	f.buying.Go(func() {
		i, err := f.backend.Launch(f.ctx, rec.spec(seller), rec.name)
		f.bought(rec, o, i, err)
		ended <- err
	})
	t := time.NewTimer(f.cfg.Accept)
	defer t.Stop()
	select {
	case <-t.C:
	case err := <-ended:
		if err != nil && !late(err) {
			fail(w, provider.OpLaunch, rec.name, err)
			return
		}
	}
	f.started(w, r, o)
	f.mu.Lock()
	out := f.shown(rec, "Creating", "", false)
	f.mu.Unlock()
	answer(w, http.StatusCreated, out)
}

// bought notes how a purchase ended.
func (f *Fake) bought(rec *record, o *operation, i provider.Instance, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rec.running, o.done = false, true
	if err == nil {
		rec.made, rec.behind, rec.born = true, i.ID, i.Started
		return
	}
	e, ok := err.(*provider.Error)
	if !ok || lost(e) {
		return // what there is shows later
	}
	said := wordFor(e, provider.OpLaunch, rec.name)
	o.failed, rec.failed, rec.maybe = &said, true, e.MaybeCreated
	rec.left = e.MaybeCreated || f.cfg.Leaves && said.late
}

func (f *Fake) get(w http.ResponseWriter, r *http.Request) {
	rec, provisioning, power, ok := f.find(w, r, provider.OpList)
	if !ok {
		return
	}
	f.mu.Lock()
	out := f.shown(rec, provisioning, power, r.URL.Query().Get("$expand") == "instanceView")
	f.mu.Unlock()
	answer(w, http.StatusOK, out)
}

func (f *Fake) delete(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	stuck := f.stuck
	rec := f.records[key(r.PathValue("group"), r.PathValue("name"))]
	f.mu.Unlock()
	if stuck {
		refuse(w, word{status: 409, code: "AnotherOperationInProgress", message: "Another operation is in progress."})
		return
	}
	all, _, err := f.behindAll(r.Context())
	if err != nil {
		fail(w, provider.OpTerminate, r.PathValue("name"), err)
		return
	}
	there := false
	f.mu.Lock()
	if rec != nil {
		_, _, there, _ = f.stands(rec, all)
	}
	f.mu.Unlock()
	if !there {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if rec.behind != "" && !rec.alien {
		if err := f.backend.Terminate(r.Context(), rec.behind); err != nil {
			fail(w, provider.OpTerminate, rec.name, err)
			return
		}
	}
	f.mu.Lock()
	rec.deleting = true
	o := f.operate(rec, true)
	o.asked = rec.behind != ""
	rec.gone = rec.alien || all[rec.name].State == provider.Gone && o.asked || rec.failed && !rec.maybe
	f.mu.Unlock()
	f.started(w, r, o)
	w.WriteHeader(http.StatusAccepted)
}

// operation says how far one is.
func (f *Fake) operation(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	o := f.operations[r.PathValue("operation")]
	f.mu.Unlock()
	if o == nil {
		refuse(w, word{status: 404, code: "NotFound", message: "The operation was not found."})
		return
	}
	if o.delete {
		f.bury(r, o)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	said := map[string]any{"name": o.id, "status": "InProgress"}
	switch {
	case o.done && o.failed != nil:
		said["status"] = "Failed"
		said["error"] = map[string]any{"code": o.failed.code, "message": o.failed.message}
	case o.done:
		said["status"] = "Succeeded"
	}
	f.patience(w)
	answer(w, http.StatusOK, said)
}

// bury goes on with a deletion: what a failed creation made behind shows late.
func (f *Fake) bury(r *http.Request, o *operation) {
	all, complete, err := f.behindAll(r.Context())
	if err != nil || !complete {
		return
	}
	i, found := all[o.rec.name]
	f.mu.Lock()
	first := found && !o.asked
	o.asked = o.asked || found
	f.mu.Unlock()
	if first && f.backend.Terminate(r.Context(), i.ID) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o.rec.gone = o.rec.gone || found && i.State == provider.Gone
	o.done = o.rec.gone
}
