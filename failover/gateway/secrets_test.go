package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// shelf keeps sealed secrets in memory.
type shelf struct {
	mu   sync.Mutex
	kept map[events.JobID]events.Sealed
	key  string
	down bool
}

func (s *shelf) Announce(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
	return nil
}

func (s *shelf) Sealed(_ context.Context, j events.JobID) (events.Sealed, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return events.Sealed{}, false, errors.New("the bucket does not answer")
	}
	got, ok := s.kept[j]
	return got, ok, nil
}

func (s *shelf) Remove(_ context.Context, j events.JobID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, j)
	return nil
}

// curve is a sealer with a key of its own.
type curve struct{ kp nkeys.KeyPair }

func newCurve(t *testing.T) curve {
	t.Helper()
	kp, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	return curve{kp}
}

func (c curve) SecretsKey() (string, error) { return c.kp.PublicKey() }

func (c curve) OpenSecrets(s events.Sealed) ([]byte, error) { return c.kp.Open(s.Box, s.From) }

func (c curve) SealSecrets(clear []byte, to string) (events.Sealed, error) {
	from, err := c.kp.PublicKey()
	if err != nil {
		return events.Sealed{}, err
	}
	box, err := c.kp.Seal(clear, to)
	return events.Sealed{From: from, Box: box}, err
}

// keeper is a rig whose job has secrets, and an agent that wants to join.
type keeper struct {
	*rig
	shelf   *shelf
	curve   curve
	lease   events.LeaseID
	request events.JoinRequest
	own     curve // the agent's
}

func newKeeper(t *testing.T, names ...string) *keeper {
	r := newRig(t)
	k := &keeper{rig: r, shelf: &shelf{kept: map[events.JobID]events.Sealed{}}, curve: newCurve(t), own: newCurve(t)}
	cfg := r.config()
	cfg.Secrets, cfg.Keys = k.shelf, k.curve
	r.gateway = New(cfg)
	secret := events.JobID("j2")
	if _, err := r.book.Submit(t.Context(), secret, failover.Submit{
		Attribution: events.Attribution{Org: org}, By: "ann",
		Spec: events.JobSpec{Name: "n", Run: "train", Secrets: names, Policy: events.Policy{Budget: 10 * events.Dollar}},
	}); err != nil {
		t.Fatal(err)
	}
	k.lease = secret.Lease(1, 1)
	_, _, err := r.book.Apply(t.Context(), secret, failover.Bought{
		Lease:    k.lease,
		Intent:   r.leaseEvent(k.lease, events.LeaseIntended{Job: secret, Epoch: 1, N: 1, Purpose: events.ForReplace}),
		Launched: r.leaseEvent(k.lease, events.LeaseLaunched{Instance: "i", Price: events.DollarPerHour, BootBy: r.now.Add(1 << 40)}),
	})
	if err != nil {
		t.Fatal(err)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	k.request.Lease = k.lease
	k.request.Key, _ = user.PublicKey()
	k.request.SealTo, _ = k.own.SecretsKey()
	k.request.Proof, _ = user.Sign([]byte(k.request.SealTo))
	return k
}

// seal keeps secrets as the command line would have sealed them for a job.
func (k *keeper) seal(owner events.JobID, to curve, names ...string) {
	k.t.Helper()
	values := map[string]events.Secret{}
	for _, n := range names {
		values[n] = events.NewSecret("c4nary-" + n)
	}
	clear, err := events.PackSecrets(owner, values)
	if err != nil {
		k.t.Fatal(err)
	}
	public, _ := to.SecretsKey()
	sealed, err := newCurve(k.t).SealSecrets(clear, public)
	if err != nil {
		k.t.Fatal(err)
	}
	k.shelf.kept["j2"] = sealed
}

func (k *keeper) joins() events.JoinReply {
	k.t.Helper()
	return requestOf[events.JoinReply](k.rig, "j2", 1, events.VerbJoin, k.request)
}

func TestSecretsAreHandedToTheAgentThatTheyAreSealedTo(t *testing.T) {
	k := newKeeper(t, "A", "B")
	k.seal("j2", k.curve, "A", "B")
	for range 2 { // an answer that got lost
		got := k.joins()
		if got.Refusal != nil || got.Secrets == nil {
			t.Fatalf("joined with %+v", got)
		}
		clear, err := k.own.OpenSecrets(*got.Secrets)
		if err != nil {
			t.Fatal(err)
		}
		have, err := events.UnpackSecrets("j2", clear)
		if err != nil || have["A"].Reveal() != "c4nary-A" || have["B"].Reveal() != "c4nary-B" {
			t.Errorf("got %v, %v", have, err)
		}
		if said := fmt.Sprintf("%+v", got); strings.Contains(said, "c4nary") {
			t.Errorf("the answer shows them: %s", said)
		}
	}
	for _, e := range k.log.Events(events.FilterJobs) {
		if said := fmt.Sprintf("%+v", e); strings.Contains(said, "c4nary") {
			t.Errorf("an event shows them: %s", said)
		}
	}
}

func TestAJobWithoutSecretsIsAskedNothing(t *testing.T) {
	k := newKeeper(t)
	k.shelf.down, k.request.SealTo, k.request.Proof = true, "", nil
	if got := k.joins(); got.Refusal != nil || got.Secrets != nil {
		t.Errorf("joined with %+v", got)
	}
}

func TestWhoGetsNoSecrets(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*keeper)
		code  string
		over  bool // the job ends, before it buys another machine that cannot join either
	}{
		{"an agent that names no key for them", func(k *keeper) { k.request.SealTo, k.request.Proof = "", nil }, "invalid", false},
		{"an agent whose key for them is not signed by its own", func(k *keeper) { k.request.SealTo, _ = newCurve(k.t).SecretsKey() }, "invalid", false},
		{"an agent whose proof is noise", func(k *keeper) { k.request.Proof = []byte("noise") }, "invalid", false},
		{"nobody while the bucket is away", func(k *keeper) { k.shelf.down = true }, "unavailable", false},
		{"nobody when they are gone", func(k *keeper) { delete(k.shelf.kept, "j2") }, "fenced", true},
		{"nobody when they were sealed to another installation", func(k *keeper) { k.seal("j2", newCurve(k.t), "A") }, "fenced", true},
		{"nobody when they are another job's", func(k *keeper) { k.seal("j1", k.curve, "A") }, "fenced", true},
		{"nobody when one is missing", func(k *keeper) { k.seal("j2", k.curve, "B") }, "fenced", true},
		{"nobody when they are noise", func(k *keeper) { k.shelf.kept["j2"] = events.Sealed{From: "x", Box: []byte("noise")} }, "fenced", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := newKeeper(t, "A")
			k.seal("j2", k.curve, "A")
			tc.spoil(k)
			got := k.joins()
			if code(got.Refusal) != tc.code || got.Secrets != nil || got.JWT != "" {
				t.Fatalf("answered %+v, want %q", got, tc.code)
			}
			j, err := k.book.Job(t.Context(), "j2")
			if err != nil || j.Over() != tc.over {
				t.Errorf("job over: %t, %v; want %t", j.Over(), err, tc.over)
			}
		})
	}
}

func TestSecretsOfAnEndedJobAreForgotten(t *testing.T) {
	k := newKeeper(t, "A")
	k.seal("j2", k.curve, "A")
	feed := func() {
		for _, e := range k.log.Events(events.FilterJobs) {
			if err := k.gateway.jobEvent(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	feed()
	if len(k.shelf.kept) != 1 {
		t.Fatal("forgotten while the job lives")
	}
	if _, _, err := k.book.Apply(t.Context(), "j2", failover.Cancel{By: "ann", Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	feed()
	if len(k.shelf.kept) != 0 {
		t.Error("kept after the end")
	}
}

func TestARunningGatewayAnnouncesItsKey(t *testing.T) {
	k := newKeeper(t, "A")
	want, _ := k.curve.SecretsKey()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- k.gateway.Run(ctx) }()
	for k.shelf.announced() != want { // it has nothing else to do first
		select {
		case err := <-done:
			t.Fatalf("Run = %v before the key was announced", err)
		default:
			runtime.Gosched()
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	if err := New(k.rig.config()).announce(t.Context()); err != nil {
		t.Errorf("without secrets: %v", err)
	}
}

func (s *shelf) announced() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key
}
