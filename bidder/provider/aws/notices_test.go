package aws

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/aws/awsfake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
)

func TestAnEventIsReadForWhatItAnnounces(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	warning := func(at, detail string) string {
		return `{"id":"e1","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","time":"` + at +
			`","resources":["arn:aws:ec2:us-east-1b:instance/i-other"],"detail":` + detail + `}`
	}
	const ours = `{"instance-id":"i-1","instance-action":"terminate"}`
	for _, tc := range []struct {
		name, body string
		want       time.Duration // from now; negative: no notice
	}{
		{"a fresh warning leaves two minutes", warning("2026-11-30T12:00:00Z", ours), 2 * time.Minute},
		{"one that took its time leaves less", warning("2026-11-30T11:59:30Z", ours), 90 * time.Second},
		{"an old one leaves nothing", warning("2026-11-30T09:00:00Z", ours), 0},
		{"a clock that is ahead does not leave more", warning("2026-11-30T13:00:00Z", ours), 2 * time.Minute},
		{"no time leaves two minutes", warning("soon", ours), 2 * time.Minute},
		{"hibernation begins at once", warning("2026-11-30T12:00:00Z", `{"instance-id":"i-1","instance-action":"hibernate"}`), 0},
		{"no machine is no notice", warning("2026-11-30T12:00:00Z", `{}`), -1},
		{"a machine that is none", warning("2026-11-30T12:00:00Z", `{"instance-id":"i-1 \n"}`), -1},
		{"a rebalance recommendation is none", strings.Replace(warning("2026-11-30T12:00:00Z", ours), "Spot Instance Interruption Warning", "Instance Rebalance Recommendation", 1), -1},
		{"somebody's own event is none", strings.Replace(warning("2026-11-30T12:00:00Z", ours), "aws.ec2", "custom", 1), -1},
		{"text", "hello", -1},
		{"half an event", warning("2026-11-30T12:00:00Z", ours)[:60], -1},
		{"another shape", `[1,2]`, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, n, ok := parseEvent(tc.body, now)
			if ok != (tc.want >= 0) {
				t.Fatalf("announced is %v", ok)
			}
			if ok && (n.Instance != "i-1" || !n.Deadline.Equal(now.Add(tc.want))) {
				t.Errorf("notice %+v, want i-1 at %s", n, now.Add(tc.want))
			}
		})
	}
}

func TestARecordedEventIsRead(t *testing.T) {
	text, err := os.ReadFile("../../../../shared/recorded/aws-eventbridge-spot-interruption.json")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("the recorded events do not lie beside this checkout: %v", err)
	}
	e, n, ok := parseEvent(string(text), time.Now())
	if !ok || n.Instance != "i-0b662ef9931388ba0" || e.ID != "1e5527d7-bb36-4607-3370-4164db56a40e" {
		t.Errorf("read %+v, %+v, %v", e, n, ok)
	}
}

// TestWarningsAreToldOnce sends everything twice, with recommendations and
// rubbish in between: each warning arrives once and the queue is empty afterwards.
func TestWarningsAreToldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{Twice: true, Rebalance: true})
	c := r.client(t)
	i := buy(t, c, providertest.SampleSpec(spot), "01jwarn-1-1")
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan provider.Notice, 16), make(chan error, 1)
	go func() { ended <- c.Notices(ctx, func(n provider.Notice) { heard <- n }) }()
	deadline := time.Now().Add(2 * time.Minute).Truncate(time.Second)
	for len(heard) == 0 { // until the fake listens to the seller behind it
		r.ec2.Send("rubbish")
		r.behind.Warn(i.ID, deadline)
		time.Sleep(20 * time.Millisecond)
	}
	for end := time.Now().Add(10 * time.Second); r.ec2.Waiting() > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("listening ended with %v, want nil", err)
	}
	close(heard)
	got := 0
	for n := range heard {
		got++
		if n.Instance != i.ID || !n.Deadline.Equal(deadline) {
			t.Errorf("notice %+v, want %s at %s", n, i.ID, deadline)
		}
	}
	if sent := r.ec2.Calls("sqs:DeleteMessage"); r.ec2.Waiting() != 0 || got*5 > sent+5 {
		t.Errorf("%d notices of %d messages, %d still waiting", got, sent, r.ec2.Waiting())
	}
}

func TestAQueueThatCannotBeReadSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{})
	err := r.client(t, func(c *Config) { c.Regions[0].Queue = r.url + "/000000000000/another" }).Notices(t.Context(), func(provider.Notice) {})
	kindOf(t, err, provider.Invalid)
	err = r.client(t, func(c *Config) { c.Regions[0].Queue = "" }).Notices(t.Context(), func(provider.Notice) {})
	kindOf(t, err, provider.Invalid)
}
