package kills

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	asks     = flag.Int("n", 0, "kills; 0: a few, of some layouts")
	seed     = flag.Uint64("seed", 1, "of the plan and the trainers")
	keep     = flag.String("evidence", "", "directory to leave the evidence in")
	atOnce   = flag.Int("jobs", 12, "jobs at a time")
	only     = flag.String("layouts", "", "comma-separated; \"\": all")
	scratch  = flag.String("scratch", "", "directory to run in, such as one in memory; \"\": the test's own")
	drill    = flag.String("victim", "", "what every stroke that can kills instead of what was drawn: trainer, agent, host, machine, notice or plane")
	printing = flag.Bool("json", false, "print the summary as JSON too")
)

// verdict is the summary of a run.
type verdict struct {
	Seed       uint64         `json:"seed"`
	Took       float64        `json:"seconds"`
	Asked      int            `json:"kills_planned"`
	Kills      int            `json:"kills"`
	Inside     int            `json:"kills_inside_save_upload_commit"`
	Redrawn    int            `json:"redrawn"` // found nothing to kill
	Phases     map[phase]int  `json:"kills_by_phase"`
	Victims    map[victim]int `json:"kills_by_victim"`
	Jobs       int            `json:"jobs"`
	Trainers   int            `json:"trainers"`
	Resumes    int            `json:"resumes"`
	Torn       int            `json:"resumes_from_a_torn_checkpoint"`
	Lost       int64          `json:"lost_steps"`
	MostLost   int64          `json:"most_lost_steps"`                // with no save complete and under way
	MostFlying int64          `json:"most_lost_steps_with_one_going"` // with one
	MostBehind int64          `json:"most_behind_steps"`              // behind the farthest step of any life before
	Unasked    []string       `json:"restarts_without_a_kill"`
	Steps      int            `json:"steps_compared"`
	Equal      int            `json:"jobs_with_equal_digests"`
	Commits    int            `json:"commits_proven"`
	Gone       int            `json:"of_those_dropped_before"`
	Kept       int            `json:"kept_and_proven_at_the_end"`
	Wrong      []string       `json:"wrong"`
}

// TestKills is the long run, which has to be asked for.
func TestKills(t *testing.T) {
	if *asks == 0 {
		t.Skip("a long run is asked for with -n=1000; `make kills`")
	}
	run(t, options{seed: *seed, kills: *asks, layouts: chosen(), parallel: *atOnce})
}

// TestAFewKills is the short run, for every change.
func TestAFewKills(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the system for half a minute")
	}
	if *asks > 0 {
		t.Skip("the long run was asked for")
	}
	run(t, options{seed: *seed, kills: 24, layouts: []string{"hf", "hf-ranks", "deepspeed", "megatron", "lightning-last", "orbax", "keras", "plain-large"}, parallel: 8})
}

func chosen() (names []string) {
	if *only != "" {
		return strings.Split(*only, ",")
	}
	for _, s := range shapes() {
		names = append(names, s.Name)
	}
	return names
}

func run(t *testing.T, o options) {
	dir := t.TempDir()
	if *scratch != "" {
		var err error
		if dir, err = os.MkdirTemp(*scratch, "kills"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	w := newWorld(t, o, dir)
	count, err := countOperations(w.path("tmp"))
	if err != nil {
		t.Fatal(err)
	}
	strokes := plan(o.seed, o.kills, o.layouts, count)
	if *drill != "" {
		redirect(strokes, victim(*drill))
	}
	if err := put(w.evidence(planFile), slices.Concat(strokes...)); err != nil {
		t.Fatal(err)
	}
	w.note("%d kills are drawn, for %d jobs", o.kills, len(o.layouts))
	w.start()
	jobs := make(chan int)
	var working sync.WaitGroup
	for range min(o.parallel, len(o.layouts)) {
		working.Go(func() {
			for i := range jobs {
				s, err := shapeByName(o.layouts[i])
				if err != nil {
					w.fail("%v", err)
					continue
				}
				c := &carried{w: w, id: jobID(s.Name), shape: s, rand: rand.New(rand.NewPCG(o.seed, uint64(i)|1<<40)), spare: count}
				c.run(strokes[i])
			}
		})
	}
	for i := range o.layouts {
		jobs <- i
	}
	close(jobs)
	working.Wait()
	w.report(w.judge())
}

// report prints what happened, and fails the test for what went wrong.
func (w *world) report(v verdict) {
	t := w.t
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(w.evidence(summaryFile), append(b, '\n'), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
	if *keep != "" {
		at := filepath.Join(*keep, fmt.Sprintf("seed-%d-kills-%d-%s", v.Seed, v.Asked, w.began.Format("150405")))
		if err := os.CopyFS(at, os.DirFS(w.evidence("."))); err != nil {
			t.Error(err)
		}
		t.Logf("the evidence is in %s", at)
	}
	fmt.Println(v.text())
	if *printing {
		fmt.Println(string(b))
	}
	for _, s := range v.Wrong {
		t.Errorf("seed %d: %s", v.Seed, s)
	}
	if len(v.Wrong) > 0 {
		t.Logf("the end of the control plane's log:\n%s", tail(w.evidence(planeLog), 3000))
	}
}

func (v verdict) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nseed %d: %d kills in %.0f s, %d of them inside a save, an upload or a commit (%d %%)\n\n", v.Seed, v.Kills, v.Took, v.Inside, v.Inside*100/max(v.Kills, 1))
	for _, p := range phases() {
		fmt.Fprintf(&b, "  %-38s %4d  %s\n", p, v.Phases[p], strings.Repeat("#", (v.Phases[p]*200+v.Kills-1)/max(v.Kills, 1)))
	}
	b.WriteString("\n")
	for _, p := range victims() {
		fmt.Fprintf(&b, "  %-38s %4d\n", "of the "+string(p), v.Victims[p])
	}
	fmt.Fprintf(&b, "\n  %d found nothing to kill and were drawn again\n", v.Redrawn)
	fmt.Fprintf(&b, "  %d jobs, %d trainers; %d resumes, %d from a torn checkpoint; %d trainers restarted without a kill\n", v.Jobs, v.Trainers, v.Resumes, v.Torn, len(v.Unasked))
	fmt.Fprintf(&b, "  %d steps lost; at most %d by one kill, and %d where a complete save was on its way (an interval is %d)\n", v.Lost, v.MostLost, v.MostFlying, every)
	fmt.Fprintf(&b, "  %d steps compared with undisturbed runs; %d of %d jobs equal to the last step\n", v.Steps, v.Equal, v.Jobs)
	fmt.Fprintf(&b, "  %d commits restored and compared (%d had been dropped by then), %d kept ones once more at the end\n", v.Commits-v.Gone, v.Gone, v.Kept)
	return b.String()
}
