package framework

import (
	"cmp"
	"strings"
)

// Resuming says in words for a person how a trainer of this framework goes on
// from the checkpoint that was restored for it, whose directory is in
// SPOTFERRY_RESUME_FROM, empty for a fresh start. run is the job's script, which
// may tell more than the layout of its checkpoints does.
func Resuming(name, run string) string {
	const from = `$SPOTFERRY_RESUME_FROM`
	say := func(how string) string {
		return how + " " + from + " is the restored checkpoint's directory, and empty for a fresh start. " +
			"If the trainer did go on from it, what it tells in $SPOTFERRY_PROGRESS_FILE is not the step of the whole run: tell that."
	}
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(run, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("llamafactory-cli", "llama-factory"):
		return say(`LLaMA-Factory: llamafactory-cli train CONFIG.yaml ${SPOTFERRY_RESUME_FROM:+resume_from_checkpoint=` + from + `}, and overwrite_output_dir must be false.`)
	case has("axolotl"):
		return say(`Axolotl: auto_resume_from_checkpoints: true in its file, with output_dir the job's checkpoint directory, or resume_from_checkpoint set to ` + from + `.`)
	case name == "hf":
		return say(`Hugging Face's Trainer (and TRL, PEFT): trainer.train(resume_from_checkpoint=os.environ.get("SPOTFERRY_RESUME_FROM") or None); ` +
			`its own option of that name does nothing unless the script passes it on.`)
	}
	return say(cmp.Or(map[string]string{"plain": "Your own trainer: "}[name]) + `when ` + from + ` is not empty, load model, optimizer, scheduler and step from it before the first step.`)
}
