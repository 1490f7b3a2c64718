package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// azureEvent is one of a document of Scheduled Events.
type azureEvent struct {
	ID        string   `json:"EventId"`
	Type      string   `json:"EventType"`   // Freeze, Reboot, Redeploy, Preempt, Terminate
	Status    string   `json:"EventStatus"` // Scheduled, Started
	Resources []string `json:"Resources"`
	NotBefore string   `json:"NotBefore"` // empty once started
	DurationS *int64   `json:"DurationInSeconds"`
}

// freezeSurvived is how long a machine may stand still and nobody thinks it lost.
const freezeSurvived = 10

func parseEvents(body []byte) ([]azureEvent, error) {
	var doc struct{ Events *[]azureEvent }
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("scheduled events are %.100q: %w", body, err)
	}
	if doc.Events == nil {
		return nil, errors.New("scheduled events are a document that has no list of them")
	}
	return *doc.Events, nil
}

// names reports whether the event is of the machine of this name.
func (e azureEvent) names(name string) bool {
	for _, r := range e.Resources {
		if strings.EqualFold(r, name) {
			return true
		}
	}
	return false
}

// harmless reports whether the machine goes on as it is: it stands still for a
// moment, or something happens of which nothing is known.
func (e azureEvent) harmless() bool {
	if e.Type == "Freeze" {
		return e.DurationS != nil && *e.DurationS >= 0 && *e.DurationS <= freezeSurvived
	}
	return e.action() == ""
}

// action is what becomes of the machine, "" if that is not known.
func (e azureEvent) action() string {
	switch e.Type {
	case "Preempt", "Terminate":
		return "terminate"
	case "Redeploy", "Reboot", "Freeze":
		return strings.ToLower(e.Type)
	}
	return ""
}

// usual is how long before it begins an event is announced. More is not counted on.
func (e azureEvent) usual() time.Duration {
	switch e.Type {
	case "Preempt":
		return 30 * time.Second
	case "Redeploy":
		return 10 * time.Minute
	}
	return azureLongest
}

// left is how long until the event begins. One that does not say when counts from
// when it was first seen.
func (e azureEvent) left(date string, since time.Duration) time.Duration {
	if e.Status == "Started" {
		return 0
	}
	at, err := http.ParseTime(e.NotBefore)
	if err != nil {
		at, _ = time.Parse(time.RFC3339, e.NotBefore) // the zero time if it is neither
	}
	left, known := untilThen(at, date)
	if !known {
		left = e.usual() - since
	}
	return min(max(left, 0), e.usual())
}
