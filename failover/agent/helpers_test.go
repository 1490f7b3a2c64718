package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

func refOf(c events.Checkpoint) checkpoint.Ref {
	return checkpoint.Ref{Name: c.Name, Epoch: c.Epoch, Step: c.Step, Digest: c.Digest, Bytes: c.Bytes, Files: c.Files}
}

// seed puts a checkpoint of epoch 1 into a store, as an earlier machine would have.
func seed(t *testing.T, store checkpoint.Store, step int64) events.Checkpoint {
	t.Helper()
	e, err := checkpoint.New(checkpoint.Config{Store: store, Tenant: "acme", Job: string(job)})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "checkpoint-"+strconv.FormatInt(step, 10))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"model.safetensors": agenttest.Weights(step), "trainer_state.json": []byte(`{"global_step": ` + strconv.FormatInt(step, 10) + `}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ref, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: step, Framework: "hf"})
	if err != nil {
		t.Fatal(err)
	}
	return events.Checkpoint{Name: ref.Name, Epoch: ref.Epoch, Step: ref.Step, Digest: ref.Digest, Bytes: ref.Bytes, Files: ref.Files}
}

func noAnswer(mem.Op) mem.Fault { return mem.Fault{Before: errors.New("no answer")} }

// copied puts an old checkpoint into a directory, with the times of its making.
func copied(t *testing.T, into string, step int64) {
	t.Helper()
	dir := filepath.Join(into, "checkpoint-"+strconv.FormatInt(step, 10))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"model.safetensors": agenttest.Weights(step), "trainer_state.json": []byte(`{"global_step": ` + strconv.FormatInt(step, 10) + `}`),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().AddDate(-40, 0, 0)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
}
