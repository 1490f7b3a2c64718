package rehearse

// hint is where each framework keeps what a resumed run needs.
type hint struct{ optimizer, weights, random, signal, telling string }

// telling is how any script says where it is.
const telling = `after each step write {"step": N, "loss": X} to $SPOTFERRY_PROGRESS_FILE, into another file first and renamed`

// hints are the words for a framework, or those for any.
func hints(framework string) hint {
	general := hint{
		optimizer: "in PyTorch: optimizer.load_state_dict, scheduler.load_state_dict, scaler.load_state_dict.",
		weights:   "in PyTorch: model.load_state_dict(..., strict=True) says which names do not match.",
		random:    "in PyTorch: torch.get_rng_state, torch.cuda.get_rng_state_all, numpy.random.get_state, random.getstate, and the epoch and offset of the sampler.",
		signal:    "in Python: signal.signal(signal.SIGUSR1, handler), before training begins.",
		telling:   telling + ".",
	}
	switch framework {
	case "hf", "accelerate":
		general.optimizer = "with Hugging Face's Trainer: optimizer.pt and scheduler.pt have to be in the checkpoint (save_only_model: false), and the number of steps must be the same for the schedule."
		general.weights = "with Hugging Face's Trainer: give train(resume_from_checkpoint=...) the checkpoint, do not load a model from elsewhere afterwards."
		general.random = "with Hugging Face's Trainer: rng_state*.pth has to be in the checkpoint, ignore_data_skip false, seed and data_seed and the number of processes the same; a data set that is streamed or shuffled by your own code needs its own place saved."
		general.signal = "with Hugging Face's Trainer: a TrainerCallback whose on_step_end sets control.should_save when the handler has set the flag."
		general.telling = "with Hugging Face's Trainer: logging_steps=1 and a TrainerCallback whose on_log does it: " + telling + "."
	case "lightning":
		general.optimizer = "with Lightning: trainer.fit(ckpt_path=...), and no save_weights_only."
		general.weights = "with Lightning: trainer.fit(ckpt_path=...) loads them; load_from_checkpoint alone does not restore the rest."
		general.random = "with Lightning: it does not save random states by itself: do so in on_save_checkpoint, and use a StatefulDataLoader for the place in the data."
		general.signal = "with Lightning: a Callback that calls trainer.save_checkpoint in on_train_batch_end when the handler has set the flag."
		general.telling = "with Lightning: a Callback whose on_train_batch_end does it: " + telling + "."
	}
	return general
}

// remarks are said beside any verdict.
func (j judge) remarks(k Kind) []string {
	out := []string{}
	say := func(when bool, text string) {
		if when {
			out = append(out, text)
		}
	}
	told, losses := false, false
	for _, l := range j.Lives {
		told, losses = told || len(l.Told) > 0, losses || l.tellsLoss()
	}
	how := hints(j.framework()).telling
	began := len(j.Lives) > 0 && !j.Look.Trainer.IsZero()
	say(began && !told, "It tells no steps, so only its checkpoints were compared, by their numbers. To have losses compared: "+how)
	say(told && !losses, "Its losses could not be compared: it tells none. To have them compared: "+how)
	if m, ok := j.moved(WithNotice); ok && k == Resumes {
		say(j.Spec.Policy.Checkpoint.Signal == "", "A notice does not help it: policy.checkpoint.on_notice names no signal on which it saves, so it loses as much with a notice as without.")
		say(losses && m.Compared == 0, "After the notice no step was done twice, so no losses were compared there; after the machine was taken without a word they were.")
	}
	compared := 0
	for _, m := range j.moves {
		compared += m.Compared
	}
	say(k == Resumes && losses && compared == 0, "No step was told both before and after a move: tell every step, so that their losses can be compared.")
	if k != NothingToResume {
		out = append(out, j.rejections()...)
	}
	return out
}
