package local

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// serveAzure answers as Azure's instance metadata does, scheduled events included.
func (m *Metadata) serveAzure(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "IMDS/150.870.65.1854")
	leaf, compute := strings.CutPrefix(r.URL.Path, "/metadata/instance/compute/")
	q := r.URL.Query()
	switch {
	case r.Header.Get("X-Forwarded-For") != "":
		azureRefuse(w, http.StatusBadRequest, "Bad request. X-Forwarded-For is not allowed")
	case !strings.EqualFold(r.Header.Get("Metadata"), "true"):
		azureRefuse(w, http.StatusBadRequest, "Bad request. Required metadata header not specified")
	case q.Get("api-version") == "":
		azureRefuse(w, http.StatusBadRequest, "Bad request. api-version was not specified in the request")
	case r.URL.Path == "/metadata/scheduledevents" && r.Method == http.MethodGet:
		m.listEvents(w, r)
	case r.URL.Path == "/metadata/scheduledevents" && r.Method == http.MethodPost:
		m.startEvents(w, r)
	case r.Method != http.MethodGet:
		azureRefuse(w, http.StatusMethodNotAllowed, "Method not allowed")
	case compute:
		value, ok := m.azureLeaf(leaf)
		if !ok || q.Get("format") != "text" { // a leaf is nothing but text
			azureRefuse(w, http.StatusNotFound, "Not found")
			return
		}
		say(w, plain+"; charset=utf-8", []byte(value))
	default:
		azureRefuse(w, http.StatusNotFound, "Not found")
	}
}

func azureRefuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q}`, why)
}

func (m *Metadata) azureLeaf(name string) (string, bool) {
	pool := m.cfg.Pool
	switch name {
	case "name":
		return string(m.cfg.ID), true
	case "vmId":
		return strings.ToLower(m.eventID(0)), true
	case "vmSize":
		return pool.InstanceType, true
	case "location":
		return pool.Region, true
	case "zone":
		return pool.Zone, true
	case "userData":
		return base64.StdEncoding.EncodeToString(m.cfg.UserData), true
	}
	return "", false
}

// eventID is a UUID that a warning has for as long as it stands.
func (m *Metadata) eventID(number int) string {
	a, b := hash(fmt.Sprint(m.cfg.ID, number)), hash(fmt.Sprint(number, m.cfg.ID))
	return strings.ToUpper(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff))
}

// scheduled is an event as Azure writes it.
type scheduled struct {
	EventID           string `json:"EventId"`
	EventType         string
	EventStatus       string
	ResourceType      string
	Resources         []string
	NotBefore         string // empty once the event has started
	Description       string
	EventSource       string
	DurationInSeconds int
}

// listEvents gives the document of what is to happen. The first question switches
// that on, which takes its time.
func (m *Metadata) listEvents(w http.ResponseWriter, r *http.Request) {
	pause(r.Context(), m.untilOn())
	s := m.standing()
	doc := struct {
		DocumentIncarnation int
		Events              []scheduled
	}{2 * s.number, []scheduled{}}
	if s.begun {
		doc.DocumentIncarnation++
	}
	if !s.deadline.IsZero() {
		e := scheduled{
			EventID: m.eventID(s.number), EventType: "Preempt", EventStatus: "Scheduled", ResourceType: "VirtualMachine", Resources: []string{string(m.cfg.ID)},
			NotBefore: s.deadline.UTC().Format(http.TimeFormat), EventSource: "Platform", DurationInSeconds: -1,
		}
		if s.begun {
			e.EventStatus, e.NotBefore = "Started", ""
		}
		doc.Events = append(doc.Events, e)
	}
	body, err := json.Marshal(doc)
	if err != nil {
		azureRefuse(w, http.StatusInternalServerError, "Internal error")
		return
	}
	say(w, "application/json; charset=utf-8", body)
}

// untilOn is how long until the service is on.
func (m *Metadata) untilOn() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	if m.asked.IsZero() {
		m.asked = now
	}
	return m.asked.Add(m.cfg.FirstAnswer).Sub(now)
}

// startEvents begins what is agreed to. Agreeing again is agreed to as well.
func (m *Metadata) startEvents(w http.ResponseWriter, r *http.Request) {
	var request struct {
		StartRequests []struct {
			EventID string `json:"EventId"`
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil || json.Unmarshal(body, &request) != nil || len(request.StartRequests) == 0 {
		azureRefuse(w, http.StatusBadRequest, "Bad request. StartRequests could not be read")
		return
	}
	ids := make([]string, len(request.StartRequests))
	for i, s := range request.StartRequests {
		ids[i] = s.EventID
	}
	known, first := m.agree(ids)
	if !known {
		azureRefuse(w, http.StatusBadRequest, "Bad request. There is no such event")
		return
	}
	if first && m.cfg.Acknowledged != nil {
		m.cfg.Acknowledged()
	}
	w.WriteHeader(http.StatusOK)
}

// agree reports whether the ids are all of the warning that stands, and whether
// this is the first time.
func (m *Metadata) agree(ids []string) (known, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.eventID(m.number)
	if m.deadline.IsZero() || slices.ContainsFunc(ids, func(s string) bool { return !strings.EqualFold(s, id) }) {
		return false, false
	}
	first = !m.agreed
	m.agreed = true
	return true, first
}
