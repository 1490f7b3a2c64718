//go:build linux

package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/metadata"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/spotferry/spotferry/events"
)

// spoken is a machine's metadata in a dialect, on a port of its own.
func spoken(t *testing.T, c MetadataConfig) (*Metadata, *httptest.Server) {
	t.Helper()
	c.ID, c.UserData = "i-1", []byte("born with")
	c.Pool = events.Pool{Region: "us-east", Zone: "us-east-a", InstanceType: "v100x1", Capacity: events.Spot}
	m := NewMetadata(c)
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	return m, srv
}

// AWS's own client is a peer of what machines are told in EC2's dialect.
func TestAWSsClientReadsTheMetadata(t *testing.T) {
	t.Parallel()
	m, srv := spoken(t, MetadataConfig{Kind: events.NoticeEC2})
	c := imds.New(imds.Options{Endpoint: srv.URL, EnableFallback: aws.FalseTernary}) // version 2 or nothing
	get := func(path string) (string, error) {
		out, err := c.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: path})
		if err != nil {
			return "", err
		}
		defer out.Content.Close()
		text, err := io.ReadAll(out.Content)
		return string(text), err
	}
	if id, err := get("instance-id"); id != "i-1" || err != nil {
		t.Errorf("instance-id is %q, %v", id, err)
	}
	if zone, err := get("placement/availability-zone"); zone != "us-east-a" || err != nil {
		t.Errorf("zone is %q, %v", zone, err)
	}
	if text, err := get("spot/instance-action"); err == nil {
		t.Errorf("without a warning there is %q", text)
	}
	end := time.Now().Add(time.Minute).Truncate(time.Second)
	m.Warn(end)
	var a struct {
		Action string
		Time   time.Time
	}
	text, err := get("spot/instance-action")
	if err != nil || json.Unmarshal([]byte(text), &a) != nil || a.Action != "terminate" || !a.Time.Equal(end) {
		t.Errorf("%q, %v", text, err)
	}
	out, err := c.GetUserData(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Content.Close()
	if data, err := io.ReadAll(out.Content); string(data) != "born with" || err != nil {
		t.Errorf("user data is %q, %v", data, err)
	}
}

// Google's own client is a peer of what machines are told in its dialect.
func TestGooglesClientReadsTheMetadata(t *testing.T) { // not parallel: it is pointed by the environment
	m, srv := spoken(t, MetadataConfig{Kind: events.NoticeGCP})
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(srv.URL, "http://"))
	c := metadata.NewClient(srv.Client())
	for _, tc := range []struct {
		what string
		get  func(context.Context) (string, error)
		want string
	}{
		{"name", c.InstanceNameWithContext, "i-1"},
		{"zone", c.ZoneWithContext, "us-east-a"},
		{"project", c.ProjectIDWithContext, "local"},
		{"user data", func(ctx context.Context) (string, error) {
			return c.InstanceAttributeValueWithContext(ctx, "user-data")
		}, "born with"},
		{"preempted", func(ctx context.Context) (string, error) { return c.GetWithContext(ctx, "instance/preempted") }, "FALSE"},
		{"maintenance", func(ctx context.Context) (string, error) { return c.GetWithContext(ctx, "instance/maintenance-event") }, "NONE"},
	} {
		if got, err := tc.get(t.Context()); got != tc.want || err != nil {
			t.Errorf("%s is %q, %v, want %q", tc.what, got, err, tc.want)
		}
	}
	if !metadata.OnGCEWithContext(t.Context()) {
		t.Error("the client does not know where it is")
	}
	var missing metadata.NotDefinedError
	if v, err := c.InstanceAttributeValueWithContext(t.Context(), "ssh-keys"); !errors.As(err, &missing) {
		t.Errorf("an attribute that is not there is %q, %v", v, err)
	}
	seen := make(chan string, 8)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.SubscribeWithContext(ctx, "instance/preempted", func(ctx context.Context, v string, ok bool) error {
			seen <- v
			return ctx.Err()
		})
	}()
	for _, next := range []func(){func() {}, func() { m.Warn(time.Now().Add(time.Minute)) }, func() { m.Warn(time.Time{}) }} {
		next()
		select {
		case v := <-seen:
			t.Logf("preempted became %s", v)
			if want := strings.ToUpper(strconv.FormatBool(!m.standing().deadline.IsZero())); v != want {
				t.Errorf("preempted became %q, want %q", v, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a change was not told")
		}
	}
	cancel()
	<-ended
}

func TestGCPsMetadataInsistsOnItsFlavor(t *testing.T) {
	t.Parallel()
	_, srv := spoken(t, MetadataConfig{Kind: events.NoticeGCP})
	const preempted = "/computeMetadata/v1/instance/preempted"
	for _, tc := range []struct {
		name, method, path string
		header             []string
		want               int
	}{
		{"with it there is an answer", "GET", preempted, []string{"Metadata-Flavor", "Google"}, 200},
		{"without it there is none", "GET", preempted, nil, 403},
		{"nor with another", "GET", preempted, []string{"Metadata-Flavor", "Vanilla"}, 403},
		{"nor through a proxy", "GET", preempted, []string{"Metadata-Flavor", "Google", "X-Forwarded-For", "1.2.3.4"}, 403},
		{"nothing can be put", "PUT", preempted, []string{"Metadata-Flavor", "Google"}, 405},
		{"what there is not is not found", "GET", "/computeMetadata/v1/instance/soul", []string{"Metadata-Flavor", "Google"}, 404},
		{"nor EC2's paths", "GET", "/latest/meta-data/instance-id", []string{"Metadata-Flavor", "Google"}, 404},
		{"a change that does not come is waited for no longer than asked", "GET", preempted + "?wait_for_change=true&timeout_sec=1", []string{"Metadata-Flavor", "Google"}, 200},
		{"a change that has come is not waited for", "GET", preempted + "?wait_for_change=true&last_etag=0", []string{"Metadata-Flavor", "Google"}, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			resp := put(t, tc.method, srv.URL+tc.path, "", tc.header...)
			if resp.StatusCode != tc.want || resp.Header.Get("Metadata-Flavor") != "Google" {
				t.Errorf("%d %v, want %d", resp.StatusCode, resp.Header, tc.want)
			}
		})
	}
}

// put asks for a URL and has read the answer, whose body it leaves as text.
func put(t *testing.T, method, url, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(strings.NewReader(string(text)))
	return resp
}

// exchanged is a row of a recorded run of AWS's own mock: a question, and the
// status and content type that it was answered with.
var exchanged = regexp.MustCompile(`(?m)^(GET|PUT) (\S+) +(.*?) *-> (\d+) +(\S+)`)

func TestMetadataAnswersAsRecorded(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../shared/recorded/imdsv2-exchange.txt")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("the recorded exchange does not lie beside this checkout: %v", err)
	}
	m, srv := spoken(t, MetadataConfig{})
	token, err := io.ReadAll(put(t, "PUT", srv.URL+"/latest/api/token", "", ttlHeader, "21600").Body)
	if err != nil {
		t.Fatal(err)
	}
	rows := exchanged.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 8 {
		t.Fatalf("%d rows were recognised", len(rows))
	}
	for _, r := range rows {
		method, path, how := r[1], r[2], r[3]
		if strings.HasSuffix(path, "/rebalance") {
			continue // this seller recommends nothing
		}
		m.Warn(time.Time{})
		headers := []string{tokenHeader, string(token)}
		switch {
		case strings.Contains(how, "no token"), strings.Contains(how, "no TTL"):
			headers = nil
		case strings.Contains(how, "bad token"):
			headers[1] = "AAAA"
		case method == "PUT":
			headers = []string{ttlHeader, "21600"}
		case !strings.Contains(how, "before"):
			m.Warn(time.Now().Add(time.Minute))
		}
		kind := map[string]string{"XHTML": "text/html"}[r[5]]
		if kind == "" {
			kind = strings.TrimSuffix(r[5], ";")
		}
		resp := put(t, method, srv.URL+path, "", headers...)
		if got := resp.Header.Get("Content-Type"); strconv.Itoa(resp.StatusCode) != r[4] || got != kind {
			t.Errorf("%s: %d %s, recorded %s %s", r[0], resp.StatusCode, got, r[4], kind)
		}
	}
}
