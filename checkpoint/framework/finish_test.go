package framework_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/framework"
)

func TestFinishMarkers(t *testing.T) {
	t.Parallel()
	nemo := "m--step=9"
	for _, tc := range []struct {
		name, adapter, marker, tree, resume string
		files                               map[string]string
		want                                map[string]string // content; "" is: not there
	}{
		{"DeepSpeed's latest", "deepspeed", "", "global_step5", "global_step5", map[string]string{"global_step5/x": "", "latest": "global_step9"}, map[string]string{"latest": "global_step5"}},
		{"DeepSpeed's in Trainer", "hf", "", "checkpoint-5", "checkpoint-5", map[string]string{"checkpoint-5/global_step5/x": ""}, map[string]string{"checkpoint-5/latest": "global_step5"}},
		{"Trainer's own is not touched", "hf", "", "checkpoint-5", "checkpoint-5", map[string]string{"checkpoint-5/global_step5/x": "", "checkpoint-5/latest": "global_step5\n"}, map[string]string{"checkpoint-5/latest": "global_step5\n"}},
		{"Megatron's tracker", "megatron", "", "iter_0000120", "iter_0000120", map[string]string{"iter_0000120/x": "", "latest_checkpointed_iteration.txt": ""}, map[string]string{"latest_checkpointed_iteration.txt": "120"}},
		{"Orbax's marker for a bucket", "orbax", "commit_success.txt", "5", "5", map[string]string{"5/x": ""}, map[string]string{"5/commit_success.txt": "Checkpoint commit was successful to 5"}},
		{"Orbax's marker off a bucket", "orbax", "", "5", "5", map[string]string{"5/x": "", "5/commit_success.txt": "x"}, map[string]string{"5/commit_success.txt": ""}},
		{"Lightning's last.ckpt", "lightning", "", "epoch=0-step=5", "a/checkpoints/epoch=0-step=5.ckpt",
			map[string]string{"epoch=0-step=5/a/checkpoints/epoch=0-step=5.ckpt": "w", "a/checkpoints/epoch=0-step=5.ckpt": "torn"},
			map[string]string{"a/checkpoints/last.ckpt": "w", "a/checkpoints/epoch=0-step=5.ckpt": "w", "epoch=0-step=5": ""}},
		{"a last.ckpt of Lightning's own", "lightning", "", "last", "last.ckpt", map[string]string{"last/last.ckpt": "w"}, map[string]string{"last.ckpt": "w"}},
		{"a .ckpt that is a directory", "lightning", "", "step=5", "step=5.ckpt", map[string]string{"step=5/step=5.ckpt/meta.pt": "m", "step=5.ckpt/stale": "s"}, map[string]string{"step=5.ckpt/meta.pt": "m", "step=5.ckpt/stale": "", "last.ckpt/meta.pt": "m"}},
		{"NeMo's marker of a killed save", "nemo", "", nemo, nemo, map[string]string{nemo + "/weights/x": "", nemo + "-unfinished": "u"}, map[string]string{nemo + "-unfinished": ""}},
		{"NeMo's files of ranks", "nemo", "", nemo, "mp_rank_00/m--step=9.ckpt", map[string]string{nemo + "/mp_rank_00/m--step=9.ckpt": "0", nemo + "/mp_rank_01/m--step=9.ckpt": "1", nemo + "-unfinished": "u"},
			map[string]string{"mp_rank_00/m--step=9.ckpt": "0", "mp_rank_01/m--step=9.ckpt": "1", nemo + "-unfinished": "", nemo: ""}},
		{"Accelerate's in its project", "accelerate", "", "checkpoint_3", "checkpoints/checkpoint_3", map[string]string{"checkpoint_3/checkpoints/checkpoint_3/x": "w", "checkpoints/checkpoint_3/torn": "t"},
			map[string]string{"checkpoints/checkpoint_3/x": "w", "checkpoints/checkpoint_3/torn": ""}},
		{"Keras's backup", "keras", "", "backup-1-0", ".", map[string]string{"backup-1-0/latest.weights.h5": "w", "backup-1-0/training_metadata.json": "{}", "latest.weights.h5": "torn"},
			map[string]string{"latest.weights.h5": "w", "training_metadata.json": "{}"}},
		{"nothing for torch's", "dcp", "", "step-5", "step-5", map[string]string{"step-5/.metadata": "m"}, map[string]string{"step-5/.metadata": "m"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, tc.files)
			a := j.adapter(tc.adapter, framework.Config{Marker: tc.marker})
			for range 2 {
				if got, err := a.Finish(j.root, tc.tree); err != nil || got != tc.resume {
					t.Errorf("Finish = %q, %v; want %q", got, err, tc.resume)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(tc.want)) {
				b, err := os.ReadFile(filepath.Join(j.dir, name))
				if string(b) != tc.want[name] || (err == nil) != (tc.want[name] != "") {
					t.Errorf("%s = %q, %v; want %q", name, b, err, tc.want[name])
				}
			}
			if _, err := a.Finish(j.root, "never restored 5"); err == nil && tc.adapter != "dcp" && tc.adapter != "keras" {
				t.Error("Finish of what is not there succeeds")
			}
		})
	}
}
