package agent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lukechampine.com/blake3"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

func TestScriptsOfSkyPilotFindTheirVariables(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Name = "Fine-tune *7B* > v1"
		j.Spec.Envs = map[string]string{"SKYPILOT_NODE_RANK": "7", "WANDB_PROJECT": "p"}
		j.Spec.Resources.Accelerators = []events.Accelerator{{Model: "H100", Count: 8}}
		w.boot()
		r := w.machine.Started()[0]
		for name, want := range map[string]string{
			"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NODE_IPS": "127.0.0.1", "SKYPILOT_NUM_NODES": "1", "SKYPILOT_NUM_GPUS_PER_NODE": "8",
			"SKYPILOT_TASK_ID": "spotferry_Fine-tune--7B----v1_01jtest", "SKYPILOT_JOB_ID": "spotferry_Fine-tune--7B----v1_01jtest",
			"SKYPILOT_SETUP_NUM_GPUS_PER_NODE": "8", "WANDB_RUN_ID": "01jtest", "WANDB_RESUME": "allow", "WANDB_PROJECT": "p", "SPOTFERRY_EPOCH": "1",
		} {
			w.equal(name, r.Getenv(name), want)
		}
		w.gw.Reply(func(r *events.RenewReply) { r.Epoch = 2 }) // the trainer dies, and its machine goes on
		w.sleep(10 * time.Second)
		r.Die("SIGKILL")
		w.gw.Order(events.OrderStart, "start-2")
		w.until("started again", func() bool { return len(w.machine.Started()) == 2 })
		again := w.machine.Started()[1]
		for _, name := range []string{"SKYPILOT_TASK_ID", "WANDB_RUN_ID"} {
			w.equal(name+" in the next epoch", again.Getenv(name), r.Getenv(name))
		}
		w.equal("epoch", again.Getenv("SPOTFERRY_EPOCH"), "2")
		if link, err := os.Readlink(filepath.Join(r.Getenv("HOME"), "sky_workdir")); err != nil || link != r.Dir {
			t.Errorf("~/sky_workdir leads to %q, %v", link, err)
		}
	})
}

func TestAJobMayNameItsRunItself(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Envs = map[string]string{"WANDB_RUN_ID": "mine", "WANDB_RESUME": "must"}
		w.boot()
		r := w.machine.Started()[0]
		w.equal("run", r.Getenv("WANDB_RUN_ID")+" "+r.Getenv("WANDB_RESUME"), "mine must")
		w.equal("GPUs of a job that asked for none", r.Getenv("SKYPILOT_NUM_GPUS_PER_NODE"), "0")
	})
}

// withSecrets has a join that brings secrets, by names and values.
func withSecrets(t *testing.T, j *events.JoinReply, pairs ...string) {
	t.Helper()
	values := map[string]events.Secret{}
	for i := 0; i < len(pairs); i += 2 {
		j.Spec.Secrets = append(j.Spec.Secrets, pairs[i])
		values[pairs[i]] = events.NewSecret(pairs[i+1])
	}
	b, err := events.PackSecrets(job, values)
	if err != nil {
		t.Fatal(err)
	}
	j.Secrets = &events.Sealed{From: "gateway", Box: b}
}

func TestSecretsReachTheTrainerAndNoLineOfItsOutput(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		const token, key = "c4nary-token", "-----BEGIN KEY-----\nc4narykeyline\n-----END KEY-----"
		withSecrets(t, j, "HF_TOKEN", token, "LONGER", token+"-and-more", "PEM", key, "PIN", "1234")
		j.Spec.Envs = map[string]string{"HF_TOKEN": "shadowed"}
		w.machine.Programs["run.sh"] = func(r *agenttest.Running) agent.Exit {
			fmt.Fprintf(r.Stdout, "token %s and %s!\r%s-and-more\n%s\npin %s\n", r.Getenv("HF_TOKEN"), token, token, r.Getenv("PEM"), r.Getenv("PIN"))
			fmt.Fprintf(r.Stderr, "Authorization: Bearer %s", token) // a last line without an end
			return agent.Exit{Code: 3}
		}
		w.boot()
		w.until("the end is told", func() bool { return len(w.gw.Record().Dones) == 1 })
		w.sleep(time.Second)
		r := w.machine.Started()[0]
		w.equal("token", r.Getenv("HF_TOKEN"), token)
		w.equal("key", r.Getenv("PEM"), key)
		record, err := json.Marshal(w.gw.Record())
		if err != nil {
			t.Fatal(err)
		}
		told := string(record)
		if strings.Contains(told, "c4nary") {
			t.Errorf("told the gateway: %s", told)
		}
		for _, line := range []string{"****", "Bearer ****", "pin 1234"} {
			if !w.said(line) {
				t.Errorf("no line with %q in %v", line, w.gw.Record().Lines)
			}
		}
		err = filepath.WalkDir(w.cfg.Dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if strings.Contains(string(b), "c4nary") {
				t.Errorf("%s has a secret in it", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAJobDoesNotBeginWithoutItsSecrets(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*events.JoinReply)
		says  string
	}{
		{"they did not come", func(j *events.JoinReply) { j.Secrets = nil }, "did not come"},
		{"one is missing", func(j *events.JoinReply) { j.Spec.Secrets = append(j.Spec.Secrets, "OTHER") }, `"OTHER" did not come`},
		{"they are another job's", func(j *events.JoinReply) {
			j.Secrets.Box = bytes.Replace(j.Secrets.Box, []byte(job), []byte("01jother"), 1)
		}, "not the secrets of job"},
		{"they are noise", func(j *events.JoinReply) { j.Secrets.Box = []byte("c4nary") }, "are no secrets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world, j *events.JoinReply) {
				withSecrets(t, j, "A", "c4nary-1")
				tc.spoil(j)
				w.start()
				w.until("the agent ends", w.over)
				if w.err == nil || !strings.Contains(w.err.Error(), tc.says) || strings.Contains(w.err.Error(), "c4nary") {
					t.Errorf("Run = %v, want %q", w.err, tc.says)
				}
				if len(w.machine.Started()) != 0 {
					t.Error("it began")
				}
			})
		})
	}
}

func TestHooksRunBesideTheTrainerForAsLongAsTheNoticeLasts(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.OnNotice = []events.Hook{{Run: "push", TimeoutS: 300}, {Run: "hang", TimeoutS: 5}, {Run: "hang"}, {Run: "never"}}
		var ran []string
		hook := func(name string, d time.Duration) func(*agenttest.Running) agent.Exit {
			return func(r *agenttest.Running) agent.Exit {
				ran = append(ran, name)
				fmt.Fprintf(r.Stdout, "%s in epoch %s\n", name, r.Getenv("SPOTFERRY_EPOCH"))
				select {
				case <-time.After(d):
					return agent.Exit{}
				case <-r.Ctx.Done():
					return agent.Exit{Code: -1, Signal: "SIGKILL"}
				}
			}
		}
		w.machine.Programs["hook-1.sh"] = hook("first", 2*time.Second)
		w.machine.Programs["hook-2.sh"] = hook("second", time.Hour)
		w.machine.Programs["hook-3.sh"] = hook("third", time.Hour)
		w.boot()
		w.sleep(50 * time.Second)
		w.seller.Warn(30 * time.Second)
		w.sleep(time.Second)
		w.seller.Warn(29 * time.Second) // the same notice: its hooks are not run again
		w.sleep(40 * time.Second)
		w.equal("hooks", strings.Join(ran, " "), "first second third")
		for _, line := range []string{"first in epoch 1", "hook 1 ended with code 0 after 2s", "hook 2 was killed: it had 5s", "hook 3 was killed", "hook 4 is not run"} {
			if !w.said(line) {
				t.Errorf("nobody said %q", line)
			}
		}
		if !w.lastCommit().Final {
			t.Error("the hooks kept the last checkpoint from being committed")
		}
		script, err := os.ReadFile(filepath.Join(w.cfg.Dir, "hook-1.sh"))
		if err != nil || string(script) != "push" {
			t.Errorf("the script is %q, %v", script, err)
		}
	})
}

// put stores a tar of one file and returns it.
func put(t *testing.T, w *world, name, content string) events.Archive {
	t.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	sum := blake3.Sum256(b.Bytes())
	hash := hex.EncodeToString(sum[:])
	a := events.Archive{Object: "v1/acme/workdirs/" + hash[:2] + "/" + hash + ".tar", Hash: hash, Bytes: int64(b.Len())}
	if err := w.store.Put(context.Background(), a.Object, bytes.NewReader(b.Bytes()), a.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestFileMountsAreThereBeforeSetup(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Setup = "look"
		j.Spec.Mounts = []events.Mount{
			{Path: "~/in/deep", Archive: put(t, w, "a.json", "1")}, {Path: "~", Archive: put(t, w, "b.json", "2")},
			{Path: ".", Archive: put(t, w, "c.json", "3")}, {Path: "conf", Archive: put(t, w, "d.json", "4")},
		}
		var seen []string
		w.machine.Programs["setup.sh"] = func(r *agenttest.Running) agent.Exit {
			for _, path := range []string{r.Getenv("HOME") + "/in/deep/a.json", r.Getenv("HOME") + "/b.json", r.Dir + "/c.json", r.Getenv("HOME") + "/sky_workdir/conf/d.json"} {
				b, err := os.ReadFile(path)
				seen = append(seen, fmt.Sprint(string(b), err))
			}
			return agent.Exit{}
		}
		w.boot()
		w.equal("what setup saw", seen, "[1<nil> 2<nil> 3<nil> 4<nil>]")
		w.until("training", w.running)
	})
}

func TestAMountThatLeadsOutEndsTheJob(t *testing.T) {
	for _, path := range []string{"../x", "~/../../x", "/etc/x", "~root"} {
		t.Run(path, func(t *testing.T) {
			inWorld(t, func(w *world, j *events.JoinReply) {
				j.Spec.Mounts = []events.Mount{{Path: path, Archive: put(t, w, "evil", "x")}}
				w.boot()
				if path == "~root" { // a name like any other, below the working directory
					w.until("training", w.running)
					return
				}
				w.until("the end is told", func() bool { return len(w.gw.Record().Dones) == 1 })
				if d := w.gw.Record().Dones[0]; d.Code != 1 || !strings.Contains(d.Reason, "leads out") {
					t.Errorf("done %+v", d)
				}
			})
		})
	}
}
