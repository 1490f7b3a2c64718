package gcpfake

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// operation is something that is being done. Its fields are guarded by Fake.mu,
// but for done.
type operation struct {
	serial  uint64
	kind    string
	zone    string
	target  string
	request string
	early   int // waits that have returned undone
	begun   time.Time
	ended   time.Time
	failure *word
	done    chan struct{}
}

// operate makes an operation on a machine; f.mu is held.
func (f *Fake) operate(kind string, rec *record) *operation {
	f.serial++
	op := &operation{serial: f.serial, kind: kind, zone: rec.zone, target: rec.name, begun: f.cfg.Now(), done: make(chan struct{})}
	if kind == "insert" {
		op.request = rec.request
	}
	f.operations[op.name()] = op
	return op
}

func (o *operation) name() string {
	return fmt.Sprintf("operation-%013d-%s", o.serial, strings.ReplaceAll(strings.ToLower(o.kind), ".", "-"))
}

// finish closes an operation, once.
func (o *operation) finish(at time.Time, failure *word) {
	select {
	case <-o.done:
		if failure != nil {
			return
		}
	default:
		close(o.done)
	}
	o.failure = failure
	if o.kind == "insert" {
		o.begun = at
	}
	o.ended = at
}

func (o *operation) isDone() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// json is the operation on the wire; f.mu is held.
func (f *Fake) json(o *operation) map[string]any {
	link := "https://www.googleapis.com/compute/v1/projects/" + f.cfg.Project + "/zones/" + o.zone
	out := map[string]any{
		"kind": "compute#operation", "id": strconv.FormatUint(o.serial, 10), "name": o.name(), "zone": link, "operationType": o.kind,
		"targetLink": link + "/instances/" + o.target, "insertTime": stamp(o.begun), "startTime": stamp(o.begun),
		"status": "RUNNING", "progress": 0, "user": "somebody@example.com",
	}
	if o.request != "" {
		out["clientOperationId"] = o.request
	}
	if !o.isDone() {
		return out
	}
	out["status"], out["progress"], out["endTime"] = "DONE", 100, stamp(o.ended)
	if o.failure != nil {
		out["error"] = map[string]any{"errors": []any{map[string]any{"code": o.failure.code, "message": o.failure.message}}}
		out["httpErrorStatusCode"], out["httpErrorMessage"] = o.failure.status, http.StatusText(o.failure.status)
	}
	return out
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func (f *Fake) shown(o *operation) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.json(o)
}

// started is an operation as an insertion is answered with it: it has not ended,
// even if it has.
func (f *Fake) started(o *operation) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.json(o)
	out["status"], out["progress"] = "RUNNING", 0
	for _, k := range []string{"endTime", "error", "httpErrorStatusCode", "httpErrorMessage"} {
		delete(out, k)
	}
	return out
}

// wait lasts until an operation is done, or not so long.
func (f *Fake) wait(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	o := f.operations[r.PathValue("operation")]
	if o == nil || o.zone != r.PathValue("zone") {
		f.mu.Unlock()
		refuse(w, 404, "notFound", "The resource 'operations/"+r.PathValue("operation")+"' was not found")
		return
	}
	early := o.early < f.cfg.EarlyWaits
	o.early++
	f.mu.Unlock()
	if early {
		reply(w, f.started(o))
		return
	}
	t := time.NewTimer(f.cfg.WaitLimit)
	defer t.Stop()
	select {
	case <-o.done:
	case <-t.C:
	case <-r.Context().Done():
	case <-f.ctx.Done():
	}
	reply(w, f.shown(o))
}

func (f *Fake) listOperations(w http.ResponseWriter, r *http.Request) {
	rows, ok := f.operationRows(w, r)
	if !ok {
		return
	}
	var items []any
	for _, row := range rows {
		if row.zone == r.PathValue("zone") {
			items = append(items, row.item)
		}
	}
	from, to, next, ok := f.cut(w, r, len(items))
	if ok {
		reply(w, map[string]any{"kind": "compute#operationList", "items": items[from:to], "nextPageToken": next})
	}
}

func (f *Fake) listAllOperations(w http.ResponseWriter, r *http.Request) {
	if rows, ok := f.operationRows(w, r); ok {
		f.aggregate(w, r, "operations", rows, true)
	}
}

var targetFilter = regexp.MustCompile(`^targetLink eq "(.+)"$`)

// operationRows are the operations that a filter lets through: those that were asked
// for, and those that happened to machines.
func (f *Fake) operationRows(w http.ResponseWriter, r *http.Request) ([]row, bool) {
	match, ok := matching(w, r, targetFilter)
	if !ok {
		return nil, false
	}
	machines, _, err := f.machines(r.Context())
	if err != nil {
		fail(w, "list", "operations", err)
		return nil, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []row
	add := func(o *operation) {
		item := f.json(o)
		if f.cfg.Unheeded || match(item["targetLink"].(string)) {
			out = append(out, row{o.zone, fmt.Sprintf("%013d", o.serial), item})
		}
	}
	for _, m := range machines {
		if m.rec == nil {
			continue
		}
		add(m.rec.insert)
		for _, o := range f.endings(m) {
			add(o)
		}
	}
	return sorted(out), true
}
