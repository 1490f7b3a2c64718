package local

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spotferry/spotferry/events"
)

// tokenDialect is a service in which every question needs a token: EC2's, version
// 2 only, and Alibaba's in its hardened mode.
type tokenDialect struct {
	server, token, ttl string // headers
	notice             func(kind events.NoticeKind, path string, s standing) (contentType string, body []byte)
}

const (
	tokenHeader = "X-Aws-Ec2-Metadata-Token"
	ttlHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	maxTTL      = 21600
	maxTokens   = 1024 // a machine that asks for more loses its oldest

	wholeSecond = "2006-01-02T15:04:05Z"
)

var (
	ec2     = tokenDialect{"EC2ws", tokenHeader, ttlHeader, ec2Notice}
	alibaba = tokenDialect{"", "X-Aliyun-Ecs-Metadata-Token", "X-Aliyun-Ecs-Metadata-Token-Ttl-Seconds", alibabaNotice}
)

func (m *Metadata) serveTokened(w http.ResponseWriter, r *http.Request, d tokenDialect) {
	if d.server != "" {
		w.Header().Set("Server", d.server)
	}
	switch {
	case r.URL.Path == "/latest/api/token":
		m.giveToken(w, r, d)
	case !m.admits(r.Header.Get(d.token)):
		refuse(w, http.StatusUnauthorized)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, http.StatusMethodNotAllowed)
	default:
		kind, body := d.notice(m.cfg.Kind, r.URL.Path, m.standing())
		if kind == "" {
			kind, body = m.lasting(r.URL.Path)
		}
		if kind == "" {
			refuse(w, http.StatusNotFound)
			return
		}
		say(w, kind, body)
	}
}

func (m *Metadata) giveToken(w http.ResponseWriter, r *http.Request, d tokenDialect) {
	ttl, err := strconv.Atoi(r.Header.Get(d.ttl))
	switch {
	case r.Method != http.MethodPut:
		refuse(w, http.StatusMethodNotAllowed)
	case r.Header.Get("X-Forwarded-For") != "": // a proxy that lets others ask in the machine's name
		refuse(w, http.StatusForbidden)
	case err != nil || ttl < 1 || ttl > maxTTL:
		refuse(w, http.StatusBadRequest)
	default:
		w.Header().Set(d.ttl, strconv.Itoa(ttl))
		say(w, plain, []byte(m.newToken(time.Duration(ttl)*time.Second)))
	}
}

func (m *Metadata) newToken(ttl time.Duration) string {
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
	m.tokens[token] = m.cfg.Now().Add(ttl)
	return token
}

func (m *Metadata) admits(token string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	until, ok := m.tokens[token]
	return ok && m.cfg.Now().Before(until)
}

// ec2Notice answers what EC2 says of an interruption. Among what there is not is
// events/recommendations/rebalance, which this seller never gives, and everything
// on a machine that gives no notice in this way.
func ec2Notice(kind events.NoticeKind, path string, s standing) (string, []byte) {
	if s.deadline.IsZero() || kind != "" && kind != events.NoticeEC2 {
		return "", nil
	}
	at := s.deadline.UTC().Format(wholeSecond)
	switch path {
	case "/latest/meta-data/spot/instance-action":
		return "application/json", fmt.Appendf(nil, `{"action":"terminate","time":%q}`, at)
	case "/latest/meta-data/spot/termination-time":
		return plain, []byte(at)
	}
	return "", nil
}

func alibabaNotice(_ events.NoticeKind, path string, s standing) (string, []byte) {
	if s.deadline.IsZero() || path != "/latest/meta-data/instance/spot/termination-time" {
		return "", nil
	}
	return plain, []byte(s.deadline.UTC().Format(wholeSecond))
}

// lasting answers what never changes: a content type and a body, or "" for what
// there is not. Both sellers call it the same where both have it.
func (m *Metadata) lasting(path string) (string, []byte) {
	pool := m.cfg.Pool
	switch path {
	case "/latest/meta-data/instance-id":
		return plain, []byte(m.cfg.ID)
	case "/latest/meta-data/instance-type", "/latest/meta-data/instance/instance-type":
		return plain, []byte(pool.InstanceType)
	case "/latest/meta-data/instance-life-cycle":
		return plain, []byte(pool.Capacity)
	case "/latest/meta-data/placement/availability-zone", "/latest/meta-data/zone-id":
		return plain, []byte(pool.Zone)
	case "/latest/meta-data/placement/region", "/latest/meta-data/region-id":
		return plain, []byte(pool.Region)
	case "/latest/user-data":
		if len(m.cfg.UserData) > 0 {
			return "application/octet-stream", m.cfg.UserData
		}
	}
	return "", nil
}
