package trainer

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// child is a trainer in a process of its own.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout io.ReadCloser
	lines  *bufio.Scanner
}

func startChild(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(append(os.Environ(), "TRAINER_TEST_CHILD=1"), env...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &child{t, cmd, out, bufio.NewScanner(out)}
}

// until reads lines until one is as asked, or the trainer ends.
func (c *child) until(is func(line map[string]any) bool) {
	c.t.Helper()
	for c.lines.Scan() {
		var line map[string]any
		if err := json.Unmarshal(c.lines.Bytes(), &line); err != nil {
			return // cut by the kill
		}
		if is(line) {
			return
		}
	}
}

// end reads what is left and returns the exit code, -1 after a kill.
func (c *child) end() int {
	c.t.Helper()
	c.until(func(map[string]any) bool { return false })
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// Fifteen lives end by SIGKILL at the moment some line comes out, which is as
// random as the scheduler; every second one is meant for the middle of a save.
func TestKilledFifteenTimesItEndsWithTheSameWeights(t *testing.T) {
	t.Parallel()
	whole := tiny(t)
	whole.Steps, whole.SaveEvery, whole.Hidden = 400, 5, 64
	mustTrain(t, whole)
	want, err := DigestFile(filepath.Join(checkpointDir(whole.Output, whole.Steps), modelFile))
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	args := strings.Fields("--steps 400 --save-every 5 --hidden 64 --seed 7 --log-every 1 --save-total-limit 4 --resume auto --output " + out)
	r := stream(23)
	torn, kills := 0, 0
	for life := range 15 {
		c := startChild(t, []string{"SPOTFERRY_EVIDENCE_DIR=" + dir, "SPOTFERRY_EPOCH=" + strconv.Itoa(life+1)}, args...)
		after := 1 + r.below(18)
		c.until(func(line map[string]any) bool {
			after--
			return after <= 0 && (life%2 == 0 || line["event"] == "saving")
		})
		c.signal(syscall.SIGKILL)
		switch code := c.end(); code {
		case -1:
			kills++
		case 0: // on a busy machine it may finish before this test gets to run
		default:
			t.Fatalf("life %d ended with code %d before it was killed", life, code)
		}
		steps, _ := savedSteps(out)
		for _, n := range steps {
			if _, err := os.Stat(filepath.Join(checkpointDir(out, n), stateFile)); err != nil {
				torn++
			}
		}
	}
	c := startChild(t, []string{"SPOTFERRY_EVIDENCE_DIR=" + dir}, args...)
	if code := c.end(); code != 0 {
		t.Fatalf("the last life ended with code %d", code)
	}
	if got, err := DigestFile(filepath.Join(checkpointDir(out, whole.Steps), modelFile)); err != nil || got != want {
		t.Errorf("digest is %s, %v, want %s", got, err, want)
	}
	repeated := checkEvidence(t, readRows(t, filepath.Join(dir, "trainer.jsonl")))
	t.Logf("%d kills, %d torn checkpoints, %d steps trained twice", kills, torn, repeated)
}

// checkEvidence checks that a step trained again gave the same weights and the
// same loss, and returns how many were.
func checkEvidence(t *testing.T, rows []Evidence) (repeated int) {
	t.Helper()
	first := map[int]Evidence{}
	for _, row := range rows {
		was, again := first[row.Step]
		if again && (was.Digest != row.Digest || was.Loss != row.Loss) {
			t.Errorf("step %d gave %s in epoch %d and %s in epoch %d", row.Step, was.Digest, was.Epoch, row.Digest, row.Epoch)
		}
		if again && row.Phase == PhaseStep {
			repeated++
		}
		first[row.Step] = row
	}
	return repeated
}

func TestChildObeysSignals(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	// Paced so slowly that the last step never comes in a test's time.
	c := startChild(t, []string{"SPOTFERRY_CHECKPOINT_DIR=" + out},
		"--steps", "1000000", "--save-every", "1000000", "--hidden", "8", "--log-every", "1", "--step-interval", "2ms")
	c.until(func(line map[string]any) bool { return line["loss"] != nil })
	c.signal(syscall.SIGUSR1)
	saved := 0.0
	c.until(func(line map[string]any) bool {
		if line["event"] == "saved" {
			saved, _ = line["step"].(float64)
		}
		return saved > 0
	})
	c.until(func(line map[string]any) bool { return line["loss"] != nil })
	c.signal(syscall.SIGTERM)
	if code := c.end(); code != CodeStop {
		t.Errorf("ended with code %d, want %d", code, CodeStop)
	}
	steps, _ := savedSteps(out)
	if len(steps) != 2 || steps[0] != int(saved) || steps[1] <= steps[0] {
		t.Errorf("saved %v, want step %v and a later one", steps, saved)
	}
}

func TestChildGoesOnWhenNobodyReadsItsOutput(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	c := startChild(t, nil, "--steps", "60", "--hidden", "8", "--log-every", "1", "--output", out)
	c.until(func(line map[string]any) bool { return line["loss"] != nil })
	if err := c.stdout.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if steps, _ := savedSteps(out); len(steps) != 1 || steps[0] != 60 {
		t.Errorf("saved %v, want the last step", steps)
	}
}

func TestChildEndsWithTheCodeOfItsTrouble(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args string
		code int
	}{
		{"as asked", "--exit-code-at-step 7@3", 7},
		{"as asked, with one by default", "--exit-code-at-step 3", 1},
		{"for a bad flag", "--text nowhere", CodeUsage},
		{"for a checkpoint that is not there", "--resume nowhere/checkpoint-5", CodeResume},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(tc.args), "--hidden", "8", "--output", filepath.Join(t.TempDir(), "out"))
			if code := startChild(t, nil, args...).end(); code != tc.code {
				t.Errorf("ended with code %d, want %d", code, tc.code)
			}
		})
	}
}

func TestChildThatStallsTellsItsStepAndHearsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	progress := filepath.Join(dir, "progress.json")
	c := startChild(t, nil, "--stall-at-step", "4", "--hidden", "8", "--save-every", "3", "--output", filepath.Join(dir, "out"), "--progress", progress)
	c.until(func(line map[string]any) bool { return line["event"] == "stalled" })
	data, err := os.ReadFile(progress)
	if err != nil || !strings.Contains(string(data), `"step":4`) {
		t.Errorf("progress %s, %v", data, err)
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	_ = c.cmd.Process.Signal(syscall.SIGUSR1)
	_ = c.cmd.Process.Kill()
	if code := c.end(); code != -1 {
		t.Errorf("it ended with code %d before it was killed", code)
	}
	if _, err := os.Stat(filepath.Join(dir, "out", "checkpoint-4")); err == nil {
		t.Error("it saved after it had stalled")
	}
}
