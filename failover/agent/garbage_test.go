package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
)

// nonsense are answers to a renewal that no gateway gives.
var nonsense = []string{
	"", "null", "[]", "{", "true", `"order"`, "<html><body>502 Bad Gateway</body></html>", "\x00\xff\xfe", strings.Repeat("[", 10_000),
	`{"order": 7}`, `{"order": "reboot", "order_id": "x"}`, `{"order": "start", "resume": 3}`, `{"paid_for": "soon"}`, `{"paid_for": -1}`, `{"paid_for": 9223372036854775807}`,
	`{"epoch": -5}`, `{"epoch": 99, "jwt": "nonsense"}`, `{"refusal": {}}`, `{"refusal": {"code": "because", "message": "no"}}`,
	`{"order": "` + strings.Repeat("x", 100_000) + `"}`, `{"ORDER": {"order": {}}}`,
}

// TestGarbageFromTheBusIsLoggedAndNothingElse floods an agent with hints that are
// no hints and answers that are no answers, and then lets it work.
func TestGarbageFromTheBusIsLoggedAndNothingElse(t *testing.T) {
	s, _ := bus(t, server.Options{})
	path := t.TempDir()
	store, err := dir.Open(dir.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var asked, commits atomic.Int64
	_, err = nc.Subscribe("agent.*.*.*", func(m *nats.Msg) {
		switch {
		case strings.HasSuffix(m.Subject, ".join"):
			data, _ := json.Marshal(events.JoinReply{Store: events.StoreGrant{Kind: "dir", Path: path, Tenant: "acme"},
				Spec: events.JobSpec{Run: untiringFor(4), Policy: events.Policy{Checkpoint: events.CheckpointPolicy{Framework: "hf"}}}})
			_ = m.Respond(data)
		case strings.HasSuffix(m.Subject, ".renew"):
			if n := int(asked.Add(1)); n <= len(nonsense) {
				_ = m.Respond([]byte(nonsense[n-1]))
				return
			}
			_ = m.Respond([]byte(`{"order": "start", "order_id": "start-1"}`))
		default:
			if strings.HasSuffix(m.Subject, ".commit") {
				commits.Add(1)
			}
			_ = m.Respond([]byte(`{}`))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	core, seen := observer.New(zapcore.InfoLevel)
	boot := bootstrap(s.ClientURL())
	processes, err := NewLinux()
	if err != nil {
		t.Fatal(err)
	}
	b := openBus(t, boot)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	machine := t.TempDir()
	go func() {
		ended <- Run(ctx, Config{Bootstrap: boot, Dir: machine, Control: b, Processes: processes, Env: os.Environ(), Quiet: -1,
			WatchEvery: 10 * time.Millisecond, LogEvery: 20 * time.Millisecond, Grace: time.Second, Log: zap.New(core)})
	}()
	for i := range 200 {
		_ = nc.Publish(events.DownSubject(boot.Job, boot.Epoch), []byte(nonsense[i%len(nonsense)]))
		time.Sleep(2 * time.Millisecond)
	}
	soon(t, "it works after all", func() bool { return commits.Load() > 0 })
	select {
	case err := <-ended:
		t.Fatalf("the agent ended: %v", err)
	default:
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	said := 0
	for _, e := range seen.All() {
		if e.Level >= zapcore.ErrorLevel && e.Message != "going over to a new epoch" && e.Message != "ending the trainer" {
			t.Errorf("%s %v", e.Message, e.ContextMap())
		}
		if e.Message == "contact changed" && strings.Contains(fmt.Sprint(e.ContextMap()["error"]), "does not parse") {
			said++
		}
	}
	if said == 0 {
		t.Error("nothing tells of answers that do not parse")
	}
	t.Logf("%d renewals, %d lines of log, %d tell of answers that do not parse", asked.Load(), seen.Len(), said)
}

// untiringFor is a trainer that saves so many checkpoints.
func untiringFor(n int) string {
	return fmt.Sprintf(`for i in $(seq %d); do d=$SPOTFERRY_CHECKPOINT_DIR/checkpoint-$i; mkdir -p $d; printf '{"global_step": %%d}' $i > $d/trainer_state.json; sleep 0.3; done; sleep 100`, n)
}
