package vastfake

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/spotferry/spotferry/bidder/provider"
)

// list answers with a page of everything of the account, foreign instances too.
func (f *Fake) list(w http.ResponseWriter, r *http.Request) {
	if after := r.URL.Query().Get("after_token"); after != "" {
		f.follow(w, after)
		return
	}
	there, complete, err := f.refresh(r.Context())
	if err != nil {
		refuse(w, err, 0)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := []map[string]any{}
	for _, c := range f.sorted() {
		if row := f.shown(c, there); row != nil {
			rows = append(rows, row)
		}
	}
	f.page(w, rows, complete)
}

// follow answers with what comes after a page, as it was when the list was begun.
func (f *Fake) follow(w http.ResponseWriter, after string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var rows []map[string]any
	kept, known := f.pages[after]
	switch {
	case f.broken[after]:
		refuse(w, &provider.Error{Kind: provider.UnknownOutcome}, 0)
	case !known || json.Unmarshal(kept, &rows) != nil:
		say(w, http.StatusBadRequest, "invalid_args", "after_token", 0)
	default:
		f.page(w, rows, true)
	}
}

// page answers with the first rows and keeps the rest. A list that is not complete
// leads to a page that fails. f.mu is held.
func (f *Fake) page(w http.ResponseWriter, rows []map[string]any, complete bool) {
	body := map[string]any{"success": true, "instances_found": len(rows), "next_token": nil}
	f.lastID++
	next := "page-" + strconv.Itoa(f.lastID)
	rest := rows[min(len(rows), f.cfg.Page):]
	if len(rest) > 0 {
		kept, err := json.Marshal(rest)
		if err != nil {
			refuse(w, err, 0)
			return
		}
		f.pages[next], body["next_token"] = kept, next
	}
	if !complete {
		f.broken[next], body["next_token"] = true, next
	}
	rows = rows[:len(rows)-len(rest)]
	body["instances"] = rows
	if f.cfg.One && len(rows) == 1 {
		body["instances"] = rows[0]
	}
	tell(w, http.StatusOK, body)
}

// show answers with one instance, which "instances" holds without a list.
func (f *Fake) show(w http.ResponseWriter, r *http.Request) {
	there, _, err := f.refresh(r.Context())
	if err != nil {
		refuse(w, err, 0)
		return
	}
	c, ok := f.named(w, r)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	tell(w, http.StatusOK, map[string]any{"instances": f.shown(c, there)})
}
