package jobfile_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/spotferry/spotferry/deploy/examples"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/jobfile"
)

func unpack(t *testing.T) (dir string, jobs []jobfile.Job) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "examples")
	names, err := examples.Unpack(dir)
	if err != nil {
		t.Fatal(err)
	}
	now := events.Moment{Control: time.Unix(1_900_000_000, 0), Market: time.Unix(1_800_000_000, 0)}
	for _, name := range names {
		file := filepath.Join(dir, name)
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		j, err := jobfile.Read(file, src, jobfile.Options{Now: now, Dir: dir, Stat: os.Stat})
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	return dir, jobs
}

func TestEveryJobFileIsReadWithoutWarning(t *testing.T) {
	t.Parallel()
	_, jobs := unpack(t)
	if len(jobs) != 3 {
		t.Errorf("there are %d job files", len(jobs))
	}
	for _, j := range jobs {
		for _, w := range j.Warnings {
			if w.Severity != jobfile.Note {
				t.Errorf("%v", w)
			}
		}
		if j.Spec.Policy.Checkpoint.Signal != "SIGUSR1" || j.Spec.Policy.Checkpoint.Framework != "hf" {
			t.Errorf("%s: checkpoint policy %+v", j.Spec.Name, j.Spec.Policy.Checkpoint)
		}
	}
}

// A file of SkyPilot's runs as it is when the command line gives the budget.
func TestAFileOfSkyPilotsNeedsNothingButABudget(t *testing.T) {
	t.Parallel()
	dir, _ := unpack(t)
	file := filepath.Join(dir, "skypilot.yaml")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opt := jobfile.Options{Dir: dir, Home: dir, Stat: os.Stat}
	if _, err := jobfile.Read(file, src, opt); err == nil {
		t.Error("read without a budget")
	}
	opt.Budget = "$30"
	j, err := jobfile.Read(file, src, opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range j.Warnings {
		if w.Severity != jobfile.Note {
			t.Errorf("%v", w)
		}
	}
	if len(j.Mounts) != 1 || j.Mounts[0].Path != "~/texts" || j.Spec.Policy.MaxRestarts != 2 || len(j.Spec.OnNotice) != 1 || j.Spec.Envs["VERSION"] != "1.10" {
		t.Errorf("read as %+v, mounts %+v", j.Spec, j.Mounts)
	}
}

var stepsFlag = regexp.MustCompile(`--steps (\d+)`)

// The plan's figures rest on the steps and hours that a file gives, so they must
// be those of the command, at the 240-fold market of the demonstration.
func TestStepsAndHoursAreThoseOfTheCommand(t *testing.T) {
	t.Parallel()
	_, jobs := unpack(t)
	for _, j := range jobs {
		steps := j.Spec.Envs["STEPS"]
		if m := stepsFlag.FindStringSubmatch(j.Spec.Run); m != nil {
			steps = m[1]
		}
		n, err := strconv.ParseInt(steps, 10, 64)
		if err != nil || n != j.Spec.Policy.Work.Steps {
			t.Errorf("%s trains %s steps and says %d", j.Spec.Name, steps, j.Spec.Policy.Work.Steps)
		}
		pace, err := time.ParseDuration(j.Spec.Envs["PACE"])
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Duration(n) * pace; took < time.Minute || took > 75*time.Second {
			t.Errorf("%s takes %v", j.Spec.Name, took)
		}
		if on, ok := j.Spec.Policy.Work.On("V100"); !ok || on != time.Duration(n)*pace*240 {
			t.Errorf("%s says %v on a V100, the command takes %v of the market's time", j.Spec.Name, on, time.Duration(n)*pace*240)
		}
		if d := j.Spec.Policy.Deadline; !d.IsZero() && d.Sub(time.Unix(1_800_000_000, 0)) < 2*time.Duration(n)*pace*240 {
			t.Errorf("%s has a deadline that leaves no room", j.Spec.Name)
		}
	}
}

func TestTheWorkdirTravels(t *testing.T) {
	t.Parallel()
	dir, jobs := unpack(t)
	j := jobs[2]
	if j.Workdir != filepath.Join(dir, "script") || j.Spec.Setup == "" || j.Spec.Envs["VERSION"] != "1.10" {
		t.Errorf("the script job has workdir %q, setup %q, envs %v", j.Workdir, j.Spec.Setup, j.Spec.Envs)
	}
	info, err := os.Stat(filepath.Join(j.Workdir, "train.sh"))
	if err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("train.sh: %v, %v; it must be executable", info, err)
	}
	if files, err := jobfile.Pack(context.Background(), j.Workdir, io.Discard); err != nil || files != 3 {
		t.Errorf("packed %d files, %v", files, err)
	}
}
