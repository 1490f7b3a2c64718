package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

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
