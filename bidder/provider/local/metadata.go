package local

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// metadata is what a machine is told about itself: the paths of EC2's instance
// metadata that agents read, version 2 only, so that every question needs a token.
type metadata struct {
	record record
	now    func() time.Time

	mu       sync.Mutex
	deadline time.Time            // of the warning that stands, or zero
	tokens   map[string]time.Time // and when each is too old
}

const (
	tokenHeader = "X-Aws-Ec2-Metadata-Token"
	ttlHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	maxTTL      = 21600
	maxTokens   = 1024 // a machine that asks for more loses its oldest
	plain       = "text/plain"
)

func newMetadata(r record, now func() time.Time) *metadata {
	return &metadata{record: r, now: now, tokens: map[string]time.Time{}}
}

// warn names a deadline; the zero time withdraws it.
func (m *metadata) warn(deadline time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deadline = deadline
}

// ServeHTTP answers as EC2 does. The Date header, by which a deadline is to be
// read, is the server's.
func (m *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "EC2ws")
	switch {
	case r.URL.Path == "/latest/api/token":
		m.giveToken(w, r)
	case !m.admits(r.Header.Get(tokenHeader)):
		refuse(w, http.StatusUnauthorized)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, http.StatusMethodNotAllowed)
	default:
		kind, body := m.answer(r.URL.Path)
		if kind == "" {
			refuse(w, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(body) // whoever asked has gone: nothing to do
	}
}

func (m *metadata) giveToken(w http.ResponseWriter, r *http.Request) {
	ttl, err := strconv.Atoi(r.Header.Get(ttlHeader))
	switch {
	case r.Method != http.MethodPut:
		refuse(w, http.StatusMethodNotAllowed)
	case r.Header.Get("X-Forwarded-For") != "": // a proxy that lets others ask in the machine's name
		refuse(w, http.StatusForbidden)
	case err != nil || ttl < 1 || ttl > maxTTL:
		refuse(w, http.StatusBadRequest)
	default:
		w.Header().Set("Content-Type", plain)
		w.Header().Set(ttlHeader, strconv.Itoa(ttl))
		_, _ = w.Write([]byte(m.newToken(time.Duration(ttl) * time.Second)))
	}
}

func (m *metadata) newToken(ttl time.Duration) string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	token := base64.StdEncoding.EncodeToString(b[:])
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tokens) >= maxTokens {
		oldest := ""
		for t, until := range m.tokens {
			if oldest == "" || until.Before(m.tokens[oldest]) {
				oldest = t
			}
		}
		delete(m.tokens, oldest)
	}
	m.tokens[token] = m.now().Add(ttl)
	return token
}

func (m *metadata) admits(token string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	until, ok := m.tokens[token]
	return ok && m.now().Before(until)
}

// answer returns a content type and a body, or "" for what there is not.
func (m *metadata) answer(path string) (string, []byte) {
	m.mu.Lock()
	deadline := m.deadline.UTC().Format("2006-01-02T15:04:05Z")
	warned := !m.deadline.IsZero()
	m.mu.Unlock()

	pool := m.record.Spec.Pool
	switch path {
	case "/latest/meta-data/spot/instance-action":
		if warned {
			return "application/json", fmt.Appendf(nil, `{"action":"terminate","time":%q}`, deadline)
		}
	case "/latest/meta-data/spot/termination-time":
		if warned {
			return plain, []byte(deadline)
		}
	case "/latest/meta-data/instance-id":
		return plain, []byte(m.record.ID)
	case "/latest/meta-data/instance-type":
		return plain, []byte(pool.InstanceType)
	case "/latest/meta-data/instance-life-cycle":
		return plain, []byte(pool.Capacity)
	case "/latest/meta-data/placement/availability-zone":
		return plain, []byte(pool.Zone)
	case "/latest/meta-data/placement/region":
		return plain, []byte(pool.Region)
	case "/latest/user-data":
		if len(m.record.Spec.UserData) > 0 {
			return "application/octet-stream", m.record.Spec.UserData
		}
	}
	return "", nil // among others events/recommendations/rebalance, which this seller never gives
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
