package rehearse

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func TestFiguresAreMediansOfWhatWasSeen(t *testing.T) {
	t.Parallel()
	r := good()
	for i := range r.Lives {
		for k := range r.Lives[i].Told {
			if r.Lives[i].Told[k].Step > 20 && i == 0 || r.Lives[i].Told[k].Step > 40 && i == 1 { // each save stops it for 300 ms
				r.Lives[i].Told[k].At = r.Lives[i].Told[k].At.Add(300 * time.Millisecond)
			}
		}
		r.Lives[i].Clock = events.AgentClock{SetupMS: 4000, InputsMS: 1000, RestoreMS: 250, FirstStepMS: int64(900 + 100*i)}
	}
	r.History.Commits[1].Final = true
	r.PeakBytes = 1 << 30
	r.History.Words = []events.JobLastWords{{Heartbeat: &events.Heartbeat{GPUs: []events.GPUSample{{Name: "NVIDIA H100 80GB HBM3", MemUsedMiB: 1000}, {Name: "NVIDIA H100 80GB HBM3", MemUsedMiB: 2000}}}}}
	f := Measure(r)
	for _, tc := range []struct {
		name string
		got  *int64
		want int64
	}{
		{"the pause of a save", f.SavePauseMS, 300}, {"its writing", f.SaveWriteMS, 20}, {"upload", f.UploadMS, 5},
		{"bytes", f.CheckpointBytes, 1000}, {"setup", f.SetupMS, 4000}, {"inputs", f.InputsMS, 1000}, {"restore", f.RestoreMS, 250},
		{"the first step of a fresh start", f.FirstStepMS, 900}, {"and of a resumed one", f.ResumeStepMS, 1100}, {"memory", f.PeakBytes, 1 << 30}, {"GPU memory", f.GPUPeakMiB, 3000},
	} {
		if tc.got == nil || *tc.got != tc.want {
			t.Errorf("%s is %v, want %d", tc.name, tc.got, tc.want)
		}
	}
	if f.StepMS == nil || *f.StepMS < 99 || *f.StepMS > 101 || *f.StepsPerS < 9.9 || *f.StepsPerS > 10.1 {
		t.Errorf("a step takes %v ms, %v a second", f.StepMS, f.StepsPerS)
	}
	if f.SaveSteps != nil { // 20 to 25 was its last, 20 is the first, 40 the only one of its life
		t.Errorf("it saves every %d steps", *f.SaveSteps)
	}
	if d, ok := f.Restart(); !ok || d != 5350*time.Millisecond {
		t.Errorf("a restart takes %v, %v", d, ok)
	}
	if got := r.GPUs(); len(got) != 2 || got[0] != "NVIDIA H100 80GB HBM3" {
		t.Errorf("GPUs %v", got)
	}
}

func TestWhatWasNotSeenIsNoFigure(t *testing.T) {
	t.Parallel()
	f := Measure(Run{})
	if f != (Figures{}) {
		t.Errorf("%+v", f)
	}
	if _, ok := f.Restart(); ok {
		t.Error("a restart was made of nothing")
	}
}

func TestADriverSaysMoreOfAGPUThanPeopleDo(t *testing.T) {
	t.Parallel()
	h100 := Machine{GPUs: []string{"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"}}
	for _, tc := range []struct {
		name    string
		machine Machine
		asked   events.Accelerator
		want    bool
	}{
		{"the model is one of its words", h100, events.Accelerator{Model: "H100", Count: 2}, true},
		{"all of the words have to be there", h100, events.Accelerator{Model: "H100-80GB", Count: 2}, true},
		{"another size is another", Machine{GPUs: []string{"NVIDIA A100-SXM4-40GB"}}, events.Accelerator{Model: "A100-80GB", Count: 1}, false},
		{"fewer of them train at another speed", h100, events.Accelerator{Model: "H100", Count: 8}, false},
		{"an L4 is no L40S", Machine{GPUs: []string{"NVIDIA L40S"}}, events.Accelerator{Model: "L4", Count: 1}, false},
		{"no GPU is none", Machine{}, events.Accelerator{Model: "H100", Count: 0}, false},
	} {
		if got := tc.machine.Has(tc.asked); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
