package framework_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/framework"
	"github.com/spotferry/spotferry/checkpoint/framework/frameworktest"
)

// written is a job's directory with the checkpoint of step 1 of a layout.
func written(t testing.TB, layout string, steps ...int64) (*job, frameworktest.Layout) {
	t.Helper()
	l, err := frameworktest.ByName(layout)
	must(t, err)
	j := newJob(t)
	for _, step := range steps {
		must(t, l.Write(j.dir, step, seed, func(string) error { return nil }))
	}
	return j, l
}

func TestCandidatesOfOthers(t *testing.T) {
	t.Parallel()
	step := func(n int) string {
		return archiveOf(t, fmt.Sprintf("\x80\x02}q\x00(X\x0b\x00\x00\x00global_stepq\x01K%cu.", rune(n)))
	}
	for _, tc := range []struct {
		name, adapter string
		files         map[string]string
		want          []string
	}{
		{"Accelerate's, in its project and by name", "accelerate", map[string]string{"checkpoints/checkpoint_3/x": "", "checkpoint-400/x": "", "checkpoints/checkpoint_x/x": "", "checkpoint_2/x": ""},
			[]string{"checkpoint-400 400", "checkpoint_3 3 ordinal", "checkpoint_2 2 ordinal"}},
		{"Lightning's, of several versions", "lightning", map[string]string{"logs/version_0/checkpoints/epoch=0-step=10.ckpt": "x", "logs/version_1/checkpoints/epoch=0-step=10.ckpt": "x",
			"epoch=1-step=20-v1.ckpt": "x", ".hidden/checkpoints/step=5.ckpt": "x", "deep/a/b/c/d/checkpoints/step=6.ckpt": "x", "other/step=7.ckpt": "x"},
			[]string{"epoch=1-step=20-v1 20", "epoch=0-step=10 10"}},
		{"Lightning's without a step in their names", "lightning", map[string]string{"last.ckpt": step(30), "hpc_ckpt_2.ckpt": step(20), "best.ckpt": "half a file", "epoch=4.ckpt": step(10)},
			[]string{"last 30", "hpc_ckpt_2 20", "epoch=4 10"}},
		{"Lightning's last, which is one of the others", "lightning", map[string]string{"last.ckpt": step(30), "v=1-step=30.ckpt": step(30)}, []string{"v=1-step=30 30"}},
		{"torch's", "dcp", map[string]string{"step-10/.metadata": "", "20/__0_0.distcp": "", "run/x": "", "logs-3/x": "", ".step-4/.metadata": ""},
			[]string{"20 20", "step-10 10"}},
		{"DeepSpeed's, with tags of the script's own", "deepspeed", map[string]string{"global_step5/x": "", "epoch_7/mp_rank_00_model_states.pt": "", "epoch_8/other.pt": "", "latest": "global_step5"},
			[]string{"epoch_7 7", "global_step5 5"}},
		{"Megatron's", "megatron", map[string]string{"iter_0000123/x": "", "iter_1234567/x": "", "iter_5/x": "", "release/x": ""}, []string{"iter_1234567 1234567", "iter_0000123 123"}},
		{"Orbax's", "orbax", map[string]string{"7/x": "", "checkpoint_00000008/x": "", "9.orbax-checkpoint-tmp-1/x": "", "10": "a file"}, []string{"checkpoint_00000008 8", "7 7"}},
		{"NeMo's, of directories, files and ranks", "nemo", map[string]string{"m--loss=1.0-step=5-consumed_samples=1.0-last/x": "", "a/checkpoints/m--step=7.ckpt": "x",
			"mp_rank_00/m--step=9.ckpt": "x", "mp_rank_01/m--step=9.ckpt": "x", "m--step=9-unfinished": ""},
			[]string{"m--step=9 9", "m--step=7 7", "m--loss=1.0-step=5-consumed_samples=1.0-last 5"}},
		{"Keras's", "keras", map[string]string{"latest.weights.h5": "", "training_metadata.json": `{"epoch": 3, "batch": 200}`}, []string{"backup-3-200 3000200 ordinal"}},
		{"Keras's while its metadata is written", "keras", map[string]string{"latest.weights.h5": "", "training_metadata.json": `{"epo`}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, tc.files)
			var got []string
			for _, c := range j.candidates(j.adapter(tc.adapter, framework.Config{})) {
				s := fmt.Sprintf("%s %d", c.Name, c.Step)
				if c.Ordinal {
					s += " ordinal"
				}
				got = append(got, s)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("candidates %q, want %q", got, tc.want)
			}
		})
	}
}

// TestNumbersRiseThroughARestore: Accelerate counts from 0 again when nobody
// tells it, and its next save must not look older than the one restored.
func TestNumbersRiseThroughARestore(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		then []string
		want []int64
	}{
		{"the script tells it", []string{"checkpoint_4", "checkpoint_5"}, []int64{5, 4, 3}},
		{"the script does not", []string{"checkpoint_0", "checkpoint_1"}, []int64{5, 4, 3}},
		{"and goes beyond it", []string{"checkpoint_0", "checkpoint_4"}, []int64{8, 4, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, map[string]string{"checkpoint_3/checkpoints/checkpoint_3/x": ""})
			a := j.adapter("accelerate", framework.Config{})
			resume, err := a.Finish(j.root, "checkpoint_3")
			if err != nil || resume != "checkpoints/checkpoint_3" {
				t.Fatalf("Finish = %q, %v", resume, err)
			}
			for _, name := range tc.then {
				j.write("checkpoints/"+name+"/x", "")
			}
			var steps []int64
			for _, c := range j.candidates(a) {
				steps = append(steps, c.Step)
			}
			if !slices.Equal(steps, tc.want) {
				t.Errorf("steps %v, want %v", steps, tc.want)
			}
		})
	}
}

// TestCut: what only stillness speaks for is not complete when the trainer was killed.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, l := range frameworktest.Layouts() {
		j, _ := written(t, l.Name, 1)
		for _, ranks := range []int{0, l.Ranks} {
			a := j.adapter(l.Adapter, framework.Config{Marker: l.Marker, Cut: func() bool { return true }, Ranks: func() int { return ranks }})
			ok, why := j.settle(a, j.candidates(a)[0])
			proven := l.Unproven == "" || ranks > 0 && l.Adapter == "hf"
			if ok != proven || !ok && !strings.Contains(why, "cut off") {
				t.Errorf("%s with %d ranks told: %v, %q; want %v", l.Name, ranks, ok, why, proven)
			}
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, layout, run, want string }{
		{"Trainer, of which nothing is known", "", "python train.py", ""},
		{"Trainer told on its command line", "", "torchrun train.py --enable_jit_checkpoint True", "SIGTERM"},
		{"Trainer told not to", "", "torchrun train.py --enable_jit_checkpoint=false", ""},
		{"Trainer that was told in its script, by its checkpoint", "hf-jit", "", "SIGTERM"},
		{"and not, in spite of its command line", "hf", "torchrun train.py --enable_jit_checkpoint True", ""},
		{"Megatron by its checkpoint", "megatron", "", "SIGTERM"},
		{"Megatron that was not told, by its checkpoint", "megatron-legacy", "", ""},
		{"Lightning", "lightning", "python fit.py", ""},
		{"Lightning as on Slurm", "lightning", "export SLURM_JOB_ID=1; python fit.py", "SIGUSR1"},
		{"NeMo", "nemo", "python pretrain.py", ""},
		{"NeMo with its callback", "nemo", "python pretrain.py trainer.callbacks=[PreemptionCallback]", "SIGTERM"},
		{"Orbax", "orbax", "", "SIGTERM"},
		{"torch", "dcp", "", ""},
		{"Keras", "keras", "", ""},
	} {
		j, adapter := newJob(t), "hf"
		if tc.layout != "" {
			var l frameworktest.Layout
			j, l = written(t, tc.layout, 1)
			adapter = l.Adapter
		}
		a := j.adapter(adapter, framework.Config{Run: tc.run})
		for _, c := range j.candidates(a) {
			j.settle(a, c)
		}
		if got, why := a.Signal(); got != tc.want || why == "" {
			t.Errorf("%s: %q, %q; want %q", tc.name, got, why, tc.want)
		}
	}
}

func TestRankOrdersFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"checkpoint-5/trainer_state.json": framework.RankState, "checkpoint-5/rng_state_3.pth": framework.RankState, "scheduler.pt": framework.RankState,
		"step-5/.metadata": framework.RankState, "optimizer_0/.metadata": framework.RankState, "random_states_0.pkl": framework.RankState, "iter_0000001/common.pt": framework.RankState,
		"config.json": framework.RankState, "training_args.bin": framework.RankState, "5/default/manifest.ocdbt": framework.RankState, "training_metadata.json": framework.RankState,
		"adapter_model.safetensors": framework.RankWeights, "model-00001-of-00002.safetensors": framework.RankWeights, "pytorch_model_fsdp_0/__0_0.distcp": framework.RankWeights,
		"global_step5/mp_rank_00_model_states.pt": framework.RankWeights, "lightning_logs/version_0/checkpoints/last.ckpt": framework.RankWeights, "latest.weights.h5": framework.RankWeights,
		"optimizer.pt": framework.RankOptimizer, "optimizer_1.bin": framework.RankOptimizer, "optimizer_0/__1_0.distcp": framework.RankOptimizer,
		"global_step5/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt": framework.RankOptimizer, "iter_0000001/mp_rank_00/distrib_optim.pt": framework.RankOptimizer, "5/opt_state/d/0": framework.RankOptimizer,
		"tokenizer.json": framework.RankDerivable, "zero_to_fp32.py": framework.RankDerivable, "README.md": framework.RankDerivable, "latest.weights.h5.bkp": framework.RankDerivable,
		"runs/a/events.out.tfevents.1": framework.RankLogs, "checkpoint-5/train.log": framework.RankLogs,
	} {
		a := newJob(t).adapter("hf", framework.Config{})
		if got := a.Rank(name); got != want {
			t.Errorf("Rank(%q) = %d, want %d", name, got, want)
		}
	}
}

// TestDuplicatesGoLast: weights that follow from others beside them.
func TestDuplicatesGoLast(t *testing.T) {
	t.Parallel()
	j, _ := written(t, "hf-deepspeed", 1)
	j.write("checkpoint-1/model.safetensors", safetensors(60))
	k := newJob(t, hfTree(t, 30), map[string]string{"checkpoint-30/pytorch_model.bin": archive(t)})
	for _, tc := range []struct {
		j    *job
		file string
		want int
	}{
		{j, "checkpoint-1/model.safetensors", framework.RankDerivable},
		{j, "model.safetensors", framework.RankDerivable},
		{k, "pytorch_model.bin", framework.RankDerivable},
		{k, "checkpoint-30/model-00001-of-00002.safetensors", framework.RankWeights},
	} {
		a := tc.j.adapter("hf", framework.Config{})
		tc.j.settle(a, tc.j.candidates(a)[0])
		if got := a.Rank(tc.file); got != tc.want {
			t.Errorf("Rank(%q) = %d, want %d", tc.file, got, tc.want)
		}
	}
}

func TestNamesAreThoseOfNew(t *testing.T) {
	t.Parallel()
	want := []string{"plain", "nemo", "megatron", "deepspeed", "orbax", "accelerate", "hf", "keras", "lightning", "dcp"}
	if got := framework.Names(); !slices.Equal(got, want) {
		t.Errorf("Names = %q", got)
	}
	for _, name := range framework.Names() {
		a, err := framework.New(name, framework.Config{Marker: "DONE"})
		if err != nil || a.Name() != name {
			t.Errorf("New(%q) = %v, %v", name, a, err)
		}
		if how := framework.Resuming(name, ""); !strings.Contains(how, "$SPOTFERRY_RESUME_FROM is") {
			t.Errorf("Resuming(%q) = %q", name, how)
		}
	}
}
