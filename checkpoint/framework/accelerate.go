package framework

import (
	"errors"
	"os"
	"path"
	"regexp"
	"strconv"

	"github.com/spotferry/spotferry/checkpoint"
)

// accelerate is what Accelerator.save_state writes: checkpoint_i, in a directory
// "checkpoints" of the project, where i counts the saves; or, by scripts that
// name it themselves as those of diffusers do, checkpoint-N of step N. Read in
// accelerator.py and checkpointing.py.
//
// Nothing marks the end: each rank's random states are written last but for the
// objects that the script has registered. With total_limit the old ones are
// deleted before the new one is begun.
func accelerate() layout {
	return layout{
		name: "accelerate",
		find: findAccelerate,
		claims: func(root *os.Root, _ []string, found []Candidate) bool {
			for _, c := range found {
				if c.Ordinal {
					return true
				}
				if names, err := readNames(root, c.Name); err == nil && bySaveState(names) {
					return true
				}
			}
			return false
		},
		check:  checkAccelerate,
		once:   writtenOnce,
		finish: finishAccelerate,
		mute:   "Accelerate has no signal that makes it save; a script that saves on one of its own can be told to the job file",
	}
}

var (
	accelerateDir = regexp.MustCompile(`^checkpoint_(\d+)$`)
	anyWeights    = regexp.MustCompile(`^(model|pytorch_model|adapter_model|diffusion_pytorch_model)[^/]*\.(safetensors|bin)$|^(unet|transformer|controlnet|unet_ema)/|_model_states\.pt$|\.distcp$|lora_weights`)
	wholeTree     = regexp.MustCompile(`^checkpoint[_-]\d+$`)
)

func findAccelerate(a *adapter, root *os.Root, names []string) ([]Candidate, error) {
	cs := numbered(root, ".", names, accelerateDir)
	inner, err := readNames(root, "checkpoints")
	if err != nil && !errors.Is(err, checkpoint.ErrVanished) {
		return nil, err
	}
	cs = append(cs, numbered(root, "checkpoints", inner, accelerateDir)...)
	for i := range cs {
		cs[i].Ordinal = true
	}
	a.number(root, cs)
	return append(cs, numbered(root, ".", names, hfDir)...), nil
}

// numbering knows where the trainer's own count of its saves begins. A trainer
// that is not told begins again at 0 after a restore, below the number of the
// checkpoint it was restored from.
type numbering struct {
	restored string // path of the restored one
	inode    uint64
	base     int64
	again    bool // it has begun again
}

// number makes the numbers rise through a restore.
func (a *adapter) number(root *os.Root, cs []Candidate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := &a.count
	if n.restored == "" {
		return
	}
	fresh := make([]bool, len(cs))
	for i, c := range cs {
		e, err := stat(root, place(c))
		fresh[i] = place(c) != n.restored || err == nil && e.inode != n.inode
		if fresh[i] && c.Step <= n.base {
			n.again = true
		}
	}
	for i := range cs {
		if n.again && fresh[i] {
			cs[i].Step += n.base + 1
		}
	}
}

// members are the paths a candidate consists of.
func members(c Candidate) []string {
	if c.Files == nil {
		return []string{c.Name}
	}
	return c.Files
}

// place is where a candidate lies, or the first of its members.
func place(c Candidate) string { return members(c)[0] }

func finishAccelerate(a *adapter, root *os.Root, name string) (string, error) {
	at, err := a.where(root, name, wholeTree)
	if err != nil {
		return "", err
	}
	e, err := stat(root, at)
	if err != nil {
		return "", err
	}
	if m := accelerateDir.FindStringSubmatch(path.Base(at)); m != nil {
		base, _ := strconv.ParseInt(m[1], 10, 64)
		a.mu.Lock()
		a.count = numbering{restored: at, inode: e.inode, base: base}
		a.mu.Unlock()
	}
	return at, nil
}

var byAccelerate = regexp.MustCompile(`^(random_states_\d+\.pkl|optimizer(_\d+)?\.bin|scheduler(_\d+)?\.bin|sampler(_\d+)?\.bin)$`)

// bySaveState reports whether names are those of save_state and not of Trainer.
func bySaveState(names []string) bool {
	found := false
	for _, n := range names {
		if n == "trainer_state.json" || n == "training_args.bin" || n == "optimizer.pt" || n == "scheduler.pt" {
			return false
		}
		found = found || byAccelerate.MatchString(n)
	}
	return found
}

func saveState(s *sight) bool {
	var names []string
	for _, e := range s.entries {
		names = append(names, s.rel(e))
	}
	return bySaveState(names)
}

func checkAccelerate(s *sight) (string, error) {
	if len(s.files(perRank["random_states_*"])) == 0 {
		return "the random states of no rank are there yet", nil
	}
	if len(s.files(anyWeights)) == 0 {
		return "no weights are there yet", nil
	}
	if why := s.torchTrees(); why != "" {
		return why, nil
	}
	if _, ok := s.file("latest"); ok { // by DeepSpeed, whose tag Accelerate makes pytorch_model
		for _, dir := range s.dirs(zeroTree) {
			if why, err := s.zero(dir, "latest"); why != "" || err != nil {
				return why, err
			}
		}
	}
	if !s.shape.known() {
		s.doubt = "nothing says that save_state had no more to write"
	}
	return "", nil
}

var zeroTree = regexp.MustCompile(`^(pytorch_model|pytorch_model_\d+|global_step\d+)$`)
