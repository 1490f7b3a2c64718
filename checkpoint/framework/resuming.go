package framework

import (
	"strings"
)

// from is what an agent has told the trainer.
const from = `$SPOTFERRY_RESUME_FROM`

// ways says, by framework, how a trainer goes on, and what the variable is.
var ways = map[string]struct{ how, is string }{
	"hf": {`Hugging Face's Trainer (and TRL, PEFT): trainer.train(resume_from_checkpoint=os.environ.get("SPOTFERRY_RESUME_FROM") or None); ` +
		`its own option of that name does nothing unless the script passes it on. A script that saves with accelerator.save_state loads with accelerator.load_state.`, ""},
	"accelerate": {`Accelerate: accelerator.load_state(os.environ["SPOTFERRY_RESUME_FROM"]), then accelerator.project_configuration.iteration = 1 + the number in its name, ` +
		`or the saves are counted from 0 and collide; and accelerate.skip_first_batches for the data. Give ProjectConfiguration $SPOTFERRY_CHECKPOINT_DIR as project_dir, ` +
		`not a directory above it: with total_limit, Accelerate stops at any file beside its checkpoints.`, ""},
	"lightning": {`Lightning: trainer.fit(model, ckpt_path=os.environ.get("SPOTFERRY_RESUME_FROM") or None); last.ckpt beside it is the same, for ckpt_path="last".`, "the restored .ckpt"},
	"dcp": {`torch.distributed.checkpoint: dcp.load(state_dict, checkpoint_id=os.environ["SPOTFERRY_RESUME_FROM"]) into the model's and optimizer's state, ` +
		`with the step, the scheduler and the random states in that state dict as well.`, ""},
	"deepspeed": {`DeepSpeed: engine.load_checkpoint(os.environ["SPOTFERRY_CHECKPOINT_DIR"]), which reads latest; or with tag=os.path.basename(os.environ["SPOTFERRY_RESUME_FROM"]). ` +
		`It returns None and goes on from zero when it finds nothing: check that.`, ""},
	"megatron": {`Megatron-LM: --load $SPOTFERRY_CHECKPOINT_DIR --save $SPOTFERRY_CHECKPOINT_DIR, without --finetune, --no-load-optim and --no-load-rng; the tracker file names the restored iteration.`, ""},
	"nemo":     {`NeMo: resume=nl.AutoResume(resume_if_exists=True, resume_from_directory=os.environ["SPOTFERRY_CHECKPOINT_DIR"]), or exp_manager's resume_if_exists: true and resume_from_checkpoint.`, "the restored checkpoint"},
	"orbax":    {`Orbax: manager = CheckpointManager(os.environ["SPOTFERRY_CHECKPOINT_DIR"]); step = manager.latest_step(); state = manager.restore(step, args=...) when it is not None.`, ""},
	"keras":    {`Keras: model.fit(callbacks=[keras.callbacks.BackupAndRestore(os.environ["SPOTFERRY_CHECKPOINT_DIR"], double_checkpoint=True)]), which restores by itself; delete_checkpoint=True deletes it at the end.`, "the directory of the restored backup"},
	"plain":    {`Your own trainer: when ` + from + ` is not empty, load model, optimizer, scheduler and step from it before the first step.`, ""},
	"llama":    {`LLaMA-Factory: llamafactory-cli train CONFIG.yaml ${SPOTFERRY_RESUME_FROM:+resume_from_checkpoint=` + from + `}, and overwrite_output_dir must be false.`, ""},
	"axolotl":  {`Axolotl: auto_resume_from_checkpoints: true in its file, with output_dir the job's checkpoint directory, or resume_from_checkpoint set to ` + from + `.`, ""},
	"":         {`when ` + from + ` is not empty, load model, optimizer, scheduler and step from it before the first step.`, ""},
}

// Resuming says in words for a person how a trainer of this framework goes on
// from the checkpoint that was restored for it, which is in
// SPOTFERRY_RESUME_FROM, empty for a fresh start. run is the job's script, which
// may tell more than the layout of its checkpoints does.
func Resuming(name, run string) string {
	switch {
	case strings.Contains(run, "llamafactory-cli"), strings.Contains(run, "llama-factory"):
		name = "llama"
	case strings.Contains(run, "axolotl"):
		name = "axolotl"
	}
	way, ok := ways[name]
	if !ok {
		way = ways[""]
	}
	is := way.is
	if is == "" {
		is = "the restored checkpoint's directory"
	}
	return way.how + " " + from + " is " + is + ", and empty for a fresh start. " +
		"If the trainer did go on from it, what it tells in $SPOTFERRY_PROGRESS_FILE is not the step of the whole run: tell that."
}
