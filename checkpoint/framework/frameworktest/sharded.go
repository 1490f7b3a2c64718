package frameworktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func sharded() []Layout {
	named := func(format string) func(int64) string {
		return func(step int64) string { return fmt.Sprintf(format, step) }
	}
	tracked := func(file string) func(string) (int64, error) {
		return func(dir string) (int64, error) {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return 0, err
			}
			n, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(string(b)), "global_step"), 10, 64)
			return n, err
		}
	}
	const megatronTracker = "latest_checkpointed_iteration.txt"
	return []Layout{
		{Name: "dcp", Adapter: "dcp", Ranks: 2, Rotates: Kept, own: named("step-%d/"),
			newest: func(dir string) (int64, error) { return highest(dir, "step-*") },
			script: func(p *plan) {
				p.torchTree(fmt.Sprintf("step-%d", p.step))
				p.allDone()
			}},
		{Name: "deepspeed", Adapter: "deepspeed", Ranks: 2, Rotates: Kept, own: named("global_step%d/"), newest: tracked("latest"),
			script: func(p *plan) {
				p.zero(".", fmt.Sprintf("global_step%d", p.step))
				p.ranks[0].text("zero_to_fp32.py", "# recovery\n")
			}},
		{Name: "megatron", Adapter: "megatron", Ranks: 2, Rotates: Kept, own: named("iter_%07d/"), newest: tracked(megatronTracker),
			script: func(p *plan) {
				dir := fmt.Sprintf("iter_%07d", p.step)
				p.ranks[0].mkdir(dir)
				p.ranks[0].file(dir+"/common.pt", p.archive("common", field{"exit_signal_handler", true}))
				p.torchTree(dir)
				p.ranks[0].text(dir+"/metadata.json", `{"sharded_backend":"torch_dist","sharded_backend_version":1}`)
				p.track(megatronTracker)
			}},
		{Name: "megatron-legacy", Adapter: "megatron", Ranks: 2, Rotates: Kept, own: named("iter_%07d/"), newest: tracked(megatronTracker),
			script: func(p *plan) {
				for i, r := range p.ranks {
					dir := fmt.Sprintf("iter_%07d/mp_rank_%02d", p.step, i)
					r.mkdir(dir)
					r.file(dir+"/model_optim_rng.pt", p.archive(dir, field{"exit_signal_handler", false}))
					r.file(dir+"/distrib_optim.pt", p.archive(dir+"/optim"))
					r.barrier()
				}
				p.track(megatronTracker)
			}},
		{Name: "nemo", Adapter: "nemo", Ranks: 2, Rotates: Kept, own: func(step int64) string { return nemoName(step) + "/" },
			newest: nemoNewest, script: nemo},
	}
}

func (p *plan) allDone() {
	for _, r := range p.ranks {
		r.done()
	}
}

// torchTree is dcp.save: shards of every rank, then the coordinator's metadata.
func (p *plan) torchTree(dir string) {
	var shards []string
	for i, r := range p.ranks {
		r.mkdir(dir)
		name := fmt.Sprintf("__%d_0.distcp", i)
		r.file(dir+"/"+name, p.shard(dir+name))
		r.barrier()
		shards = append(shards, name)
	}
	r := p.ranks[0]
	r.file(dir+"/.metadata.tmp", metadata(shards...))
	r.remove(dir + "/.metadata")
	r.rename(dir+"/.metadata.tmp", dir+"/.metadata")
	for _, r := range p.ranks {
		r.barrier()
	}
}

// zero is DeepSpeed's save_checkpoint: rank 0 writes latest before the barrier.
func (p *plan) zero(dir, tag string) {
	at := func(name string) string { return strings.TrimPrefix(dir+"/"+name, "./") }
	for i, r := range p.ranks {
		r.mkdir(at(tag))
		if i == 0 {
			r.file(at(tag+"/mp_rank_00_model_states.pt"), p.archive("model", field{"global_steps", int(p.step)},
				field{"dp_world_size", len(p.ranks)}, field{"mp_world_size", 1}))
		}
		name := fmt.Sprintf("%s/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt", tag, i)
		r.file(at(name), p.archive(name))
		if dir == "." {
			r.done() // latest only points at it
		}
		if i == 0 {
			r.text(at("latest"), tag)
		}
		r.barrier()
	}
}

// track truncates Megatron's tracker and writes it.
func (p *plan) track(name string) {
	p.ranks[0].text(name, strconv.FormatInt(p.step, 10))
	p.allDone()
}

func nemoName(step int64) string {
	return fmt.Sprintf("llama--val_loss=2.00-step=%d-consumed_samples=%d.0", step, step*8)
}

func nemo(p *plan) {
	dir := nemoName(p.step)
	r := p.ranks[0]
	r.text(dir+"-unfinished", "")
	for _, r := range p.ranks {
		r.barrier()
		r.mkdir(dir + "/weights")
	}
	r.file(dir+"/weights/common.pt", p.archive("common"))
	p.torchTree(dir + "/weights")
	r.text(dir+"/weights/metadata.json", `{"sharded_backend":"torch_dist"}`)
	r.mkdir(dir + "/context")
	r.text(dir+"/context/model.yaml", "seq_length: 2048\n")
	for _, r := range p.ranks {
		r.barrier()
	}
	r.remove(dir + "-unfinished")
	p.allDone()
}

// nemoNewest takes the highest without a marker, for NeMo deletes the others.
func nemoNewest(dir string) (int64, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*step=*"))
	best := int64(-1)
	for _, f := range found {
		if _, err := os.Stat(f + "-unfinished"); err == nil || strings.HasSuffix(f, "-unfinished") {
			continue
		}
		_, rest, _ := strings.Cut(filepath.Base(f), "step=")
		n, _ := strconv.ParseInt(rest[:strings.Index(rest+"-", "-")], 10, 64)
		best = max(best, n)
	}
	if err == nil && best < 0 {
		err = fmt.Errorf("no finished checkpoint in %s", dir)
	}
	return best, err
}
