package natsbus

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

// seal seals as the command line does.
func seal(t *testing.T, clear, to string) events.Sealed {
	t.Helper()
	kp, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	from, err := kp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	box, err := kp.Seal([]byte(clear), to)
	if err != nil {
		t.Fatal(err)
	}
	return events.Sealed{From: from, Box: box}
}

func TestSecretsAreSealedToTheOperatorsOwnKey(t *testing.T) {
	t.Parallel()
	dir := natsbustest.Dir(t)
	op := openOperator(t, dir, rand.Reader)
	key := must(op.SecretsKey())
	if again := must(openOperator(t, dir, rand.Reader).SecretsKey()); again != key || !nkeys.IsValidPublicCurveKey(key) {
		t.Errorf("the key is %q, after a restart %q", key, again)
	}
	other := openOperator(t, natsbustest.Dir(t), rand.Reader)
	if must(other.SecretsKey()) == key {
		t.Error("two operators have one key")
	}
	s := seal(t, "c4nary", key)
	if clear, err := op.OpenSecrets(s); err != nil || string(clear) != "c4nary" {
		t.Errorf("opened %q, %v", clear, err)
	}
	if _, err := other.OpenSecrets(s); err == nil {
		t.Error("another operator opened it")
	}
	agent, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	to, _ := agent.PublicKey()
	resealed, err := op.SealSecrets([]byte("c4nary"), to)
	if err != nil || resealed.From != key {
		t.Fatalf("sealed from %q, %v", resealed.From, err)
	}
	if clear, err := agent.Open(resealed.Box, resealed.From); err != nil || string(clear) != "c4nary" {
		t.Errorf("the agent opened %q, %v", clear, err)
	}
}

func TestSealedSecretsAreKeptUntilTheyAreRemoved(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	s, ctx := NewSecrets(g.log.JetStream()), t.Context()
	if _, err := s.Key(ctx); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key before anybody said one: %v", err)
	}
	key := must(g.op.SecretsKey())
	for range 2 {
		if err := s.Announce(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if got := must(s.Key(ctx)); got != key {
		t.Errorf("the key is %q, want %q", got, key)
	}
	if _, kept, err := s.Sealed(ctx, job); kept || err != nil {
		t.Errorf("before: %t, %v", kept, err)
	}
	if err := s.Remove(ctx, job); err != nil {
		t.Errorf("removing nothing: %v", err)
	}
	mine := seal(t, "c4nary", key)
	for range 2 {
		if err := s.Keep(ctx, job, mine); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Keep(ctx, job, seal(t, "other", key)); !errors.Is(err, ErrOtherSecrets) {
		t.Errorf("others for the same job: %v", err)
	}
	got, kept, err := s.Sealed(ctx, job)
	if err != nil || !kept || got.From != mine.From || !bytes.Equal(got.Box, mine.Box) {
		t.Errorf("kept %t, %v", kept, err)
	}
	if _, kept, _ := s.Sealed(ctx, jobB); kept {
		t.Error("another job has them")
	}
	for range 2 {
		if err := s.Remove(ctx, job); err != nil {
			t.Fatal(err)
		}
	}
	if _, kept, err := s.Sealed(ctx, job); kept || err != nil {
		t.Errorf("after: %t, %v", kept, err)
	}
	kv, err := s.bucket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := kv.Status(ctx); err != nil || st.Values() > 2 { // the key, and a marker of the removal
		t.Errorf("%d values are left, %v", st.Values(), err)
	}
}

// No file of the bus has a secret's text in it, while it is kept or after.
func TestNothingOfASecretIsOnDisk(t *testing.T) {
	t.Parallel()
	dir := natsbustest.Dir(t)
	op := openOperator(t, dir, rand.Reader)
	e := startBus(t, EmbeddedConfig{Dir: filepath.Join(dir, "bus"), Operator: op})
	nc := dial(t, ConnConfig{Server: e, Credentials: must(op.Service("gateway"))})
	s := NewSecrets(newLog(t, nc, Options{}).JetStream())
	if err := s.Keep(t.Context(), job, seal(t, strings.Repeat("c4nary", 100), must(op.SecretsKey()))); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("c4nary")) {
			t.Errorf("%s shows it", path)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("looked at %d files, %v", files, err)
	}
}
