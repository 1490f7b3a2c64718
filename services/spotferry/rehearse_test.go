package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/rehearse"
)

func ptr[T any](v T) *T { return &v }

// cannedRecord is a rehearsal of testdata/train.yaml.
func cannedRecord(key string) rehearse.Record {
	return rehearse.Record{
		At: start, Version: "v1.2.3", Job: "llama-7b", Key: key, Verdict: rehearse.Resumes,
		Machine: rehearse.Machine{CPU: "Some CPU", CPUs: 16, MemoryBytes: 64 << 30, GPUs: []string{"Tesla V100-SXM2-16GB"}},
		Figures: rehearse.Figures{
			StepsPerS: ptr(2.0), StepMS: ptr(500.0), SavePauseMS: ptr(int64(2500)), SaveWriteMS: ptr(int64(2600)), SaveSteps: ptr(int64(50)),
			CheckpointBytes: ptr(int64(5_200_000)), CheckpointFiles: ptr(7), UploadMS: ptr(int64(900)), SetupMS: ptr(int64(40_000)), InputsMS: ptr(int64(3000)),
			RestoreMS: ptr(int64(1500)), FirstStepMS: ptr(int64(9000)), ResumeStepMS: ptr(int64(9500)), PeakBytes: ptr(int64(12_000_000_000)), GPUPeakMiB: ptr(int64(14_000)),
		},
	}
}

// trainCopy copies the job file of the tests to where something may lie beside it.
func trainCopy(t *testing.T) (path, key string) {
	t.Helper()
	src, err := os.ReadFile("testdata/train.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "train.yaml")
	if err := os.WriteFile(path, src, 0o600); err != nil {
		t.Fatal(err)
	}
	job, err := jobfile.Read(path, src, jobfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return path, rehearse.Key(job.Spec)
}

func TestAPlanAsksWithWhatWasRehearsed(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	file, key := trainCopy(t)
	record := cannedRecord(key)
	keep := func(r rehearse.Record, path string) {
		t.Helper()
		if err := r.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	asked := func() string { return string(r.sent[console.GetPlan]) }

	if got := r.run("plan", file); got.code != 0 || strings.Contains(asked(), "rehearsed") {
		t.Errorf("without a record: exit %d, asked %s: %s", got.code, asked(), got.err)
	}
	keep(record, rehearse.Beside(file))
	if got := r.run("plan", file); got.code != 0 || !strings.Contains(got.out, "rehearsed   resumes rightly, 2026-03-04 12:00Z on 16 CPUs (Some CPU), 1×Tesla V100-SXM2-16GB; 2 steps a second there, 33m20s for all 4000; memory 12.0 GB") {
		t.Errorf("with one: exit %d: %s%s", got.code, got.out, got.err)
	}
	if want := `"rehearsed":{"at":"2026-03-04T12:00:00Z","where":"16 CPUs (Some CPU), 1×Tesla V100-SXM2-16GB","save_ms":2500,"start_ms":51000,"state_bytes":5200000,"work_s":{"V100":2001}}`; !strings.Contains(asked(), want) {
		t.Errorf("asked %s", asked())
	}
	if got := r.run("run", file, "-y", "-d"); got.code != 0 || strings.Contains(string(r.sent[console.DoSubmit]), "rehearsed") {
		t.Errorf("what was rehearsed is for plans: exit %d, submitted %s", got.code, r.sent[console.DoSubmit])
	}
	record.Verdict = rehearse.RestoreIgnored
	keep(record, rehearse.Beside(file))
	if got := r.run("plan", file); !strings.Contains(got.out, "not shown to resume (restore-ignored)") {
		t.Errorf("of a job that does not resume: %s", got.out)
	}
	record.Key = "other"
	keep(record, rehearse.Beside(file))
	if got := r.run("plan", file); got.code != 0 || strings.Contains(asked(), "rehearsed") || !strings.Contains(got.err, "figures are not used; rehearse again") {
		t.Errorf("of another script: exit %d, asked %s: %s", got.code, asked(), got.err)
	}
	if err := os.WriteFile(rehearse.Beside(file), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.run("plan", file); got.code != 0 || strings.Contains(asked(), "rehearsed") || !strings.Contains(got.err, "the rehearsal is not used: ") {
		t.Errorf("of half a record: exit %d: %s", got.code, got.err)
	}
	if got := r.run("plan", file, "--rehearsal", "none.json"); got.code != 2 || !strings.Contains(got.err, "--rehearsal: none.json: no rehearsal") {
		t.Errorf("one that is not there: exit %d: %s", got.code, got.err)
	}
}

func TestAPlanMarksWhatIsAssumed(t *testing.T) {
	t.Parallel()
	plan := cannedPlan()
	plan.Figures = []console.Figure{
		{Name: "work", Value: 36000, Unit: "s", Origin: console.Given, Detail: "on V100, policy.work.hours_on"},
		{Name: "save pause", Value: 2.5, Unit: "s", Origin: console.Measured, Rehearsed: true, Detail: "rehearsed 2026-03-04 12:00Z on x"},
		{Name: "checkpoint", Unit: "bytes", Origin: console.Assumed, Detail: "carrying it elsewhere costs nothing"},
		{Name: "restart", Value: 81, Unit: "s", Origin: console.PartlyAssumed, Rehearsed: true, Detail: "51.0 s for setup, 30 s for a machine, assumed"},
	}
	a := system()
	a[console.GetPlan] = always(plan)
	file, _ := trainCopy(t)
	got := newRig(t, a).run("plan", file)
	for _, want := range []string{
		"  work        10h, given: on V100, policy.work.hours_on\n", "  save pause  2.5s, measured by the rehearsal\n", "  checkpoint  0 B, assumed: carrying it elsewhere costs nothing\n",
		"  restart     1m21s, partly assumed: 51.0 s for setup, 30 s for a machine, assumed\n", "  rehearsed   not yet: 'spotferry rehearse " + file + "' measures",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("does not say %q:\n%s%s", want, got.out, got.err)
		}
	}
}

func TestARehearsalIsReportedAndKept(t *testing.T) {
	t.Parallel()
	loss := func(v float64) *float64 { return &v }
	told := func(epoch int, s float64, step int64, l float64) rehearse.Telling {
		return rehearse.Telling{Lease: cannedJob.Lease(epoch, 1), At: start.Add(time.Duration(s * float64(time.Second))), Step: step, Loss: loss(l)}
	}
	seen := rehearse.Run{
		Name: "llama-7b", Began: start, Ended: start.Add(42 * time.Second), Limit: 5 * time.Minute, Notice: 30 * time.Second, Tolerance: 1e-4, Complete: true,
		Lives: []rehearse.Life{
			{Epoch: 1, Lease: cannedJob.Lease(1, 1), Started: start, First: 1, Told: []rehearse.Telling{told(1, 1, 1, 3), told(1, 2, 2, 2.5), told(1, 3, 3, 2)}},
			{Epoch: 2, Lease: cannedJob.Lease(2, 1), Started: start, Resumed: true, From: 2, First: 3, Told: []rehearse.Telling{told(2, 10, 3, 1.5), told(2, 11, 4, 1)}},
		},
		Lines: []string{hostile},
	}
	file, _ := trainCopy(t)
	for _, tc := range []struct {
		name  string
		r     rehearsal
		with  func(*rehearse.Run)
		code  exit
		saved string
		says  []string
	}{
		{"other losses fail", rehearsal{file: file}, func(*rehearse.Run) {}, exitFailed, rehearse.Beside(file), []string{"verdict     It goes on from its checkpoint, but not as the run before.", "steps       1 a second, 1000 ms each", "save        not measured", "takes these figures"}},
		{"the same losses do not", rehearsal{file: file, save: filepath.Join(t.TempDir(), "kept")}, func(r *rehearse.Run) { r.Lives[1].Told[0].Loss = loss(2) }, exitOK, "kept", []string{"verdict     It resumes rightly"}},
		{"what is not known is not finished", rehearsal{file: file, noSave: true}, func(r *rehearse.Run) { r.Complete, r.Lives = false, nil }, exitUnfinished, "", []string{"verdict     It is too slow"}},
		{"a place that cannot be written costs no verdict", rehearsal{file: file, save: "/nonexistent/x"}, func(r *rehearse.Run) { r.Lives[1].Told[0].Loss = loss(2) }, exitOK, "", []string{"verdict     It resumes rightly"}},
		{"a script's last words do nothing to the terminal", rehearsal{file: file, noSave: true}, func(r *rehearse.Run) {
			r.History.Ended = &events.JobEnded{Outcome: events.Failed, ExitCode: 7}
		}, exitFailed, "", []string{"exit code 7", "  | evil"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run := seen
			run.Lives = append([]rehearse.Life{}, seen.Lives...)
			for i := range run.Lives {
				run.Lives[i].Told = append([]rehearse.Telling{}, seen.Lives[i].Told...)
			}
			tc.with(&run)
			var out, errs strings.Builder
			rig := newRig(t, nil)
			tc.r.e = rig.environment(&out, &errs)
			err := tc.r.report(run, "key")
			code := exitOK
			if err != nil {
				code = failureOf(t.Context(), err).exit
			}
			if code != tc.code || unsafeIn(out.String()) {
				t.Errorf("exit %d, want %d:\n%s", code, tc.code, out.String())
			}
			for _, want := range tc.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("does not say %q:\n%s%s", want, out.String(), errs.String())
				}
			}
			if strings.Contains(out.String(), "kept in") != (tc.saved != "") {
				t.Errorf("kept: %s", out.String())
			}
			if tc.saved != "" {
				if _, err := rehearse.Load(either(tc.r.save, rehearse.Beside(file))); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestARehearsalRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	file, _ := trainCopy(t)
	bad := jobFile(t, "run: train\nnmae: x\n")
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"none.yaml"}, "give the path of a job file"},
		{[]string{bad}, `there is no key "nmae" in a job file`},
		{[]string{file, "--for", "1s"}, "give --for a time from 5s to 24h"},
		{[]string{file, "--notice", "1h"}, "sellers give 30s or 2m"},
		{[]string{file, "--tolerance", "2"}, "--tolerance is 2"},
		{[]string{file, "--tolerance", "NaN"}, "--tolerance is NaN"},
		{[]string{file, "--save", "x", "--no-save"}, "give one of --save and --no-save"},
		{nil, "needs FILE"},
	} {
		r := alone(t)
		if got := r.run(append([]string{"rehearse"}, tc.args...)...); got.code != 2 || !strings.Contains(got.err, tc.says) {
			t.Errorf("%v: exit %d, %s", tc.args, got.code, got.err)
		}
	}
}
