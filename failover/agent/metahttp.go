package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// MetadataEndpointVariable is the environment variable that moves the metadata
// service, whichever seller's it is: the one that EC2's own software reads.
const MetadataEndpointVariable = "AWS_EC2_METADATA_SERVICE_ENDPOINT"

const (
	// maxMetadata is the most read of an answer.
	maxMetadata = 256 << 10
	// metadataWithin is how long an answer may take that is not known to take longer.
	metadataWithin = time.Second
)

var (
	// errNothing is an answer that there is no such thing.
	errNothing = errors.New("the metadata service has none")
	// errToken is an answer that wants another token.
	errToken = errors.New("the metadata service refused the token")
)

// metaHTTP asks a metadata service, as hostile as any: not through a proxy,
// following nothing, reading no more than is sensible, and never for ever.
type metaHTTP struct {
	endpoint string
	client   *http.Client
}

func newMetaHTTP(endpoint, usual string) (metaHTTP, error) {
	if endpoint == "" {
		endpoint = usual
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return metaHTTP{}, fmt.Errorf("%s is %.100q: give an address such as %s", MetadataEndpointVariable, endpoint, usual)
	}
	return metaHTTP{endpoint: strings.TrimSuffix(endpoint, "/"), client: &http.Client{
		Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close ends idle connections.
func (m *metaHTTP) Close() { m.client.CloseIdleConnections() }

// question is one request. A header is one that the service insists on.
type question struct {
	method, path  string
	header, value string
	body          []byte
	within        time.Duration // 0: metadataWithin
}

// ask returns the body and header of a 200, or an error whose text is the same
// whenever the trouble is.
func (m *metaHTTP) ask(ctx context.Context, q question) ([]byte, http.Header, error) {
	body, header, err := m.send(ctx, q)
	if err == nil || errors.Is(err, errNothing) || errors.Is(err, errToken) {
		return body, header, err
	}
	path, _, _ := strings.Cut(q.path, "?")
	return nil, nil, fmt.Errorf("%s %s: %w", q.method, path, err)
}

func (m *metaHTTP) send(ctx context.Context, q question) ([]byte, http.Header, error) {
	if q.within == 0 {
		q.within = metadataWithin
	}
	ctx, cancel := context.WithTimeout(ctx, q.within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, q.method, m.endpoint+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set(q.header, q.value)
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, nil, unvarying(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata+1))
	switch {
	case err != nil:
		return nil, nil, unvarying(err)
	case resp.StatusCode == http.StatusNotFound:
		return nil, resp.Header, errNothing
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, nil, errToken
	case resp.StatusCode != http.StatusOK:
		return nil, nil, fmt.Errorf("status %d", resp.StatusCode)
	case len(body) > maxMetadata:
		return nil, nil, fmt.Errorf("an answer of more than %d bytes", maxMetadata)
	}
	return body, resp.Header, nil
}

// unvarying takes out of an error what differs from one try to the next, such as
// the port that was asked from: what is logged once must be told apart by its text.
func unvarying(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if o, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", o.Op, o.Err)
	}
	return err
}

// untilThen is how long after an answer a time lies that it names, by the
// answer's own clock. The answer was given somewhere in the second of its date.
func untilThen(at time.Time, date string) (time.Duration, bool) {
	answered, err := http.ParseTime(date)
	if err != nil || at.IsZero() {
		return 0, false
	}
	return at.Sub(answered) - time.Second, true
}

// parseInstance takes a machine's name from an answer, which may be anything.
func parseInstance(body []byte) (events.InstanceID, error) {
	id := string(bytes.TrimSpace(body))
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:", r)
	}
	if id == "" || len(id) > 128 || strings.ContainsFunc(id, odd) {
		return "", fmt.Errorf("the metadata service calls this machine %.100q", id)
	}
	return events.InstanceID(id), nil
}
