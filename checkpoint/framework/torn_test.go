package framework_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/framework"
)

// TestTornSetsOfFiles takes a checkpoint of a framework that is complete, and
// takes something away, adds something, or says something else beside it.
func TestTornSetsOfFiles(t *testing.T) {
	t.Parallel()
	rewrite := func(name, content string) func(*job) { return func(j *job) { j.write(name, content) } }
	drop := func(name string) func(*job) {
		return func(j *job) { must(j.t, os.RemoveAll(filepath.Join(j.dir, name))) }
	}
	cut := func(name string) func(*job) {
		return func(j *job) {
			info, err := os.Stat(filepath.Join(j.dir, name))
			must(j.t, err)
			must(j.t, os.Truncate(filepath.Join(j.dir, name), info.Size()-1))
			must(j.t, os.Chtimes(filepath.Join(j.dir, name), info.ModTime(), info.ModTime()))
		}
	}
	plain := func(j *job) { // of fp32 or fp16
		for r := range 2 {
			shard := fmt.Sprintf("zero_pp_rank_%d_mp_rank_00_optim_states.pt", r)
			must(j.t, os.Rename(filepath.Join(j.dir, "global_step1", "bf16_"+shard), filepath.Join(j.dir, "global_step1", shard)))
		}
	}
	nemo := "llama--val_loss=2.00-step=1-consumed_samples=8.0"
	for _, tc := range []struct {
		name, layout string
		do           func(*job)
		why          string // empty: it stays complete
	}{
		{"FSDP's weights without their metadata", "hf-fsdp", drop("checkpoint-1/pytorch_model_fsdp_0/.metadata"), "has no .metadata"},
		{"FSDP's optimizer with neither shard nor metadata", "hf-fsdp", func(j *job) {
			drop("checkpoint-1/optimizer_0")(j)
			must(j.t, os.Mkdir(j.dir+"/checkpoint-1/optimizer_0", 0o755))
		}, "has no .metadata"},
		{"FSDP's metadata that names a shard which is gone", "hf-fsdp", drop("checkpoint-1/optimizer_0/__1_0.distcp"), "which is not there"},
		{"DeepSpeed in Trainer without a rank's shard", "hf-deepspeed", drop("checkpoint-1/global_step1/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"), "of 2 ranks"},
		{"the staging directory of an older Trainer", "hf", rewrite("tmp-checkpoint-1/rng_state_1.pth", ""), "being written"},
		{"Accelerate without random states", "accelerate-named", drop("checkpoint-1/random_states_0.pkl"), "random states"},
		{"Accelerate with a gap in its ranks", "accelerate", drop("checkpoints/checkpoint_1/random_states_0.pkl"), "1 of 2 files random_states"},
		{"Accelerate without weights", "accelerate-named", drop("checkpoint-1/model.safetensors"), "no weights"},
		{"Accelerate with half a pickle of an object", "accelerate", cut("checkpoints/checkpoint_1/custom_checkpoint_0.pkl"), "not a whole archive"},
		{"a shard of torch without the end of its archive", "dcp", cut("step-1/__0_0.distcp"), "archive's end"},
		{"a shard of torch of no size", "dcp", func(j *job) { must(j.t, os.Truncate(j.dir+"/step-1/__0_0.distcp", 0)) }, "cut short"},
		{"torch's metadata cut short, as before 2.2", "dcp", cut("step-1/.metadata"), "cut short"},
		{"torch's metadata beside what it will replace", "dcp", rewrite("step-1/.metadata.tmp", "x"), "being written"},
		{"DeepSpeed without the shard of the last rank", "deepspeed", drop("global_step1/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"), "of 2 ranks"},
		{"DeepSpeed without latest", "deepspeed", drop("latest"), ""},
		{"DeepSpeed with latest of an older one", "deepspeed", rewrite("latest", "global_step0"), ""},
		{"DeepSpeed without optimizer states, and latest not there", "deepspeed", func(j *job) {
			drop("latest")(j)
			for r := range 2 {
				drop(fmt.Sprintf("global_step1/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt", r))(j)
			}
		}, "latest is"},
		{"DeepSpeed without ZeRO, once latest says so", "deepspeed", func(j *job) {
			for r := range 2 {
				drop(fmt.Sprintf("global_step1/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt", r))(j)
			}
		}, ""},
		{"DeepSpeed of fp32, whose shards have no prefix", "deepspeed", plain, ""},
		{"DeepSpeed of fp32 without the shard of the last rank", "deepspeed", func(j *job) {
			plain(j)
			drop("global_step1/zero_pp_rank_1_mp_rank_00_optim_states.pt")(j)
		}, "of 2 ranks"},
		{"DeepSpeed without model states", "deepspeed", drop("global_step1/mp_rank_00_model_states.pt"), "no model states"},
		{"Megatron with an empty tracker", "megatron", rewrite("latest_checkpointed_iteration.txt", ""), "and not 1 yet"},
		{"Megatron without a tracker", "megatron", drop("latest_checkpointed_iteration.txt"), "and not 1 yet"},
		{"Megatron with the tracker of a newer one", "megatron", rewrite("latest_checkpointed_iteration.txt", "20\n"), ""},
		{"Megatron with the tracker of a release", "megatron", rewrite("latest_checkpointed_iteration.txt", "release"), "and not 1 yet"},
		{"Megatron without metadata.json", "megatron", drop("iter_0000001/metadata.json"), "is not there yet"},
		{"Megatron without any model", "megatron-legacy", func(j *job) {
			drop("iter_0000001/mp_rank_00/model_optim_rng.pt")(j)
			drop("iter_0000001/mp_rank_01/model_optim_rng.pt")(j)
		}, "no rank's model"},
		{"NeMo with its marker", "nemo", rewrite(nemo+"-unfinished", ""), "being written"},
		{"an empty directory of NeMo's", "nemo", func(j *job) { drop(nemo)(j); must(j.t, os.Mkdir(filepath.Join(j.dir, nemo), 0o755)) }, "is empty"},
		{"half a file of Lightning's", "lightning", cut("epoch=0-step=1.ckpt"), "not a whole archive"},
		{"Lightning's directory without metadata", "lightning", func(j *job) {
			drop("epoch=0-step=1.ckpt")(j)
			j.write("epoch=0-step=1.ckpt/meta.pt", archive(j.t))
		}, ".metadata"},
		{"Lightning's directory without meta.pt", "lightning", func(j *job) {
			drop("epoch=0-step=1.ckpt")(j)
			j.write("epoch=0-step=1.ckpt/.metadata", "\x80\x04.")
		}, "meta.pt"},
		{"Lightning's directory with both", "lightning", func(j *job) {
			drop("epoch=0-step=1.ckpt")(j)
			j.write("epoch=0-step=1.ckpt/.metadata", "\x80\x04.")
			j.write("epoch=0-step=1.ckpt/meta.pt", archive(j.t))
		}, ""},
		{"Orbax that was not committed", "orbax", rewrite("1/_CHECKPOINT_METADATA", `{"init_timestamp_nsecs":1,"commit_timestamp_nsecs":null}`), "not committed"},
		{"Orbax of a version that notes no times", "orbax", rewrite("1/_CHECKPOINT_METADATA", `{"item_handlers":{}}`), ""},
		{"Orbax with half its metadata", "orbax", rewrite("1/_CHECKPOINT_METADATA", `{"init`), "does not parse"},
		{"Orbax in a bucket without its marker", "orbax-bucket", drop("1/commit_success.txt"), "is not there yet"},
		{"an empty step of Orbax's", "orbax", func(j *job) { drop("1")(j); must(j.t, os.Mkdir(j.dir+"/1", 0o755)) }, "nothing is in it"},
		{"Keras's weights of a later save", "keras", func(j *job) {
			b, err := os.ReadFile(j.dir + "/latest.weights.h5")
			must(j.t, err)
			at, err := os.Stat(j.dir + "/training_metadata.json")
			must(j.t, err)
			j.write("latest.weights.h5", string(b))
			must(j.t, os.Chtimes(j.dir+"/latest.weights.h5", at.ModTime().Add(1), at.ModTime().Add(1)))
		}, "older than the weights"},
		{"Keras's weights without their last byte", "keras", cut("latest.weights.h5"), "bytes of"},
		{"weights of Keras's that are no HDF5", "keras", func(j *job) {
			info, err := os.Stat(j.dir + "/training_metadata.json")
			must(j.t, err)
			j.write("latest.weights.h5", strings.Repeat("x", 2048))
			must(j.t, os.Chtimes(j.dir+"/latest.weights.h5", info.ModTime(), info.ModTime()))
		}, "HDF5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j, l := written(t, tc.layout, 1)
			tc.do(j)
			a := j.adapter(l.Adapter, framework.Config{Marker: l.Marker})
			cs := j.candidates(a)
			if len(cs) != 1 {
				t.Fatalf("candidates %v, want one", cs)
			}
			if ok, why := j.settle(a, cs[0]); ok != (tc.why == "") || !strings.Contains(why, tc.why) {
				t.Errorf("Complete = %v, %q; want %q", ok, why, tc.why)
			}
		})
	}
}
