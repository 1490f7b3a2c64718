package frameworktest

import (
	"fmt"
	"path/filepath"
)

func huggingFace() []Layout {
	dir := func(step int64) string { return fmt.Sprintf("checkpoint-%d/", step) }
	newest := func(d string) (int64, error) { return highest(d, "checkpoint-*") }
	unproven := "rank 0 does not wait for the others"
	hf := func(name string, ranks int, unproven string, script func(*plan)) Layout {
		return Layout{Name: name, Adapter: "hf", Ranks: ranks, Rotates: After, Unproven: unproven, own: dir, newest: newest, script: script}
	}
	number := func(step int64) string { return fmt.Sprintf("checkpoints/checkpoint_%d/", step) }
	return []Layout{
		hf("hf", 1, "", func(p *plan) { p.trainer("checkpoint-%d", nil) }),
		hf("hf-peft", 1, "", func(p *plan) { p.trainer("checkpoint-%d", p.adapter) }),
		hf("hf-ranks", 2, unproven, func(p *plan) { p.trainer("checkpoint-%d", nil) }),
		{Name: "hf-jit", Adapter: "hf", Ranks: 1, Rotates: Kept, own: dir, newest: newest, script: jit},
		hf("hf-staging", 2, "a name without tmp- is what other versions begin with", staged),
		hf("hf-fsdp", 2, unproven, func(p *plan) { p.trainer("checkpoint-%d", p.fsdp) }),
		hf("hf-deepspeed", 2, unproven, func(p *plan) { p.trainer("checkpoint-%d", p.zeroIn) }),
		{Name: "accelerate", Adapter: "accelerate", Ranks: 2, Rotates: Before, Unproven: "nothing is written last", own: number,
			newest: func(d string) (int64, error) { return highest(d, "checkpoints/checkpoint_*") },
			script: func(p *plan) {
				p.ranks[0].mkdir("checkpoints")
				p.ranks[0].rotate("checkpoints/checkpoint_*", 0)
				p.saveState(fmt.Sprintf("checkpoints/checkpoint_%d", p.step))
			}},
		{Name: "accelerate-named", Adapter: "accelerate", Ranks: 1, Rotates: After, Unproven: "nothing is written last", own: dir, newest: newest,
			script: func(p *plan) {
				p.saveState(fmt.Sprintf("checkpoint-%d", p.step))
				p.ranks[0].rotate("checkpoint-*", 2)
			}},
	}
}

// trainer is Trainer's _save_checkpoint. weights writes what is not the plain
// model and optimizer, and is given the directory.
func (p *plan) trainer(format string, weights func(dir string)) {
	dir := fmt.Sprintf(format, p.step)
	for _, r := range p.ranks {
		r.mkdir(dir)
	}
	if weights == nil {
		weights = p.model
	}
	weights(dir)
	r := p.ranks[0]
	r.file(dir+"/training_args.bin", p.archive("args", field{"enable_jit_checkpoint", p.layout == "hf-jit"}))
	r.file(dir+"/scheduler.pt", p.archive("scheduler"))
	p.random(dir)
	r.file(dir+"/trainer_state.json", jsonOf(map[string]any{"epoch": 0.5, "global_step": p.step, "log_history": []any{}}))
	if format == "checkpoint-%d" && p.layout != "hf-jit" {
		for _, r := range p.ranks {
			r.done()
		}
		r.rotate("checkpoint-*", 2)
	}
}

// random writes the random states, each rank's own and none waiting.
func (p *plan) random(dir string) {
	for i, r := range p.ranks {
		name := "/rng_state.pth"
		if len(p.ranks) > 1 {
			name = fmt.Sprintf("/rng_state_%d.pth", i)
		}
		r.file(dir+name, p.archive(name))
	}
}

func (p *plan) model(dir string) {
	r := p.ranks[0]
	r.text(dir+"/config.json", `{"model_type":"llama"}`)
	for i := 1; i <= 2; i++ {
		name := fmt.Sprintf("model-%05d-of-00002.safetensors", i)
		r.file(dir+"/"+name, p.safetensors(name))
	}
	r.file(dir+"/model.safetensors.index.json", jsonOf(map[string]any{"metadata": map[string]any{},
		"weight_map": map[string]string{"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}))
	r.file(dir+"/tokenizer.json", []byte(`{"version":"1.0","model":{"type":"BPE"}}`))
	r.file(dir+"/optimizer.pt", p.archive("optimizer"))
}

// adapter is what PEFT writes: the base model's weights are not in it.
func (p *plan) adapter(dir string) {
	r := p.ranks[0]
	r.file(dir+"/adapter_model.safetensors", p.safetensors("adapter"))
	r.text(dir+"/adapter_config.json", `{"peft_type":"LORA","r":16}`)
	r.text(dir+"/README.md", "---\nlibrary_name: peft\n---\n")
	r.file(dir+"/optimizer.pt", p.archive("optimizer"))
}

func (p *plan) fsdp(dir string) {
	p.torchTree(dir + "/pytorch_model_fsdp_0")
	p.torchTree(dir + "/optimizer_0")
}

// zeroIn is DeepSpeed's engine called by Trainer, which names the tag.
func (p *plan) zeroIn(dir string) {
	p.zero(dir, fmt.Sprintf("global_step%d", p.step))
	p.ranks[0].text(dir+"/zero_to_fp32.py", "# recovery\n")
}

// jit is a save on SIGTERM, with a sentinel around it.
func jit(p *plan) {
	dir := fmt.Sprintf("checkpoint-%d", p.step)
	r := p.ranks[0]
	r.mkdir(dir)
	r.text(dir+"/checkpoint-is-incomplete.txt", "in progress")
	p.trainer("checkpoint-%d", nil)
	r.remove(dir + "/checkpoint-is-incomplete.txt")
	r.done()
}

// staged is transformers 4.36 to 4.38.
func staged(p *plan) {
	p.trainer("tmp-checkpoint-%d", nil)
	for _, r := range p.ranks {
		r.barrier()
	}
	p.ranks[0].rename(fmt.Sprintf("tmp-checkpoint-%d", p.step), fmt.Sprintf("checkpoint-%d", p.step))
	for _, r := range p.ranks {
		r.done()
	}
	p.ranks[0].rotate("checkpoint-*", 2)
}

// saveState is Accelerator.save_state.
func (p *plan) saveState(dir string) {
	r := p.ranks[0]
	for _, r := range p.ranks {
		r.barrier()
		r.mkdir(dir)
	}
	r.file(dir+"/model.safetensors", p.safetensors("model"))
	r.file(dir+"/optimizer.bin", p.archive("optimizer"))
	r.file(dir+"/scheduler.bin", p.archive("scheduler"))
	r.file(dir+"/sampler.bin", p.archive("sampler"))
	for i, r := range p.ranks {
		name := fmt.Sprintf("random_states_%d.pkl", i)
		r.file(dir+"/"+name, p.archive(name))
	}
	r.file(dir+"/custom_checkpoint_0.pkl", p.archive("custom"))
	for _, r := range p.ranks {
		r.done()
	}
}

// highest is what most frameworks resume from: the highest number in the first
// part of a pattern that has one.
func highest(dir, pattern string) (int64, error) {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	best := int64(-1)
	for _, p := range found {
		if numberIn(p) < 0 {
			p = filepath.Dir(p)
		}
		best = max(best, numberIn(p))
	}
	if err == nil && best < 0 {
		err = fmt.Errorf("nothing like %s in %s", pattern, dir)
	}
	return best, err
}
