package jobfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/events"
)

const dstackTask = `type: task
name: trl-sft
python: 3.12
image: some/image:tag
env:
  - HF_TOKEN
  - WANDB_API_KEY=9canary8canary7canary6canary5canary4
  - VERSION=1.10
  - CONFIG
commands:
  - uv pip install trl
  - |
    train \
      --num_processes $DSTACK_GPUS_PER_NODE
ports:
  - 8501
files:
  - ~/conf/a.json:/root/conf/a.json
  - ../data
resources:
  cpu: 16..32
  memory: 200GB..
  gpu: A100,H100:80GB:1..2
  shm_size: 24GB
  disk: 500GB
backends: [aws, gcp]
regions: [us-east-1]
spot_policy: auto
max_price: 2.5
max_duration: 2d
retry:
  on_events: [interruption, error]
  duration: 1d
tags:
  team: nlp
`

func TestADstackTaskBecomesAJobFile(t *testing.T) {
	t.Parallel()
	out, problems, err := FromDstack("task.dstack.yml", []byte(dstackTask))
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Now: now, Home: "/home/ann", Env: map[string]string{"CONFIG": "c"}, Secrets: map[string]events.Secret{
		"HF_TOKEN": events.NewSecret("a"), "WANDB_API_KEY": events.NewSecret("b")}}
	j, err := Read("job.yaml", []byte(out), opt)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, out)
	}
	s := j.Spec
	for _, c := range []struct{ what, got, want string }{
		{"name", s.Name, "trl-sft"},
		{"run", s.Run, "set -e\nexport DSTACK_GPUS_PER_NODE=$SKYPILOT_NUM_GPUS_PER_NODE\nuv pip install trl\ntrain \\\n  --num_processes $DSTACK_GPUS_PER_NODE\n"},
		{"envs", fmt.Sprint(s.Envs), "map[CONFIG:c VERSION:1.10]"},
		{"secrets", fmt.Sprint(s.Secrets), "[HF_TOKEN WANDB_API_KEY]"},
		{"mounts", fmt.Sprint(j.Mounts), "[{~/conf/a.json /home/ann/conf/a.json  } {data ../data  }]"},
		{"accelerators", fmt.Sprint(s.Resources.Accelerators), "[{A100-80GB 1} {A100-80GB 2} {H100 1} {H100 2}]"},
		{"machine", fmt.Sprint(s.Resources.VCPU, s.Resources.RAMMiB, s.Resources.DiskGB), "16 204800 500"},
		{"places", fmt.Sprint(s.Resources.Places), "[{aws us-east-1 } {gcp us-east-1 }]"},
		{"labels", fmt.Sprint(j.Labels), "map[team:nlp]"},
		{"policy", fmt.Sprint(s.Policy.Budget.Dollars(), s.Policy.MaxDurationS, s.Policy.Spot.Mode, s.Policy.MaxRestarts), "$120.00172800auto3"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.what, c.got, c.want)
		}
	}
	said := out
	for _, p := range problems {
		said += p.String()
		if p.Severity != Warning || p.Line == 0 {
			t.Errorf("%v is a %s", p, p.Severity)
		}
	}
	if strings.Contains(said, "canary") {
		t.Errorf("a credential is shown:\n%s", said)
	}
	for _, lost := range []string{"python", "image", "ports", "shm_size", "up to 32", "retry.duration", "H100"} {
		if !strings.Contains(out, lost) {
			t.Errorf("nothing is said of %s:\n%s", lost, out)
		}
	}
}

func TestWhatDstackDoesNotSayIsNotMadeUp(t *testing.T) {
	t.Parallel()
	out, problems, err := FromDstack("t.yml", []byte("type: task\ncommands: [train]\nresources: {gpu: 24GB}\nvolumes: [a:/b]\nfrobnicate: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 3 {
		t.Errorf("problems are %v", problems)
	}
	_, err = read(out)
	ps := refusals(t, err)
	if len(ps) != 2 || !strings.Contains(ps[0].Message, `accelerator "?"`) || !strings.Contains(ps[1].Message, `budget is "?"`) {
		t.Errorf("read as it is: %v\n%s", err, out)
	}
	if !strings.Contains(out, "policy: on-demand} # dstack's default") {
		t.Errorf("spot policy is not dstack's:\n%s", out)
	}
}

func TestDstackGPUs(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"A100": "[A100:1]", "A100:2": "[A100:2]", "nvidia:A100:80GB:2": "[A100-80GB:2]", "A10G,L4": "[A10G:1 L4:1]",
		"H100:1..2": "[H100:1 H100:2]", "{name: [A100, H100], count: 8}": "[A100:8 H100:8]", "{name: V100, memory: 32GB, count: 1..}": "[V100-32GB:1]",
		"2": "[?]", "40GB..80GB:4": "[?]", "{memory: 24GB}": "[?]",
	} {
		d := &dstack{reader: newReader("x", []byte("type: task\ncommands: [x]\nresources:\n  gpu: "+spec+"\n"), Options{}), drop: dropped()}
		d.read(d.document())
		if got := fmt.Sprint(d.gpus); got != want {
			t.Errorf("%s is %s, want %s", spec, got, want)
		}
	}
}

func TestWhatIsNoDstackTaskIsRefused(t *testing.T) {
	t.Parallel()
	for src, message := range map[string]string{
		"type: service\ncommands: [x]\n": `type is "service"`, "run: x\n": "type is missing", "type: task\nimage: x\n": "commands is missing",
		"": "empty", "- a\n": "a list", "type: task\ncommands: [x]\nresources: big\n": "resources is", "type: [task]\ncommands: [x]\n": "type is a list",
		"type: task\ncommands: {a: b}\n": "a mapping", "type: task\ncommands: [x]\nspot_policy: cheap\n": "spot_policy is",
	} {
		out, _, err := FromDstack("t.yml", []byte(src))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), message) || out != "" {
			t.Errorf("%q: %v, want %q", src, err, message)
		}
	}
}
