package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// MetadataEndpointVariable is the environment variable that moves the metadata
// service, the one that the seller's own software reads.
const MetadataEndpointVariable = "AWS_EC2_METADATA_SERVICE_ENDPOINT"

// defaultEndpoint is where a machine finds its metadata.
const defaultEndpoint = "http://169.254.169.254"

// maxMetadata is the most read of an answer.
const maxMetadata = 256 << 10

// errNothing is an answer that there is no such thing.
var errNothing = errors.New("the metadata service has none")

// IMDS reads an EC2-shaped metadata service, version 2: every question carries a
// token, which is asked for first and again when it is refused.
type IMDS struct {
	endpoint string
	client   *http.Client

	mu    sync.Mutex
	token string
}

// NewIMDS returns a reader of the service at endpoint, the value of
// MetadataEndpointVariable; empty means the usual address.
func NewIMDS(endpoint string) (*IMDS, error) {
	if endpoint == "" {
		endpoint = defaultEndpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%s is %.100q: give an address such as %s", MetadataEndpointVariable, endpoint, defaultEndpoint)
	}
	return &IMDS{endpoint: strings.TrimSuffix(endpoint, "/"), client: &http.Client{
		Timeout:   time.Second,
		Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 1}, // metadata never goes through a proxy
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // nor anywhere else
		},
	}}, nil
}

// Close ends idle connections.
func (m *IMDS) Close() { m.client.CloseIdleConnections() }

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
	at, err1 := time.Parse(time.RFC3339, a.Time)
	answered, err2 := http.ParseTime(date)
	if err1 == nil && err2 == nil {
		// The answer was given somewhere in the second its date names.
		w.Left, w.Known = at.Sub(answered)-time.Second, true
	}
	return w, nil
}

// UserData implements Metadata.
func (m *IMDS) UserData(ctx context.Context) ([]byte, error) {
	body, _, err := m.get(ctx, "/latest/user-data")
	return body, err
}

// Instance implements Metadata.
func (m *IMDS) Instance(ctx context.Context) (events.InstanceID, error) {
	body, _, err := m.get(ctx, "/latest/meta-data/instance-id")
	id := bytes.TrimSpace(body)
	if err == nil && (len(id) > 128 || bytes.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' })) {
		err = fmt.Errorf("instance-id is %.100q", id)
	}
	if err != nil {
		return "", err
	}
	return events.InstanceID(id), nil
}

// get asks for a path, with a new token if the service wants one.
func (m *IMDS) get(ctx context.Context, path string) ([]byte, http.Header, error) {
	token, err := m.currentToken(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	body, header, err := m.ask(ctx, http.MethodGet, path, "X-Aws-Ec2-Metadata-Token", token)
	if errors.Is(err, errToken) {
		if token, err = m.currentToken(ctx, token); err == nil {
			body, header, err = m.ask(ctx, http.MethodGet, path, "X-Aws-Ec2-Metadata-Token", token)
		}
	}
	return body, header, err
}

// currentToken returns the token in use, or a new one in place of a refused one.
func (m *IMDS) currentToken(ctx context.Context, refused string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.token != "" && m.token != refused {
		return m.token, nil
	}
	body, _, err := m.ask(ctx, http.MethodPut, "/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
	if err != nil {
		return "", fmt.Errorf("asking for a metadata token: %w", err)
	}
	token := string(bytes.TrimSpace(body))
	if token == "" || len(token) > 1024 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("the metadata service gave %.40q for a token", token)
	}
	m.token = token
	return token, nil
}

// errToken is an answer that wants another token.
var errToken = errors.New("the metadata service refused the token")

func (m *IMDS) ask(ctx context.Context, method, path, header, value string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.endpoint+path, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set(header, value)
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil, errNothing
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, nil, errToken
	case resp.StatusCode != http.StatusOK:
		return nil, nil, fmt.Errorf("%s %s: status %d", method, path, resp.StatusCode)
	case len(body) > maxMetadata:
		return nil, nil, fmt.Errorf("%s %s: an answer of more than %d bytes", method, path, maxMetadata)
	}
	return body, resp.Header, nil
}
