package local

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// MetadataConfig is what a machine can be told about itself.
type MetadataConfig struct {
	Kind     events.NoticeKind // the dialect; "": EC2's, which machines of sellers without one have, too
	ID       events.InstanceID
	Pool     events.Pool
	UserData []byte
	Now      func() time.Time // control time; time.Now

	// FirstAnswer is how long Azure's first answer takes: asking switches the
	// service on. 0: no longer than the others.
	FirstAnswer time.Duration
	// Acknowledged, if set, is called once when the machine says that it may be
	// taken before the deadline, which Azure's can.
	Acknowledged func()
}

// Metadata is the service that tells a machine about itself, in the dialect of a
// seller: the paths that agents read, and how they are refused.
type Metadata struct {
	cfg MetadataConfig

	mu       sync.Mutex
	deadline time.Time            // of the warning that stands, or zero
	agreed   bool                 // it was acknowledged
	number   int                  // of changes
	changed  chan struct{}        // closed by the next
	tokens   map[string]time.Time // and when each is too old
	asked    time.Time            // when Azure's events first were; zero: not yet
}

const plain = "text/plain"

// NewMetadata returns a service without a warning.
func NewMetadata(c MetadataConfig) *Metadata {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Metadata{cfg: c, number: 1, changed: make(chan struct{}), tokens: map[string]time.Time{}}
}

// Warn names a deadline; the zero time withdraws it.
func (m *Metadata) Warn(deadline time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deadline, m.agreed = deadline, false
	m.change()
}

// change lets everybody know who waits for it.
func (m *Metadata) change() {
	m.number++
	close(m.changed)
	m.changed = make(chan struct{})
}

// standing is the warning as it stands now.
type standing struct {
	deadline time.Time // zero: there is none
	begun    bool      // the machine is being taken
	number   int
	changed  <-chan struct{}
}

func (m *Metadata) standing() standing {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := standing{deadline: m.deadline, number: m.number, changed: m.changed}
	s.begun = !s.deadline.IsZero() && (m.agreed || !m.cfg.Now().Before(s.deadline))
	return s
}

// ServeHTTP answers as the seller does. The Date header, by which a deadline is
// to be read, is the server's.
func (m *Metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch m.cfg.Kind {
	case events.NoticeGCP:
		m.serveGCP(w, r)
	case events.NoticeAzure:
		m.serveAzure(w, r)
	case events.NoticeAlibaba:
		m.serveTokened(w, r, alibaba)
	default:
		m.serveTokened(w, r, ec2)
	}
}

// pause waits, unless whoever asked has gone.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// say answers a question. Whoever asked may have gone: nothing to do then.
func say(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body)
}

// refuse answers with a page of XHTML, as EC2 does to programs, too.
func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	title := fmt.Sprintf("%d - %s", status, http.StatusText(status))
	fmt.Fprintf(w, `<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en"><head><title>%s</title></head><body><h1>%s</h1></body></html>
`, title, title)
}
