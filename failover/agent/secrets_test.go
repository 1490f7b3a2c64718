package agent

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/events"
)

func TestTheAgentProvesTheKeyThatItsSecretsAreSealedTo(t *testing.T) {
	s, _ := bus(t, server.Options{})
	gw := answer(t, s.ClientURL(), map[events.Verb]any{events.VerbJoin: events.JoinReply{Org: "acme"}})
	c := openBus(t, bootstrap(s.ClientURL()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	join := func() (r events.JoinRequest) {
		err := persist(ctx, time.Second, func(ctx context.Context) error {
			_, err := c.Join(ctx, events.JoinRequest{Lease: "j-3-1"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(gw.get("agent.j.3.join"), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, again := join(), join()
	if first.SealTo != again.SealTo || !nkeys.IsValidPublicCurveKey(first.SealTo) {
		t.Errorf("seals to %q, then to %q", first.SealTo, again.SealTo)
	}
	key, err := nkeys.FromPublicKey(first.Key)
	if err != nil || key.Verify([]byte(first.SealTo), first.Proof) != nil {
		t.Errorf("the proof does not hold: %v", err)
	}
	sender, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	from, _ := sender.PublicKey()
	box, err := sender.Seal([]byte("hello"), first.SealTo)
	if err != nil {
		t.Fatal(err)
	}
	if clear, err := c.Open(events.Sealed{From: from, Box: box}); err != nil || string(clear) != "hello" {
		t.Errorf("opened %q, %v", clear, err)
	}
	if _, err := c.Open(events.Sealed{From: from, Box: box[:len(box)-1]}); err == nil {
		t.Error("opened what was tampered with")
	}
}

func TestMaskingLeavesOtherTextAlone(t *testing.T) {
	t.Parallel()
	m := masking(map[string]events.Secret{
		"A": events.NewSecret("abcdef"), "B": events.NewSecret("abcdefgh"), "C": events.NewSecret("one\n line two \r\n12345\n"), "D": events.NewSecret(""),
	})
	for in, want := range map[string]string{
		"abcdef":            "****",
		"abcdefgh":          "****",
		"xabcdefghabcdefx":  "x********x",
		"abcde 12345 one":   "abcde 12345 one",
		"it says: line two": "it says: ****",
		"":                  "",
	} {
		if got := m.Replace(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	if got := masking(nil).Replace("as it is"); got != "as it is" {
		t.Errorf("without secrets: %q", got)
	}
}

func TestGPUsPerNode(t *testing.T) {
	t.Parallel()
	one, eight := events.Accelerator{Model: "A100", Count: 1}, events.Accelerator{Model: "L4", Count: 8}
	for _, tc := range []struct {
		name  string
		asked []events.Accelerator
		here  int
		want  int
	}{
		{"none asked for", nil, 4, 0},
		{"what was asked for, whatever the machine has", []events.Accelerator{eight}, 16, 8},
		{"of several counts the one the machine has", []events.Accelerator{one, eight}, 8, 8},
		{"of several counts the least when the machine shows none", []events.Accelerator{eight, one}, 0, 1},
		{"of several counts the least when the machine has another", []events.Accelerator{eight, one}, 4, 1},
	} {
		if got := gpusPerNode(tc.asked, tc.here); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	if got := slug("  ") + " " + slug("a/b*c") + " " + slug("-é-"); got != "job a-b-c job" {
		t.Errorf("slugs are %q", got)
	}
}
