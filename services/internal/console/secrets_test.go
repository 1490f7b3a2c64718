package console

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// drawer keeps sealed secrets in memory.
type drawer struct {
	key  string
	kept map[events.JobID]events.Sealed
	down bool
}

func (d *drawer) Key(context.Context) (string, error) {
	if d.key == "" {
		return "", natsbus.ErrNoKey
	}
	return d.key, nil
}

func (d *drawer) Keep(_ context.Context, job events.JobID, s events.Sealed) error {
	if d.down {
		return errors.New("the bucket does not answer")
	}
	if have, ok := d.kept[job]; ok && !bytes.Equal(have.Box, s.Box) {
		return natsbus.ErrOtherSecrets
	}
	d.kept[job] = s
	return nil
}

func withSecrets(id events.JobID, names ...string) SubmitRequest {
	return SubmitRequest{
		ID: id, Spec: events.JobSpec{Name: "n", Run: "train", Secrets: names, Policy: events.Policy{Budget: events.Dollar}},
		Secrets: &events.Sealed{From: "X", Box: []byte("sealed")},
	}
}

func TestSecretsAreKeptBeforeTheirJobIsSubmitted(t *testing.T) {
	const id events.JobID = "01jx3kr0zr5v9m2c7t4b6n0d9e"
	kept := &drawer{key: "XKEY", kept: map[events.JobID]events.Sealed{}}
	served(t, func(c *Config) { c.Secrets = kept }, func(t *testing.T, d *desk) {
		if k, p := ask[SecretsKey](d, GetSecretsKey, nil); p != nil || k.Key != "XKEY" {
			t.Errorf("the key is %q, %v", k.Key, p)
		}
		r := withSecrets(id, "A", "B")
		for range 2 { // an answer that got lost
			if j, p := ask[Job](d, DoSubmit, r); p != nil || j.ID != id {
				t.Fatalf("submitted %+v, %v", j, p)
			}
		}
		if got := kept.kept[id]; string(got.Box) != "sealed" || got.From != "X" {
			t.Errorf("kept %+v", got)
		}
		r.Secrets = &events.Sealed{From: "X", Box: []byte("others")}
		if _, p := ask[Job](d, DoSubmit, r); code(p) != "conflict" || p.Remedy == "" {
			t.Errorf("other secrets for the same job: %v", p)
		}
	})
}

func TestWhichSecretsAreNotTaken(t *testing.T) {
	const id events.JobID = "01jx3kr0zr5v9m2c7t4b6n0d9e"
	for _, tc := range []struct {
		name  string
		spoil func(*SubmitRequest, *Config, *drawer)
		code  string
	}{
		{"none are sealed", func(r *SubmitRequest, _ *Config, _ *drawer) { r.Secrets = nil }, "invalid"},
		{"an empty box", func(r *SubmitRequest, _ *Config, _ *drawer) { r.Secrets.Box = nil }, "invalid"},
		{"a box of a megabyte", func(r *SubmitRequest, _ *Config, _ *drawer) { r.Secrets.Box = make([]byte, 1<<20) }, "invalid"},
		{"the spec names none", func(r *SubmitRequest, _ *Config, _ *drawer) { r.Spec.Secrets = nil }, "invalid"},
		{"the names are not in order", func(r *SubmitRequest, _ *Config, _ *drawer) { r.Spec.Secrets = []string{"B", "A"} }, "invalid"},
		{"nobody keeps any", func(_ *SubmitRequest, c *Config, _ *drawer) { c.Secrets = nil }, "unavailable"},
		{"the bucket is away", func(_ *SubmitRequest, _ *Config, d *drawer) { d.down = true }, "internal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kept, r := &drawer{kept: map[events.JobID]events.Sealed{}}, withSecrets(id, "A", "B")
			change := func(c *Config) {
				c.Secrets = kept
				tc.spoil(&r, c, kept)
			}
			served(t, change, func(t *testing.T, d *desk) {
				if _, p := ask[Job](d, DoSubmit, r); code(p) != tc.code {
					t.Errorf("answered %v, want %s", p, tc.code)
				}
				if _, err := d.jobs.Job(t.Context(), id); err == nil {
					t.Error("submitted all the same")
				}
			})
		})
	}
}

func TestThereIsNoKeyBeforeAGatewaySaidOne(t *testing.T) {
	served(t, func(c *Config) { c.Secrets = &drawer{} }, func(t *testing.T, d *desk) {
		if _, p := ask[SecretsKey](d, GetSecretsKey, nil); code(p) != "unavailable" || p.Remedy == "" {
			t.Errorf("answered %v", p)
		}
	})
	served(t, nil, func(t *testing.T, d *desk) {
		if _, p := ask[SecretsKey](d, GetSecretsKey, nil); code(p) != "unavailable" {
			t.Errorf("answered %v", p)
		}
	})
}
