package azurefake

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/spotferry/spotferry/bidder/provider"
)

// list is the subscription's machines, or how they stand.
func (f *Fake) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("$skiptoken") == "broken" {
		refuse(w, word{status: 500, code: "InternalServerError", message: "Encountered internal server error."})
		return
	}
	all, complete, err := f.behindAll(r.Context())
	if err != nil {
		fail(w, provider.OpList, "virtualMachines", err)
		return
	}
	status := r.URL.Query().Get("statusOnly") == "true"
	f.mu.Lock()
	rows := []any{}
	for _, k := range sortedKeys(f.records) {
		rec := f.records[k]
		if provisioning, power, _, listed := f.stands(rec, all); listed {
			v := f.shown(rec, provisioning, power, status)
			if status {
				v.Tags = nil
			}
			rows = append(rows, v)
		}
	}
	f.mu.Unlock()
	f.page(w, r, rows, complete)
}

func sortedKeys(m map[string]*record) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// page answers with a part of the rows. An incomplete list's last page cannot be had.
func (f *Fake) page(w http.ResponseWriter, r *http.Request, rows []any, complete bool) {
	q := r.URL.Query()
	from, err := strconv.Atoi(cmp.Or(q.Get("$skiptoken"), "0"))
	if err != nil || from < 0 || from > len(rows) {
		refuse(w, word{status: 400, code: "InvalidSkipToken", message: "The skip token is invalid."})
		return
	}
	to := min(from+f.cfg.PageSize, len(rows))
	out := map[string]any{"value": rows[from:to]}
	next := ""
	switch {
	case to < len(rows):
		next = strconv.Itoa(to)
	case !complete:
		next = "broken"
	}
	if next != "" {
		q.Set("$skiptoken", next)
		out["nextLink"] = "http://" + r.Host + r.URL.Path + "?" + q.Encode()
	}
	answer(w, http.StatusOK, out)
}
