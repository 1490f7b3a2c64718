package framework_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/framework"
)

func TestCandidatesOfHF(t *testing.T) {
	t.Parallel()
	j := newJob(t, map[string]string{"checkpoint-9/x": "", "checkpoint-10/x": "", "checkpoint-0/x": "",
		"tmp-checkpoint-11/x": "", "checkpoint-012/x": "", "checkpoint-/x": "", "checkpoint--5/x": "", "checkpoint-7": "a file",
		"checkpoint-99999999999999999999/x": "", "runs/x": "", "checkpoint-8-unfinished/x": ""})
	must(t, os.Symlink("/etc", j.dir+"/checkpoint-13"))
	var steps []int64
	for _, c := range j.candidates(j.adapter("hf", framework.Config{})) {
		steps = append(steps, c.Step)
	}
	if want := []int64{10, 9, 0}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
}

// TestCompleteOfHF takes a complete checkpoint and takes something away.
func TestCompleteOfHF(t *testing.T) {
	t.Parallel()
	cut := func(s string) string { return s[:len(s)-1] }
	for _, tc := range []struct {
		name string
		file string // in the checkpoint, unless it has a slash
		to   func(string) string
		why  string // part of the reason; empty if it is complete
	}{
		{"a complete one is complete", "config.json", func(s string) string { return s }, ""},
		{"no trainer state yet", "trainer_state.json", nil, "trainer_state.json"},
		{"an empty trainer state", "trainer_state.json", func(string) string { return "" }, "does not parse"},
		{"half a trainer state", "trainer_state.json", func(s string) string { return s[:len(s)/2] }, "does not parse"},
		{"the trainer state of another step", "trainer_state.json", func(s string) string { return strings.Replace(s, "30", "29", 1) }, "not of step 30"},
		{"a trainer state without a step", "trainer_state.json", func(string) string { return "{}" }, "not of step 30"},
		{"weights without the last byte", "model-00001-of-00002.safetensors", cut, "246 bytes of 247"},
		{"weights with a byte too many", "model-00001-of-00002.safetensors", func(s string) string { return s + "x" }, "bytes of"},
		{"weights of which only the length is there", "model-00001-of-00002.safetensors", func(s string) string { return s[:8] }, "header of"},
		{"weights of four bytes", "model-00001-of-00002.safetensors", func(s string) string { return s[:4] }, "cut short"},
		{"weights of zeros, as after a power failure", "model-00001-of-00002.safetensors", func(s string) string { return strings.Repeat("\x00", len(s)) }, "header does not parse"},
		{"weights with a header that claims a petabyte", "model-00001-of-00002.safetensors", func(s string) string { return "\xff\xff\xff\xff\xff\xff\x03\x00" + s[8:] }, "header of"},
		{"weights with offsets that run backwards", "model-00001-of-00002.safetensors", func(s string) string { return strings.Replace(s, "[0,2]", "[2,0]", 1) }, "offsets"},
		{"a shard of the index is missing", "model-00002-of-00002.safetensors", nil, "which is not there"},
		{"half an index", "model.safetensors.index.json", cut, "does not parse"},
		{"an archive without its end", "optimizer.pt", cut, "not a whole archive"},
		{"half an archive", "rng_state_1.pth", func(s string) string { return s[:len(s)/2] }, "not a whole archive"},
		{"an empty archive", "optimizer.pt", func(string) string { return "" }, "neither an archive nor a pickle"},
		{"half an archive called .bin", "training_args.bin", func(s string) string { return s[:len(s)/2] }, "not a whole archive"},
		{"a broken config", "config.json", func(string) string { return "{" }, "not valid JSON"},
		{"the sentinel of a save on SIGTERM", "checkpoint-is-incomplete.txt", func(string) string { return "" }, "being written"},
		{"a temporary file", "sub/model.tmp", func(string) string { return "" }, "being written"},
		{"a shard of torch without its metadata", "pytorch_model_fsdp_0/__0_0.distcp", func(string) string { return "x" }, "no .metadata"},
		{"NeMo's marker beside it", "../checkpoint-30-unfinished", func(string) string { return "" }, "being written"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			files := hfTree(t, 30)
			j := newJob(t, files)
			name := "checkpoint-30/" + tc.file
			if tc.to == nil {
				must(t, os.Remove(j.dir+"/"+name))
			} else {
				j.write(name, tc.to(files[name]))
			}
			a := j.adapter("hf", framework.Config{})
			ok, why := j.settle(a, j.candidates(a)[0])
			if ok != (tc.why == "") || !strings.Contains(why, tc.why) {
				t.Errorf("Complete = %v, %q; want %q", ok, why, tc.why)
			}
		})
	}
}

// TestTornAtEveryByte: whatever prefix of the files a killed trainer left, the
// checkpoint is not complete, though it is as still as can be.
func TestTornAtEveryByte(t *testing.T) {
	t.Parallel()
	files := hfTree(t, 30)
	j := newJob(t, files)
	for _, name := range []string{"model-00001-of-00002.safetensors", "optimizer.pt", "trainer_state.json", "model.safetensors.index.json"} {
		name = "checkpoint-30/" + name
		for n := range files[name] {
			j.write(name, files[name][:n])
			a := j.adapter("hf", framework.Config{})
			if ok, _ := j.settle(a, j.candidates(a)[0]); ok {
				t.Errorf("complete with %d of %d bytes of %s", n, len(files[name]), name)
			}
		}
		j.write(name, files[name])
	}
}

func TestStillness(t *testing.T) {
	t.Parallel()
	j := newJob(t, hfTree(t, 30))
	busy := ""
	a := j.adapter("hf", framework.Config{Quiet: 2 * time.Second,
		Busy: func(*os.Root, framework.Candidate) (string, error) { return busy, nil }})
	c := j.candidates(a)[0]
	for _, step := range []struct {
		name string
		do   func()
		why  string
	}{
		{"one look is not enough", func() {}, "first time"},
		{"nor are two a second apart", func() { j.now = j.now.Add(time.Second) }, "still for 1s of 2s"},
		{"a file written anew with its size begins again", func() {
			j.now = j.now.Add(time.Second)
			must(t, os.Remove(j.dir+"/checkpoint-30/config.json"))
			j.write("checkpoint-30/config.json", "[]")
		}, "changed"},
		{"a file that appears as well", func() { j.write("checkpoint-30/late", "x"); j.now = j.now.Add(time.Hour) }, "changed"},
		{"a file open for writing holds it up", func() { busy = "late"; j.now = j.now.Add(2 * time.Second) }, "open for writing"},
		{"and then it is complete", func() { busy = "" }, ""},
		{"and stays so", func() {}, ""},
		{"until it changes", func() { j.write("checkpoint-30/late", "xx") }, "changed"},
	} {
		step.do()
		ok, why, err := a.Complete(j.root, c)
		if err != nil || ok != (step.why == "") || !strings.Contains(why, step.why) {
			t.Errorf("%s: Complete = %v, %q, %v; want %q", step.name, ok, why, err, step.why)
		}
	}
}

func TestRanks(t *testing.T) {
	t.Parallel()
	first, second := hfTree(t, 30), hfTree(t, 40)
	delete(second, "checkpoint-40/rng_state_1.pth") // the slow rank
	j := newJob(t, first, second)
	a := j.adapter("hf", framework.Config{})
	cs := j.candidates(a)
	if ok, why := j.settle(a, cs[1]); !ok {
		t.Fatalf("the first is not complete: %s", why)
	}
	if ok, why := j.settle(a, cs[0]); ok || !strings.Contains(why, "1 of 2 files rng_state") {
		t.Errorf("Complete = %v, %q; want one rank missing", ok, why)
	}
	j.write("checkpoint-40/rng_state_1.pth", archive(t))
	if ok, why := j.settle(a, cs[0]); !ok {
		t.Errorf("with the rank's file it is not complete: %s", why)
	}
}

func BenchmarkPoll(b *testing.B) {
	j := newJob(b, hfTree(b, 30), hfTree(b, 40))
	a := j.adapter("hf", framework.Config{})
	j.settle(a, j.candidates(a)[0])
	for b.Loop() {
		if ok, why, err := a.Complete(j.root, j.candidates(a)[0]); !ok {
			b.Fatal(why, err)
		}
	}
}
