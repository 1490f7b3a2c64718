package machine

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/bidder/provider/local"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
)

var pool = events.Pool{Region: "us-east", Zone: "us-east-a", InstanceType: "v100x1", Capacity: events.Spot}

// told is a machine's metadata in the dialect of a kind, and what it was born with.
func told(t *testing.T, c local.MetadataConfig) (*local.Metadata, string) {
	t.Helper()
	c.ID, c.Pool = "sf-1", pool
	m := local.NewMetadata(c)
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	return m, srv.URL
}

func born(t *testing.T, kind events.NoticeKind, seconds int64) []byte {
	t.Helper()
	data, err := json.Marshal(events.Bootstrap{Job: "j", Epoch: 1, Lease: "j-1-1", Timers: events.DefaultTimers(), NoticeKind: kind, NoticeS: seconds})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// Every reader reads the machine's birth, its name, a warning, and that it is
// taken back, in the dialect that it is of.
func TestAgentsReadWhatMachinesAreTold(t *testing.T) {
	for _, tc := range []struct {
		kind   events.NoticeKind
		name   events.InstanceID
		source string
		left   time.Duration // of 25 s
	}{
		{"", "sf-1", "imds", 25 * time.Second},
		{events.NoticeEC2, "sf-1", "imds", 25 * time.Second},
		{events.NoticeGCP, "us-east-a/sf-1", "gcp", 30 * time.Second}, // from first sight, whatever the deadline
		{events.NoticeAzure, "sf-1", "azure", 25 * time.Second},
		{events.NoticeAlibaba, "sf-1", "alibaba", 25 * time.Second},
	} {
		t.Run(string(tc.kind), func(t *testing.T) {
			t.Parallel()
			m, url := told(t, local.MetadataConfig{Kind: tc.kind, UserData: born(t, tc.kind, 0)})
			ch, err := openChannel(t.Context(), AgentConfig{Getenv: env(noticeKindVariable, string(tc.kind), agent.MetadataEndpointVariable, url)})
			if err != nil {
				t.Fatal(err)
			}
			defer ch.close()
			if ch.boot.Lease != "j-1-1" || ch.notice != agent.UsualNotice(tc.kind) {
				t.Errorf("born with %+v, warned %v ahead", ch.boot, ch.notice)
			}
			if id, err := ch.metadata.Instance(t.Context()); id != tc.name || err != nil {
				t.Errorf("it is called %q, %v, want %s", id, err, tc.name)
			}
			for range 2 {
				if w, err := asked(t, ch.metadata); w != nil || err != nil {
					t.Fatalf("without a warning: %+v, %v", w, err)
				}
				m.Warn(time.Now().Add(25 * time.Second))
				for range 2 { // the same, seen again
					w, err := asked(t, ch.metadata)
					if err != nil || w == nil {
						t.Fatalf("a warning: %+v, %v", w, err)
					}
					if w.Action != "terminate" || w.Source != tc.source || !w.Known || w.Left > tc.left || w.Left < tc.left-5*time.Second {
						t.Errorf("%+v, want about %v of %s", w, tc.left, tc.source)
					}
				}
				m.Warn(time.Time{})
			}
			if w, err := asked(t, ch.metadata); w != nil || err != nil {
				t.Errorf("withdrawn: %+v, %v", w, err)
			}
		})
	}
}

// asked is what the agent hears that asks now.
func asked(t *testing.T, m agent.Metadata) (*agent.Warning, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return m.Warning(ctx)
}

func TestAPreemptionIsHeardAtOnce(t *testing.T) {
	t.Parallel()
	m, url := told(t, local.MetadataConfig{Kind: events.NoticeGCP, UserData: born(t, "", 0)})
	r, err := agent.NewGCP(url, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if w, err := r.Warning(t.Context()); w != nil || err != nil {
		t.Fatalf("%+v, %v", w, err)
	}
	time.AfterFunc(500*time.Millisecond, func() { m.Warn(time.Now().Add(time.Minute)) })
	began := time.Now()
	w, err := r.Warning(t.Context())
	if took := time.Since(began); err != nil || w == nil || took > 4*time.Second {
		t.Errorf("%+v, %v after %v", w, err, took)
	}
}

func TestAzureIsAgreedWithOnTheMachine(t *testing.T) {
	t.Parallel()
	var agreed atomic.Int64
	m, url := told(t, local.MetadataConfig{Kind: events.NoticeAzure, UserData: born(t, "", 0), Acknowledged: func() { agreed.Add(1) }, FirstAnswer: 1500 * time.Millisecond})
	r, err := agent.NewAzure(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if w, err := r.Warning(t.Context()); w != nil || err != nil { // it takes longer than a second
		t.Fatalf("the slow first answer: %+v, %v", w, err)
	}
	m.Warn(time.Now().Add(time.Minute))
	if w, err := r.Warning(t.Context()); w == nil || err != nil || w.Left != 30*time.Second {
		t.Fatalf("%+v, %v", w, err)
	}
	for range 2 {
		if ok, err := r.Acknowledge(t.Context()); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	}
	if w, err := r.Warning(t.Context()); w == nil || err != nil || w.Left != 0 || agreed.Load() != 1 {
		t.Errorf("agreed %d times, and then %+v, %v", agreed.Load(), w, err)
	}
}

func TestTheChannelIsFound(t *testing.T) {
	_, ec2 := told(t, local.MetadataConfig{UserData: born(t, events.NoticeNone, 0)})
	_, plain := told(t, local.MetadataConfig{UserData: born(t, "", 90)})
	_, gcp := told(t, local.MetadataConfig{Kind: events.NoticeGCP, UserData: born(t, "", 0)})
	file := func(kind events.NoticeKind, seconds int64) string {
		path := filepath.Join(t.TempDir(), "born")
		if err := os.WriteFile(path, born(t, kind, seconds), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	at := agent.MetadataEndpointVariable
	for _, tc := range []struct {
		name, file string
		env        []string
		kind       events.NoticeKind
		notice     time.Duration
		fails      string
	}{
		{"nobody says: EC2's, as ever", "", []string{at, plain}, events.NoticeEC2, 90 * time.Second, ""},
		{"a bootstrap from EC2's service that says there are no notices", "", []string{at, ec2}, events.NoticeNone, 2 * time.Minute, ""},
		{"the environment says where the bootstrap is", "", []string{at, gcp, noticeKindVariable, "gcp"}, events.NoticeGCP, 30 * time.Second, ""},
		{"a file says how notices come", file(events.NoticeAzure, 0), nil, events.NoticeAzure, 15 * time.Minute, ""},
		{"and how long before", file(events.NoticeSignal, 60), nil, events.NoticeSignal, time.Minute, ""},
		{"the environment wins", file(events.NoticeAzure, 60), []string{noticeKindVariable, "signal", noticeSecondsVariable, "7"}, events.NoticeSignal, 7 * time.Second, ""},
		{"a machine that is told nothing needs no service", file(events.NoticeNone, 0), nil, events.NoticeNone, 2 * time.Minute, ""},
		{"but has to get its bootstrap from somewhere", "", []string{noticeKindVariable, "none"}, "", 0, "give the bootstrap as a file"},
		{"a kind that is not known is named", file("smoke", 0), nil, "", 0, "smoke"},
		{"seconds that are none are named", file("", 0), []string{noticeSecondsVariable, "soon"}, "", 0, noticeSecondsVariable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ch, err := openChannel(t.Context(), AgentConfig{UserData: tc.file, Getenv: env(tc.env...)})
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("%v does not name %s", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer ch.close()
			if ch.kind != tc.kind || ch.notice != tc.notice || ch.boot.Job != "j" {
				t.Errorf("%s, %v before; want %s, %v", ch.kind, ch.notice, tc.kind, tc.notice)
			}
		})
	}
}

func TestTheEndOfTheProcessIsANoticeWhereItIsOne(t *testing.T) {
	for _, tc := range []struct {
		kind   events.NoticeKind
		notice time.Duration
	}{
		{events.NoticeSignal, 5 * time.Second}, {events.NoticeGCP, 30 * time.Second},
		{events.NoticeEC2, 0}, {events.NoticeAzure, 0}, {events.NoticeAlibaba, 0}, {events.NoticeNone, 0},
	} {
		t.Run(string(tc.kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ch := &channel{kind: tc.kind, notice: tc.notice, metadata: &agent.Mute{}}
				cfg := agent.Config{Metadata: ch.metadata}
				process, terminate := context.WithCancel(t.Context())
				ctx, cancel := ch.outlast(process, &cfg)
				defer cancel()
				if w, err := cfg.Metadata.Warning(ctx); w != nil || err != nil {
					t.Errorf("before: %+v, %v", w, err)
				}
				began := time.Now()
				terminate()
				synctest.Wait()
				if tc.notice > 0 {
					if w, err := cfg.Metadata.Warning(ctx); err != nil || w == nil || w.Source != "signal" {
						t.Errorf("then: %+v, %v", w, err)
					}
				}
				<-ctx.Done()
				want := time.Duration(0)
				if tc.notice > 0 {
					want = tc.notice + afterSignal
				}
				if took := time.Since(began); took != want {
					t.Errorf("the agent went on for %v, want %v", took, want)
				}
			})
		})
	}
}
