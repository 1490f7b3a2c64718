package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

const (
	azureEvents  = "/metadata/scheduledevents?api-version=2020-07-01"
	azureCompute = "/metadata/instance/compute/%s?api-version=2021-02-01&format=text"

	// azureFirst is how long the first answer may take: the question switches the
	// service on for this machine.
	azureFirst   = 2*time.Minute + 10*time.Second
	azureWithin  = 3 * time.Second
	azureLongest = 15 * time.Minute
)

// Azure reads Scheduled Events. One document lists what is to happen to this
// machine and to others beside it; what is over, or called off, is not in the next.
type Azure struct {
	metaHTTP
	elapsed func() time.Duration

	mu       sync.Mutex
	answered bool
	name     string                   // of this machine; "": not known yet
	seen     map[string]time.Duration // when events were first seen that do not say when they begin
	ending   []string                 // ids of those of the last document that take this machine, and no other
	hint     string                   // from the last document
}

// NewAzure returns a reader of the service at endpoint; empty means the usual address.
func NewAzure(endpoint string) (*Azure, error) {
	m, err := newMetaHTTP(endpoint, defaultEndpoint)
	if err != nil {
		return nil, err
	}
	return &Azure{metaHTTP: m, elapsed: bootTime}, nil
}

// Patience implements Patient.
func (z *Azure) Patience() time.Duration { return z.within() + 2*metadataWithin }

func (z *Azure) within() time.Duration {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.answered {
		return azureWithin
	}
	return azureFirst
}

// Warning implements Metadata: the event that takes effect first.
func (z *Azure) Warning(ctx context.Context) (*Warning, error) {
	body, header, err := z.get(ctx, azureEvents, z.within())
	if err != nil {
		return nil, err
	}
	listed, err := parseEvents(body)
	if err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.answered = true
	if len(listed) > 0 && z.name == "" {
		if z.name, err = z.nameOf(ctx); err != nil {
			return nil, fmt.Errorf("whether the scheduled events are this machine's: %w", err)
		}
	}
	return z.weigh(listed, header.Get("Date")), nil
}

// weigh takes a document, and returns the warning that follows from it.
func (z *Azure) weigh(listed []azureEvent, date string) (nearest *Warning) {
	seen := map[string]time.Duration{}
	z.ending, z.hint = nil, ""
	for _, e := range listed {
		if !e.names(z.name) {
			continue
		}
		if e.harmless() {
			z.hint = fmt.Sprintf("a %.20q of this machine is scheduled", e.Type)
			continue
		}
		now := z.elapsed()
		first, known := z.seen[e.ID]
		if !known {
			first = now
		}
		seen[e.ID] = first
		w := &Warning{Action: e.action(), Source: "azure", Left: e.left(date, now-first), Known: true}
		if nearest == nil || w.Left < nearest.Left {
			nearest = w
		}
		if w.Action == "terminate" && len(e.Resources) == 1 {
			z.ending = append(z.ending, e.ID)
		}
	}
	z.seen = seen
	return nearest
}

// Hint implements Hinter.
func (z *Azure) Hint(context.Context) (string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.hint, nil
}

// Acknowledge implements Acknowledger: the eviction begins at once, and for all
// machines of an event, so only one of this machine alone is agreed to. One that
// moves the machine or starts it again is not hurried: the machine is given back
// in good order before. It reports whether anything was agreed to.
func (z *Azure) Acknowledge(ctx context.Context) (bool, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if len(z.ending) == 0 {
		return false, nil
	}
	type start struct {
		ID string `json:"EventId"`
	}
	var request struct{ StartRequests []start }
	for _, id := range z.ending {
		request.StartRequests = append(request.StartRequests, start{id})
	}
	body, err := json.Marshal(request)
	if err != nil {
		return false, err
	}
	_, _, err = z.ask(ctx, question{method: http.MethodPost, path: azureEvents, header: "Metadata", value: "true", body: body, within: azureWithin})
	return err == nil, err
}

// UserData implements Metadata.
func (z *Azure) UserData(ctx context.Context) ([]byte, error) {
	body, _, err := z.get(ctx, fmt.Sprintf(azureCompute, "userData"), 0)
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(body)))
	if err != nil {
		return nil, errors.New("the user data is not base64") // and may be a secret
	}
	return data, nil
}

// Instance implements Metadata: machines are called by their names, as events name them.
func (z *Azure) Instance(ctx context.Context) (events.InstanceID, error) {
	name, err := z.nameOf(ctx)
	return events.InstanceID(name), err
}

func (z *Azure) nameOf(ctx context.Context) (string, error) {
	body, _, err := z.get(ctx, fmt.Sprintf(azureCompute, "name"), 0)
	if err != nil {
		return "", err
	}
	id, err := parseInstance(body)
	return string(id), err
}

// get asks for a path. That there is no such path is a failure: a document
// without events is there, too.
func (z *Azure) get(ctx context.Context, path string, within time.Duration) ([]byte, http.Header, error) {
	body, header, err := z.ask(ctx, question{method: http.MethodGet, path: path, header: "Metadata", value: "true", within: within})
	if errors.Is(err, errNothing) {
		err = fmt.Errorf("%.40s: %w", path, err)
	}
	return body, header, err
}
