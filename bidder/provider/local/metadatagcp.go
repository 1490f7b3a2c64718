package local

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// serveGCP answers as the metadata server of Compute Engine does: to those who
// say that they mean it, saying that it is itself, and, if they wish, only once
// the value is another than the one they know.
func (m *Metadata) serveGCP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "Metadata Server for VM")
	w.Header().Set("Metadata-Flavor", "Google")
	path, below := strings.CutPrefix(r.URL.Path, "/computeMetadata/v1/")
	_, known := m.gcpValue(path)
	switch {
	case r.URL.Path == "/": // by which software finds out where it is
		say(w, "application/text", []byte("computeMetadata/\n"))
	case r.Header.Get("X-Forwarded-For") != "", r.Header.Get("Metadata-Flavor") != "Google":
		refuse(w, http.StatusForbidden)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, http.StatusMethodNotAllowed)
	case !below, !known:
		refuse(w, http.StatusNotFound)
	default:
		q := r.URL.Query()
		if q.Get("wait_for_change") == "true" {
			most, err := strconv.Atoi(q.Get("timeout_sec"))
			if err != nil || most <= 0 {
				most = 3600
			}
			ctx, cancel := context.WithTimeout(r.Context(), time.Duration(most)*time.Second)
			m.awaitOther(ctx, path, q.Get("last_etag"))
			cancel()
		}
		value, _ := m.gcpValue(path)
		w.Header().Set("Etag", etag(value))
		say(w, "application/text", []byte(value))
	}
}

// awaitOther returns when the value has another tag than last or, if that is
// empty, than now; and when ctx ends.
func (m *Metadata) awaitOther(ctx context.Context, path, last string) {
	for {
		changed := m.standing().changed // before the look, so that nothing is missed
		value, _ := m.gcpValue(path)
		if last == "" {
			last = etag(value)
		}
		if etag(value) != last {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// etag is sixteen digits that are others when the value is.
func etag(value string) string { return fmt.Sprintf("%016x", hash(value)) }

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum64()
}

const gcpProject = "1234567890"

// gcpValue returns what stands at a path, and whether anything does.
func (m *Metadata) gcpValue(path string) (string, bool) {
	pool := m.cfg.Pool
	switch path {
	case "instance/preempted":
		return strings.ToUpper(strconv.FormatBool(!m.standing().deadline.IsZero())), true
	case "instance/maintenance-event":
		return "NONE", true
	case "instance/id":
		return strconv.FormatUint(hash(string(m.cfg.ID)), 10), true
	case "instance/name":
		return string(m.cfg.ID), true
	case "instance/hostname":
		return string(m.cfg.ID) + ".c.local.internal", true
	case "instance/zone":
		return "projects/" + gcpProject + "/zones/" + pool.Zone, true
	case "instance/machine-type":
		return "projects/" + gcpProject + "/machineTypes/" + pool.InstanceType, true
	case "instance/scheduling/preemptible":
		return strings.ToUpper(strconv.FormatBool(pool.Capacity.Reclaimable())), true
	case "project/project-id":
		return "local", true
	case "project/numeric-project-id":
		return gcpProject, true
	case "instance/attributes/":
		if len(m.cfg.UserData) > 0 {
			return "user-data\n", true
		}
		return "", true
	case "instance/attributes/user-data":
		return string(m.cfg.UserData), len(m.cfg.UserData) > 0
	}
	return "", false
}
