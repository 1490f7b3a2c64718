package gcpfake

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// row is one thing of an aggregated list.
type row struct {
	zone, key string
	item      any
}

func sorted(rows []row) []row {
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.zone, b.zone), cmp.Compare(a.key, b.key)) })
	return rows
}

// matching reads a filter of one regular expression.
func matching(w http.ResponseWriter, r *http.Request, rule *regexp.Regexp) (func(string) bool, bool) {
	filter := r.URL.Query().Get("filter")
	if filter == "" {
		return func(string) bool { return true }, true
	}
	if m := rule.FindStringSubmatch(filter); m != nil {
		if re, err := regexp.Compile(`^(?:` + m[1] + `)$`); err == nil {
			return re.MatchString, true
		}
	}
	refuse(w, 400, "invalid", "Invalid value for field 'filter': '"+filter+"'")
	return nil, false
}

// cut is the part of n things that a page has, and the token of the next page.
func (f *Fake) cut(w http.ResponseWriter, r *http.Request, n int) (from, to int, next string, ok bool) {
	q := r.URL.Query()
	size := f.cfg.PageSize
	if most, err := strconv.Atoi(q.Get("maxResults")); err == nil && most > 0 {
		size = min(size, most)
	}
	return span(w, q.Get("pageToken"), size, n)
}

func span(w http.ResponseWriter, token string, size, n int) (from, to int, next string, ok bool) {
	if token != "" {
		at, err := strconv.Atoi(strings.TrimPrefix(token, "from-"))
		if err != nil || at < 0 || at > n {
			refuse(w, 400, "invalid", "Invalid value for field 'pageToken': '"+token+"'")
			return 0, 0, "", false
		}
		from = at
	}
	if to = min(from+size, n); to < n {
		next = "from-" + strconv.Itoa(to)
	}
	return from, to, next, true
}

// aggregate answers with a page of what all zones have. Of a zone that does not answer
// nothing is told but its name, and even that only if a partial answer will do.
func (f *Fake) aggregate(w http.ResponseWriter, r *http.Request, what string, rows []row, complete bool) {
	f.mu.Lock()
	silent := slices.Clone(f.unreachable)
	zones := map[string]bool{}
	for z := range f.zones {
		zones[z] = true
	}
	f.mu.Unlock()
	if !complete && len(silent) == 0 {
		silent = []string{"somewhere-else1-a"}
	}
	if len(silent) > 0 && r.URL.Query().Get("returnPartialSuccess") != "true" {
		refuse(w, 503, "backendError", "The service is unreachable in "+silent[0])
		return
	}
	rows = slices.DeleteFunc(rows, func(x row) bool { return slices.Contains(silent, x.zone) })
	from, to, next, ok := f.cut(w, r, len(rows))
	if !ok {
		return
	}
	items := map[string]map[string]any{}
	for z := range zones {
		items["zones/"+z] = map[string]any{"warning": map[string]any{
			"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope 'zones/" + z + "' on this page.",
		}}
	}
	for _, x := range rows[from:to] {
		scope := items["zones/"+x.zone]
		if scope == nil || scope["warning"] != nil {
			scope = map[string]any{what: []any{}}
			items["zones/"+x.zone] = scope
		}
		scope[what] = append(scope[what].([]any), x.item)
	}
	out := map[string]any{"kind": "compute#aggregatedList", "items": items}
	if next != "" {
		out["nextPageToken"] = next
	}
	if len(silent) > 0 {
		var links []string
		for _, z := range silent {
			links = append(links, "projects/"+f.cfg.Project+"/zones/"+z)
		}
		out["unreachables"] = links
	}
	reply(w, out)
}
