package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// TestWhoMayAskWhat is every verb in every role: what a role may not, it is
// refused by name of the role that it takes; what it may, gets past that.
func TestWhoMayAskWhat(t *testing.T) {
	want := map[Role]string{
		Viewer: "bill budget checkpoint checkpoint-gc-plan checkpoint-use checkpoints clock decision drill-cost events failover failover-events failover-list failover-stats failovers " +
			"health instances job jobs logs offers ops plan pools reapable sellers",
		Operator: "cancel checkpoint-access checkpoint-gc checkpoint-pin checkpoint-rm checkpoint-unpin drill freeze hold migrate pause release resume secrets-key submit unfreeze",
		Admin:    "budget-set reap",
	}
	served(t, nil, func(t *testing.T, d *desk) {
		got := map[Role][]string{}
		for _, v := range slices.Sorted(maps.Keys(verbs())) {
			least := Role("")
			for _, r := range Roles() {
				var a answer[json.RawMessage]
				if err := json.Unmarshal(d.server.Handle(t.Context(), Subject(r, "ann", v), []byte("{}")), &a); err != nil {
					t.Fatal(err)
				}
				switch {
				case code(a.Problem) != "forbidden" && least == "":
					least = r
				case code(a.Problem) == "forbidden" && least != "":
					t.Errorf("%s may %s and %s may not", least, v, r)
				case code(a.Problem) == "forbidden" && !strings.Contains(a.Problem.Message, "needs the role "+string(verbs()[v].least)+"; ann has "+string(r)):
					t.Errorf("%s %s: %s", r, v, a.Problem.Message)
				}
			}
			got[least] = append(got[least], string(v))
		}
		for r, verbs := range want {
			if s := strings.Join(got[r], " "); s != verbs {
				t.Errorf("from %s on:\n%s\nwant\n%s", r, s, verbs)
			}
		}
		for _, r := range []Role{"", "root", "Admin", "*"} {
			if _, p := askAs[[]Job](d, r, "ann", GetJobs, nil); code(p) != "forbidden" {
				t.Errorf("role %q: %v", r, p)
			}
		}
	})
}

// TestEveryActNeedsAReason: who does something says why. Submitting says it with its spec.
func TestEveryActNeedsAReason(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		for v, r := range verbs() {
			if !r.changes || v == DoSubmit {
				continue
			}
			for _, why := range []string{"", " \t", strings.Repeat("x", longestReason+1)} {
				body := map[string]any{"job": string(waiting), "reason": why, "limit": "5.000000", "seller": "local", "instances": []string{"i"}, "deadline_s": 30}
				if _, p := ask[json.RawMessage](d, v, body); code(p) != "invalid" || !strings.Contains(p.Message, "reason") || p.Remedy == "" {
					t.Errorf("%s for %.10q: %v", v, why, p)
				}
			}
		}
		if n := len(d.log.Events(events.FilterOps)); n != 0 {
			t.Errorf("%d decisions without a reason", n)
		}
	})
}

// TestNobodySpeaksAsSomebodyElse: with credentials as they are made, on a real bus.
func TestNobodySpeaksAsSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: filepath.Join(dir, "operator"), Entropy: rand.Reader, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	server, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: filepath.Join(dir, "bus"), Operator: op})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	dial := func(name string, c natsbus.Credentials, err error) *nats.Conn {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		nc, err := natsbus.Connect(natsbus.ConnConfig{Server: server, Credentials: c, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	creds, err := op.Service("console")
	main := dial("console", creds, err)

	d := newDesk(t)
	d.live()
	d.serve(func() {
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- d.server.Serve(ctx, main) }()
		<-d.server.Listening()
		for i, r := range Roles() {
			creds, err := op.Person("ann", string(r), natsbus.Validity{From: time.Now()})
			nc := dial("cli "+string(r), creds, err)
			if _, err := Ask[[]Job](t.Context(), NewClient(nc, r, "ann"), GetJobs, nil); err != nil {
				t.Errorf("%s: %v", r, err)
			}
			for _, other := range []*Client{NewClient(nc, r, "bob"), NewClient(nc, Roles()[(i+1)%3], "ann")} {
				if _, err := Ask[[]Job](within(t), other, GetJobs, nil); err == nil {
					t.Errorf("%s ann speaks as %s %s", r, other.role, other.user)
				}
			}
			var p *Problem
			_, err = Ask[Ops](t.Context(), NewClient(nc, r, "ann"), DoFreeze, FreezeRequest{Reason: "try as " + string(r)})
			if refused := errors.As(err, &p) && p.Code == "forbidden"; refused != (r == Viewer) {
				t.Errorf("%s freezes: %v", r, err)
			}
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	if o := d.log.Events(events.FilterOps); len(o) != 1 || o[0].Fact != (events.OpsFrozen{Reason: "try as operator", By: "ann"}) {
		t.Errorf("on record: %+v", o)
	}
}

// within is long enough for an answer and short enough to wait for none.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func askAs[T any](d *desk, r Role, user string, v Verb, body any) (T, *Problem) {
	d.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		d.t.Fatal(err)
	}
	var a answer[T]
	if err := json.Unmarshal(d.server.Handle(d.t.Context(), Subject(r, user, v), b), &a); err != nil {
		d.t.Fatal(fmt.Errorf("%s: %w", v, err))
	}
	return a.Value, a.Problem
}
