package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

const (
	gcpEndpoint = "http://metadata.google.internal"
	gcpRoot     = "/computeMetadata/v1/instance/"
	gcpFlavor   = "Metadata-Flavor"

	// gcpWait is how long the server is asked to wait for a change. A server that
	// hangs is found out a little later.
	gcpWait = 5 * time.Second
	// GCPNotice is how long a Spot VM has from the soft-off.
	GCPNotice = 30 * time.Second
)

// GCP reads the metadata server of Compute Engine. It says that a machine is
// being taken and not when: the time counts from when the change was seen.
type GCP struct {
	metaHTTP
	notice  time.Duration
	elapsed func() time.Duration

	mu    sync.Mutex
	etag  string        // of preempted as last read; "": the next look does not wait
	taken bool          // it was TRUE
	since time.Duration // first seen so
	event string        // the maintenance event as last read
}

// NewGCP returns a reader of the server at endpoint; empty means the usual
// address. notice is how long before its end a machine is told; 0: GCPNotice.
func NewGCP(endpoint string, notice time.Duration) (*GCP, error) {
	m, err := newMetaHTTP(endpoint, gcpEndpoint)
	if err != nil {
		return nil, err
	}
	if notice <= 0 {
		notice = GCPNotice
	}
	return &GCP{metaHTTP: m, notice: notice, elapsed: bootTime}, nil
}

// Patience implements Patient: an answer waits for a change.
func (g *GCP) Patience() time.Duration { return gcpWait + 3*metadataWithin }

// Warning implements Metadata. Maintenance that will end the machine is a warning
// as well, with a deadline that nobody tells.
func (g *GCP) Warning(ctx context.Context) (*Warning, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	event, _, eventErr := g.get(ctx, "maintenance-event", "", 0)
	if eventErr == nil {
		g.event, eventErr = parseMaintenance(event)
	}
	still := eventErr == nil && g.event == "NONE" && !g.taken
	taken, err := g.preempted(ctx, still)
	switch {
	case err != nil:
		return nil, err // whatever maintenance says: it is not known whether this was withdrawn
	case taken:
		return &Warning{Action: "terminate", Source: "gcp", Left: g.notice - (g.elapsed() - g.since), Known: true}, nil
	case eventErr != nil:
		return nil, eventErr
	case g.event == "TERMINATE_ON_HOST_MAINTENANCE":
		return &Warning{Action: "terminate", Source: "gcp-maintenance"}, nil
	}
	return nil, nil
}

// Hint implements Hinter: maintenance that moves the machine to another host.
func (g *GCP) Hint(context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.event == "MIGRATE_ON_HOST_MAINTENANCE" {
		return "this machine will be moved to another host", nil
	}
	return "", nil
}

// preempted looks whether the machine is being taken. With wait, and if the last
// look is to be relied on, it does so until that changes.
func (g *GCP) preempted(ctx context.Context, wait bool) (bool, error) {
	query, within := "", time.Duration(0)
	if wait && g.etag != "" {
		query = fmt.Sprintf("?wait_for_change=true&last_etag=%s&timeout_sec=%d", url.QueryEscape(g.etag), int(gcpWait.Seconds()))
		within = gcpWait + metadataWithin
	}
	g.etag = ""
	body, header, err := g.get(ctx, "preempted", query, within)
	if err != nil {
		return false, err
	}
	switch strings.ToUpper(string(bytes.TrimSpace(body))) {
	case "TRUE":
		if !g.taken {
			g.taken, g.since = true, g.elapsed()
		}
	case "FALSE":
		g.taken = false
	default:
		return false, fmt.Errorf("preempted is %.100q, neither TRUE nor FALSE", body)
	}
	g.etag = header.Get("Etag")
	return g.taken, nil
}

func parseMaintenance(body []byte) (string, error) {
	switch event := string(bytes.TrimSpace(body)); event {
	case "NONE", "MIGRATE_ON_HOST_MAINTENANCE", "TERMINATE_ON_HOST_MAINTENANCE":
		return event, nil
	}
	return "", fmt.Errorf("maintenance-event is %.100q, which is not known", body)
}

// UserData implements Metadata.
func (g *GCP) UserData(ctx context.Context) ([]byte, error) {
	body, _, err := g.get(ctx, "attributes/user-data", "", 0)
	return body, err
}

// Instance implements Metadata. Names are of a zone: both together are what the
// seller's lists call the machine.
func (g *GCP) Instance(ctx context.Context) (events.InstanceID, error) {
	zone, _, err := g.get(ctx, "zone", "", 0)
	if err != nil {
		return "", err
	}
	name, _, err := g.get(ctx, "name", "", 0)
	if err != nil {
		return "", err
	}
	last := zone[bytes.LastIndexByte(zone, '/')+1:] // of projects/1234/zones/us-central1-a
	return parseInstance(bytes.Join([][]byte{bytes.TrimSpace(last), bytes.TrimSpace(name)}, []byte("/")))
}

// get asks for what stands below instance. Whoever answers without naming the
// flavor is some other server that has the address.
func (g *GCP) get(ctx context.Context, path, query string, within time.Duration) ([]byte, http.Header, error) {
	body, header, err := g.ask(ctx, question{method: http.MethodGet, path: gcpRoot + path + query, header: gcpFlavor, value: "Google", within: within})
	if errors.Is(err, errNothing) {
		return nil, nil, fmt.Errorf("instance/%s: %w", path, err)
	}
	if err == nil && header.Get(gcpFlavor) != "Google" {
		return nil, nil, fmt.Errorf("instance/%s was answered by something that is not Google's metadata server", path)
	}
	return body, header, err
}
