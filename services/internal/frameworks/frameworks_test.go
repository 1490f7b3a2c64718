package frameworks

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	asked    = flag.Bool("frameworks", false, "run the real frameworks; install.sh has to have been run")
	only     = flag.String("only", "", "names of job files in testdata, separated by commas; all of them if empty")
	reclaims = flag.Int("reclaims", 5, "machines that each job loses with a notice, and as many without")
	steps    = flag.Int("steps", 0, "of each job; 0: enough for the reclaims")
	seed     = flag.Uint64("seed", 1, "of the points at which machines are taken away")
	program  = flag.String("spotferry", "", "program to run instead of the one that is built from here")
	evidence = flag.String("evidence", "", "directory to leave job files, losses and records in")
)

// tolerance is how far a loss may be off, as a part of what it should be. On one
// machine it should be the same to the last bit, and so far it has been.
const tolerance = 1e-6

// subject is a job file in testdata.
type subject struct {
	name      string
	ranks     int
	framework string   // which it is to be recognised as, although its job file says nothing
	files     []string // which every manifest must have, of all ranks
}

var subjects = []subject{
	{"hf_lora", 1, "hf", []string{"adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"}},
	{"lightning_fit", 1, "lightning", []string{"step=*.ckpt"}},
	{"dcp_fsdp", 2, "dcp", []string{"__0_0.distcp", "__1_0.distcp", "rng_state_0.pth", "rng_state_1.pth", ".metadata"}},
	{"deepspeed_zero", 2, "deepspeed", []string{"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
		"zero_pp_rank_1_mp_rank_00_optim_states.pt", "rng_state_0.pth", "rng_state_1.pth"}},
}

// TestFrameworks takes each framework's job from machine to machine.
func TestFrameworks(t *testing.T) {
	if !*asked {
		t.Skip("real frameworks are asked for: `make e2e-frameworks`, which installs them first")
	}
	w := newWorld(t)
	for _, s := range subjects {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			w := w.inside(t)
			want := w.undisturbed(s)
			w.survives(s, want)
			w.goesWrongWithoutRandomState(s, want)
			t.Logf("%s: all of it took %s", s.name, time.Since(began).Round(time.Second))
		})
	}
}

// enoughSteps is how long a job has to be to lose all its machines.
func enoughSteps() int {
	if *steps > 0 {
		return *steps
	}
	return 24 * (1 + 2**reclaims)
}

// survives has a job lose its machine again and again, and compares its losses.
func (w *world) survives(s subject, want curves) {
	t, name := w.t, s.name
	began := time.Now()
	job := w.submit(name, "")
	t.Cleanup(func() { w.keep(w.lossesFile(job), name+"-disturbed.jsonl") })
	draw := rand.New(rand.NewPCG(*seed, uint64(len(name))))
	noticed := append(slices.Repeat([]bool{true}, *reclaims), slices.Repeat([]bool{false}, *reclaims)...)
	draw.Shuffle(len(noticed), func(i, j int) { noticed[i], noticed[j] = noticed[j], noticed[i] })
	var lost [2]int64 // steps, without and with a notice
	for i, notice := range noticed {
		epoch := w.trains(job, 2+draw.IntN(12))
		r := w.drill(job, notice)
		t.Logf("%s: reclaim %d of epoch %d, %s: from step %d to %d, %d lost", name, i+1, epoch, words(notice), r.LastStep, r.Resumed.Step, r.LostSteps)
		if r.Noticed != notice || !r.Drill || r.Resumed.Step == 0 {
			t.Errorf("%s: reclaim %d, %s, is recorded as %+v", name, i+1, words(notice), r)
		}
		if notice {
			lost[1] += r.LostSteps
		} else {
			lost[0] += r.LostSteps
		}
	}
	j := w.over(job)
	if j.Status != "succeeded" || j.happened("job.drilled") != len(noticed) {
		t.Fatalf("%s: the job is %s (%s) after %d reclaims of ours", name, j.Status, j.Detail, j.happened("job.drilled"))
	}
	w.isWhole(s, job)
	v := compare(want, w.losses(job))
	t.Logf("%s: %d reclaims (%d with notice, %d steps lost; %d without, %d lost), %d moves in all, %s, in %s", name,
		len(noticed), *reclaims, lost[1], *reclaims, lost[0], j.Epochs-1, v, time.Since(began).Round(time.Second))
	if len(v.epochs) < len(noticed)+1 {
		t.Errorf("%s: trained in epochs %v only", name, v.epochs)
	}
	if len(v.missing) > 0 {
		t.Errorf("%s: no trainer has told the loss of %v", name, v.missing)
	}
	if v.worst > tolerance {
		t.Errorf("%s: a loss is off by %.3g of what it was undisturbed: %s", name, v.worst, v.where)
	}
}

// goesWrongWithoutRandomState is the control: what tells a good resume from a bad
// one must see a bad one.
func (w *world) goesWrongWithoutRandomState(s subject, want curves) {
	t, name := w.t, s.name
	job := w.submit(name, `python forget.py "$SPOTFERRY_RESUME_FROM"`)
	epoch := w.trains(job, 3)
	w.drill(job, false)
	w.trains(job, 5)
	w.cancel(job)
	before, after := w.losses(job).parted(epoch)
	if v := compare(want, before); v.worst > tolerance {
		t.Errorf("%s, control: a loss before it was resumed is off by %.3g: %s", name, v.worst, v.where)
	}
	v := compare(want, after)
	t.Logf("%s, control: without the state of the random numbers %d of %d losses differ, by up to %.3g", name, v.off, v.rows, v.worst)
	if v.rows == 0 || v.off < v.rows {
		t.Errorf("%s, control: only %d of %d losses differ although the random numbers were forgotten", name, v.off, v.rows)
	}
}

func words(notice bool) string {
	if notice {
		return "with a notice"
	}
	return "without a notice"
}
