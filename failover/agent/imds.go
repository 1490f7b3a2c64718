package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// defaultEndpoint is where a machine of EC2, and of Azure, finds its metadata.
const defaultEndpoint = "http://169.254.169.254"

// IMDS reads an EC2-shaped metadata service, version 2: every question carries a
// token, which is asked for first and again when it is refused.
type IMDS struct{ tokened }

// NewIMDS returns a reader of the service at endpoint, the value of
// MetadataEndpointVariable; empty means the usual address.
func NewIMDS(endpoint string) (*IMDS, error) {
	m, err := newMetaHTTP(endpoint, defaultEndpoint)
	if err != nil {
		return nil, err
	}
	return &IMDS{tokened{metaHTTP: m, header: "X-Aws-Ec2-Metadata-Token", ttlHeader: "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"}}, nil
}

// Warning implements Metadata.
func (m *IMDS) Warning(ctx context.Context) (*Warning, error) {
	body, header, err := m.get(ctx, "/latest/meta-data/spot/instance-action")
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseAction(body, header.Get("Date"))
}

// parseAction reads an instance-action. Without a time that can be read it is
// still a warning; without an action it is not.
func parseAction(body []byte, date string) (*Warning, error) {
	var a struct {
		Action string `json:"action"`
		Time   string `json:"time"`
	}
	if err := json.Unmarshal(body, &a); err != nil || a.Action == "" {
		return nil, fmt.Errorf("instance-action is %.100q, not an action with a time", body)
	}
	w := &Warning{Action: fmt.Sprintf("%.32s", strings.ToValidUTF8(a.Action, "\uFFFD")), Source: "imds"}
	if at, err := time.Parse(time.RFC3339, a.Time); err == nil {
		w.Left, w.Known = untilThen(at, date)
	}
	return w, nil
}

// Hint implements Hinter: EC2 recommends to leave machines that are likely to be
// taken soon, long before the notice, together with it, or never.
func (m *IMDS) Hint(ctx context.Context) (string, error) {
	body, _, err := m.get(ctx, "/latest/meta-data/events/recommendations/rebalance")
	if errors.Is(err, errNothing) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var r struct {
		At time.Time `json:"noticeTime"`
	}
	if err := json.Unmarshal(body, &r); err != nil || r.At.IsZero() {
		return "", fmt.Errorf("a recommendation to rebalance is %.100q, not a time", body)
	}
	return "rebalance recommended at " + r.At.UTC().Format(time.RFC3339), nil
}

// tokened is a metadata service that answers questions with a token only, and
// calls what every machine has by the names that EC2 gave them.
type tokened struct {
	metaHTTP
	header, ttlHeader string

	mu    sync.Mutex
	token string
}

// UserData implements Metadata.
func (m *tokened) UserData(ctx context.Context) ([]byte, error) {
	body, _, err := m.get(ctx, "/latest/user-data")
	return body, err
}

// Instance implements Metadata.
func (m *tokened) Instance(ctx context.Context) (events.InstanceID, error) {
	body, _, err := m.get(ctx, "/latest/meta-data/instance-id")
	if err != nil {
		return "", err
	}
	return parseInstance(body)
}

// get asks for a path, with a new token if the service wants one.
func (m *tokened) get(ctx context.Context, path string) ([]byte, http.Header, error) {
	token, err := m.currentToken(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	q := question{method: http.MethodGet, path: path, header: m.header, value: token}
	body, header, err := m.ask(ctx, q)
	if errors.Is(err, errToken) {
		if q.value, err = m.currentToken(ctx, token); err == nil {
			body, header, err = m.ask(ctx, q)
		}
	}
	return body, header, err
}

// currentToken returns the token in use, or a new one in place of a refused one.
func (m *tokened) currentToken(ctx context.Context, refused string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.token != "" && m.token != refused {
		return m.token, nil
	}
	body, _, err := m.ask(ctx, question{method: http.MethodPut, path: "/latest/api/token", header: m.ttlHeader, value: "21600"})
	if err != nil {
		return "", fmt.Errorf("asking for a metadata token: %w", unlikeAnswer(err))
	}
	token := string(bytes.TrimSpace(body))
	if token == "" || len(token) > 1024 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("the metadata service gave %.40q for a token", token)
	}
	m.token = token
	return token, nil
}

// unlikeAnswer makes of "there is none" a failure: that there are no tokens does
// not say that there is no notice.
func unlikeAnswer(err error) error {
	if errors.Is(err, errNothing) {
		return errors.New("there are none")
	}
	return err
}
