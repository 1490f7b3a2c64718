package jobfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// fakeInfo is what stat says of what shapes mount.
type fakeInfo struct{ dir bool }

func (fakeInfo) Name() string       { return "" }
func (fakeInfo) Size() int64        { return 0 }
func (f fakeInfo) IsDir() bool      { return f.dir }
func (fakeInfo) ModTime() time.Time { return time.Time{} }
func (fakeInfo) Sys() any           { return nil }
func (f fakeInfo) Mode() fs.FileMode {
	if f.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// stat finds files where names have an extension, and directories elsewhere.
func stat(path string) (fs.FileInfo, error) {
	return fakeInfo{!strings.Contains(path[strings.LastIndexByte(path, '/')+1:], ".")}, nil
}

// Public task files of SkyPilot's users and its own examples, by what they ask
// for: the keys, their order and their kinds are those of the file named; names,
// commands and values are not. Each is read as it is, with a budget from the
// command line, and either understood as said, or refused exactly where said.
// ^ in a line marks a refusal's place, and is removed.
func TestShapesOfPublicTaskFiles(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from    string // repository and path
		src     string
		env     string                   // given with --env and --secret, NAME=VALUE
		want    func(events.JobSpec) any // what is looked at of an accepted file
		is      string
		refused []string // message of each refusal, in the order of ^
		warned  []string // fields
	}{
		{from: "skypilot-org/skypilot examples/disk_size.yaml",
			src:  "# one machine with a large disk\nname: tiny\n\nresources:\n  infra: azure\n  disk_size: 512\n\nsetup: |\n  lsblk\n\nrun: |\n  df\n",
			want: func(s events.JobSpec) any { return s.Resources }, is: "{[] 0 0 512  [{azure  }] 0.000000000}"},
		{from: "amudide/REPA sky.yaml",
			src:     "^resources:\n  cloud: runpod\n  accelerators: A100-80GB-SXM:1\n\nworkdir: .\n\nsetup: |\n  pip install -r needs.txt\n\n#run: |\n#  echo later\n",
			refused: []string{"run is missing"}},
		{from: "artidoro/qlora examples/skypilot/qlora.yaml",
			src: "name: adapter\n\nresources:\n  accelerators: A100:4\n\n  disk_size: 100\n  disk_tier: 'high'\n\nnum_nodes: 1\n\n#file_mounts:\n  # /data: ./x\n\nsetup: |\n\n  conda create -n a python=$PYTHON -y\n\nrun: |\n\n  torchrun --nnodes=`echo \"$SKYPILOT_NODE_IPS\" | wc -l` --run_name $SKYPILOT_JOB_ID tune.py\n\n" +
				"envs:\n  PYTHON: \"3.10\"\n  CUDA_MAJOR: \"12\"\n  MODEL_NAME: some/model\n\n  BITS: 4\n  BATCH: 1\n  STEPS: 16 # more for less memory\n\n",
			want: func(s events.JobSpec) any { return s.Envs }, is: "map[BATCH:1 BITS:4 CUDA_MAJOR:12 MODEL_NAME:some/model PYTHON:3.10 STEPS:16]",
			warned: []string{"resources.disk_tier"}},
		{from: "BABYZ3US/mbrl-apparatus sky.yaml",
			src: "name: world-model\n\nresources:\n  accelerators: {A100:1, L4:1}   # either\n  use_spot: true\n  disk_size: 64\n\nworkdir: .\n\nenvs:\n  WANDB_API_KEY: \"\"\n  EXP: ladder\n  SEED: \"0\"\n\n" +
				"setup: |\n  pip install -e \".[x]\"\n\nrun: |\n  python scripts/fit.py \\\n    +experiment=$EXP seed=$SEED\n",
			want: func(s events.JobSpec) any { return fmt.Sprint(s.Resources.Accelerators, s.Policy.Spot.Mode, s.Envs) },
			is:   "[{A100 1} {L4 1}]spotmap[EXP:ladder SEED:0 WANDB_API_KEY:]"},
		{from: "skypilot-org/skypilot examples/distributed-pytorch/train.yaml",
			src:     "name: ddp\n\nresources:\n    cpus: 4+\n    accelerators: L4\n\nnum_nodes: ^2\n\nsetup: |\n    pip install torch\n\nrun: |\n    torchrun --nnodes=$SKYPILOT_NUM_NODES main.py || exit 1\n",
			refused: []string{"machines are not bought in gangs"}},
		{from: "skypilot-org/skypilot llm/axolotl/axolotl-docker.yaml",
			src:  "name: tune\n\nresources:\n  accelerators: L4:1\n  cloud: gcp # optional\n\nworkdir: code\n\nsetup: |\n  docker pull some/image:tag\n\nrun: |\n  docker run --gpus all -v ~/sky_workdir:/sky_workdir some/image:tag tune --token ${HF_TOKEN}\n\nenvs:\n  HF_TOKEN: # your own, or --env\n",
			env:  "HF_TOKEN:c4nary",
			want: func(s events.JobSpec) any { return fmt.Sprint(s.Resources.Places, s.Envs, s.Secrets) }, is: "[{gcp  }] map[] [HF_TOKEN]"},
		{from: "skypilot-org/skypilot llm/axolotl/axolotl-spot.yaml",
			src: "name: tune\n\nresources:\n  accelerators: A100:1\n  cloud: gcp # optional\n  use_spot: True\n  ^image_id: docker:some/image:main-py3.10\n\nworkdir: code\n\nfile_mounts:\n  ^/notebook:\n    name: ${BUCKET}\n    mode: MOUNT\n\nrun: |\n  tune x.yaml\n\n" +
				"envs:\n  ^HF_TOKEN: # your own\n  ^BUCKET: # your own\n",
			refused: []string{"no image is started", "mounts a bucket", `"HF_TOKEN" has no value`, `"BUCKET" has no value`}},
		{from: "skypilot-org/skypilot llm/gpt-2/gpt2-train.yaml",
			src:     "name: fit\n\n\nresources:\n  accelerators: A100:8\n  any_of:\n    - cloud: gcp\n      # another image there\n      ^image_id: projects/x/global/images/y\n    - cloud: aws\n    - cloud: azure\n    - cloud: ^kubernetes\n\nfile_mounts:\n  ~/.cache/data: gs://some-bucket\n\nsetup: |\n  make\n\n\nrun: |\n  mpirun -np $SKYPILOT_NUM_GPUS_PER_NODE ./fit\n",
			refused: []string{`not in "image_id"`, "a cluster that is yours"}},
		{from: "skypilot-org/skypilot llm/gpt-2/gpt2-pipeline.yaml",
			src:     "name: data\n\nresources:\n  cpus: 64+\n\nrun: |\n  python prepare.py\n\n^---\n\nname: fit\n\nresources:\n  accelerators: A100:1\n\nrun: |\n  ./fit\n",
			refused: []string{"a second document begins here"}},
		{from: "skypilot-org/skypilot llm/gpt-oss-finetuning/gpt-oss-20b-lora.yaml",
			src: "resources:\n  accelerators: H100:2\n  disk_size: 512\n  network_tier: best\n\nfile_mounts:\n  ^/sft: ./sft\n  # /checkpoints:\n  #   source: s3://mine\n\nenvs:\n  WANDB_PROJECT: a-project\n  WANDB_RESUME: allow\n  WANDB_API_KEY: \"\" # optional\n\nnum_nodes: 1\n\nsetup: |\n  uv venv ~/training\n\n" +
				"run: |\n  export WANDB_RUN_ID=$SKYPILOT_TASK_ID\n  python /sft/fit.py --resume_from_checkpoint\n\n  ",
			refused: []string{`"/sft" is outside the job's own directories`}},
		{from: "skypilot-org/skypilot llm/gpt-oss-finetuning/gpt-oss-20b-lora.yaml, as the refusal says",
			src:  "resources:\n  accelerators: H100:2\n  disk_size: 512\n  network_tier: best\n\nfile_mounts:\n  ~/sft: ./sft\n\nenvs:\n  WANDB_PROJECT: a-project\n  WANDB_RESUME: allow\n  WANDB_API_KEY: \"\" # optional\n\nnum_nodes: 1\n\nrun: |\n  export WANDB_RUN_ID=$SKYPILOT_TASK_ID\n  python ~/sft/fit.py --resume_from_checkpoint\n",
			want: func(s events.JobSpec) any { return fmt.Sprint(s.Resources.Accelerators, s.Resources.DiskGB, s.Envs) },
			is:   "[{H100 2}] 512 map[WANDB_API_KEY: WANDB_PROJECT:a-project WANDB_RESUME:allow]", warned: []string{"resources.network_tier"}},
		{from: "skypilot-org/skypilot llm/llama-3_1-finetuning/lora.yaml",
			src: "# usage: HF_TOKEN=x sky launch\n\nenvs:\n  MODEL_SIZE: 8B\n  HF_TOKEN:\n  DATASET: \"some/set\"\n  BUCKET: my-checkpoints\n\n\nresources:\n  accelerators: A100:8\n  disk_tier: best\n  use_spot: true\n\nfile_mounts:\n  ~/configs: ./configs\n  ^~/output:\n    name: $BUCKET\n    mode: MOUNT\n    # store: r2\n\nsetup: |\n  tune download $MODEL_SIZE\n\nrun: |\n  tune run --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE\n",
			env: "HF_TOKEN:c4nary", refused: []string{"mounts a bucket"}},
		{from: "skypilot-org/skypilot llm/llama-4-finetuning/llama-4-maverick-lora.yaml",
			src:     "envs:\n  HF_TOKEN: \n\nresources:\n  infra: ^k8s\n  cpus: 100+\n  memory: 1000+\n  accelerators: H100:8\n  disk_tier: best\n  network_tier: best\n\nnum_nodes: ^2\n\nfile_mounts:\n  ~/configs: ./configs\n\nrun: |\n  NNODES=$SKYPILOT_NUM_NODES fit\n",
			env:     "HF_TOKEN=short",
			refused: []string{"a cluster that is yours", "not bought in gangs"}},
		{from: "skypilot-org/skypilot llm/falcon/falcon.yaml",
			src:  "resources:\n  accelerators: A100-80GB:1\n  disk_size: 1000\n  disk_tier: best\n\nworkdir: .\n\nenvs:\n  MODEL_NAME: some/model # [one, other]\n  OUT: # a unique name\nsecrets:\n  WANDB_API_KEY: null # with --secret\n\nsetup: |\n  pip install -q x\n\nrun: |\n  wandb login $WANDB_API_KEY\n  python fit.py --model_name $MODEL_NAME --output_dir ~/results\n",
			env:  "OUT=mine WANDB_API_KEY:c4nary",
			want: func(s events.JobSpec) any { return fmt.Sprint(s.Secrets, s.Envs) },
			is:   "[WANDB_API_KEY] map[MODEL_NAME:some/model OUT:mine]", warned: []string{"resources.disk_tier"}},
		{from: "skypilot-org/skypilot llm/vicuna/train.yaml",
			src:     "resources:\n  accelerators: A100-80GB:8\n  disk_size: 1000\n  use_spot: true\n  # since some version\n  disk_tier: high\n\nnum_nodes: 1\n\nfile_mounts:\n  ^~/artifacts:\n    name: YOUR_OWN\n    mode: MOUNT\n  ~/data/mine.json: ./dummy.json\n\nrun: |\n  torchrun fit.py\n\n\nenvs:\n  MODEL_SIZE: 7\n  SEQ_LEN: 2048\n  USE_FLASH: 0\n  WANDB_API_KEY: \"\"\n",
			refused: []string{"mounts a bucket"}},
		{from: "skypilot-org/skypilot llm/gemma/finetune-lora.yaml",
			src:  "resources:\n  cloud: gcp\n  accelerators: {L4, A10g, A10, L40, A40, A100, A100-80GB}\n  disk_tier: best\n\nenvs:\n  HF_TOKEN: <your-token> # change it\n  WANDB_API_KEY: \"\"\n\nworkdir: ./scripts\n\nrun: |\n  torchrun --master_addr=`echo \"$SKYPILOT_NODE_IPS\" | head -n1` lora.py\n",
			want: func(s events.JobSpec) any { return s.Resources.Accelerators },
			is:   "[{L4 1} {A10g 1} {A10 1} {L40 1} {A40 1} {A100 1} {A100-80GB 1}]", warned: []string{"resources.disk_tier", "envs"}},
		{from: "skypilot-org/skypilot examples/cosmos3-finetuning/cosmos3_nano_finetune.yaml",
			src:     "name: world\n\nresources:\n  # Ampere or newer\n  accelerators: {H100:8, H200:8}\n  ^image_id: docker:nvcr.io/nvidia/pytorch:25.09-py3\n  disk_size: 1000\n\nnum_nodes: 1\n\nenvs:\n  REF: 411d25b2e35bc441  # pinned\n  MAX_ITER: \"500\"          # steps\n\nsecrets:\n  # public, so empty by default\n  HF_TOKEN: \"\"\n\nrun: |\n  set -e\n  bash fit.sh\n",
			refused: []string{"no image is started"}},
		{from: "skypilot-org/skypilot llm/llama-3/llama3.yaml",
			src:     "envs:\n  MODEL_NAME: some/model\n  HF_TOKEN: <your-token>\n\n^service:\n  replicas: 2\n  readiness_probe:\n    path: /v1\n    post_data:\n      model: $MODEL_NAME\n\nresources:\n  accelerators: {L4:8, A10g:8, A100-80GB:2, A100-80GB:4}\n  cpus: 32+\n  use_spot: True\n  disk_size: 512\n  disk_tier: best\n  ^ports: 8081\n\nrun: |\n  serve\n",
			refused: []string{"jobs that come to an end", "never reached from outside"}},
		{from: "skypilot-org/skypilot examples/managed_job_with_storage.yaml",
			src:     "resources:\n  cloud: aws\n  use_spot: true\n  job_recovery: failover\n\nworkdir: ./examples\n\nfile_mounts:\n  ~/bucket_workdir:\n    # your own\n    name: sky-workdir-mine\n    source: ./examples\n    persistent: false\n    mode: COPY\n  ^/images:\n    source: s3://some-data\n\n  # folders\n  ^/tmp/workdir: ~/tmp-workdir\n\n  # files\n  ~/tmpfile.txt: ~/tmpfile.txt\n  ~/a/b/c/tmpfile.txt: ~/tmpfile.txt\n\nrun: |\n  set -ex\n  ls ~/sky_workdir\n",
			refused: []string{`"/images" is outside`, `"/tmp/workdir" is outside`}},
		{from: "skypilot-org/skypilot examples/elastic_training/job.yaml",
			src:     "^# a group of two\n---\nname: elastic\n^execution: parallel\n^primary_tasks:\n  - controller\n",
			refused: []string{"run is missing", `no key "execution"`, `no key "primary_tasks"`}},
		{from: "skypilot-org/skypilot examples/elastic_training/job.yaml, its first task",
			src:     "name: controller\n\nresources:\n  infra: ^kubernetes\n  cpus: 1\n  job_recovery:\n    strategy: ^DYNAMIC_NODE_SET\n    ^min_nodes: 1\n\nenvs:\n  TOTAL_EPOCHS: 200\n\nworkdir:\n  url: https://github.com/some/code.git\n  ref: a-branch\n\nrun: |\n  cd x && python controller.py\n",
			refused: []string{"a cluster that is yours", "strategy is", `no key "min_nodes"`}},
		{from: "skypilot-org/skypilot examples/multi_resources.yaml",
			src:     "name: several\n\nresources:\n  cloud: gcp\n  region: ^[us-west1, asia-east1]\n  accelerators: ['A100-40GB:1', 'K80:1', 'V100:1', 'T4:1']\n  # accelerators: {'A100-40GB': 1}\n\nrun: |\n  nvidia-smi\n",
			refused: []string{"resources.region is a list"}},
		{from: "livekit/livekit-wakeword skypilot/train.yaml",
			src:     "name: wake\n\nresources:\n  cloud: nebius\n  accelerators: L40S:1\n  cpus: 8+\n  memory: 32+\n  disk_size: 500\n  autostop:\n    idle_minutes: 10\n    down: false\n\nworkdir: .\n\nfile_mounts:\n  ~/outputs:\n    source: ^nebius://models\n    mode: MOUNT\n\nrun: |\n  uv run fit configs/${CONFIG_FILE}\n\nenvs:\n  CONFIG_FILE: prod.yaml\n  DATA_DIR: ~/persistent/data\n",
			refused: []string{"comes from nebius://"}},
		{from: "m2lines/Samudra train.sky.yaml",
			src: "resources:\n  # optional\n  cloud: lambda\n  accelerators: A100:8\n  disk_tier: best\n#  disk_size: 1_000 # in GiBs\n\nenvs:\n  # secrets\n  WANDB_API_KEY: null  # --env\n  ^CONFIG: null\n  BUCKET: outputs\n  DATA_CONFIG: configs/data.yaml\n\nfile_mounts:\n  ~/data:\n    source: ^s3://${BUCKET}/${ROOT}\n    mode: COPY\n\nworkdir: .\n\nrun: |\n  uv run torchrun --standalone -m fit ${CONFIG}",
			env: "WANDB_API_KEY=", refused: []string{`"CONFIG" has no value`, "variables are not filled in"}},
		{from: "g1ibby/esp-noise-detect sky.yaml",
			src: "name: noise\n\nenvs:\n  # no default\n  RECORDINGS_PATH:\n\nresources:\n  infra: runpod\n  use_spot: true            # fine\n  disk_size: 60             # GB\n  any_of:\n    - accelerators: RTX4090:1           # cheap\n    - accelerators: RTXPRO4500:1        # cheaper\n    - accelerators: A100-80GB-SXM:1     # last resort\n\nworkdir: .\n\nfile_mounts:\n  ~/data:\n    name: dataset\n    source: ^${RECORDINGS_PATH}\n    store: r2\n    mode: COPY\n    persistent: true\n\nrun: |\n  cargo run --bin fit\n",
			env: "RECORDINGS_PATH=/x", refused: []string{"variables are not filled in"}},
		{from: "minivess-mlops/minivess-mlops, a RunPod task of its planning pages",
			src:     "name: vessels\n\nresources:\n  accelerators: A100-80GB:1\n  use_spot: true\n  disk_size: 100\n\n  any_of:\n    - ^cloud: runpod\n      accelerators: A100-80GB:1\n    - cloud: gcp\n      accelerators: A100-80GB:1\n      use_spot: true\n    - cloud: aws\n      accelerators: A100:1\n      use_spot: true\n  job_recovery:\n    strategy: FAILOVER\n    max_restarts_on_errors: 3\n\nrun: |\n  python fit.py\n",
			refused: []string{"tie accelerators, places or use_spot"}},
		{from: "SkyPilot's documentation, managed jobs and lifecycle hooks",
			src: "name: resilient\n\nresources:\n  accelerators: A100:8\n  use_spot: true\n  job_recovery:\n    strategy: EAGER_NEXT_REGION\n    max_restarts_on_errors: 3\n    recover_on_exit_codes: [33, 34]\n\nconfig:\n  hooks:\n    - run: |\n        git push\n      events: [preemption]\n      timeout: 60\n\nrun: |\n  python fit.py\n",
			want: func(s events.JobSpec) any {
				return fmt.Sprintf("%v %d %+v", s.Policy.RestartOnExit, s.Policy.MaxRestarts, s.OnNotice)
			},
			is: "[33 34] 3 [{Run:git push\n TimeoutS:60}]"},
		{from: "reeceomahoney/distal sky.yaml",
			src:     "resources:\n  infra: ^slurm/htc/short\n  accelerators: L40S:1\n  cpus: 16\n  memory: 128\n\nworkdir: .\n\nenvs:\n  WANDB_API_KEY: ${WANDB_API_KEY}\n\nrun: |\n  singularity run x.sif fit.py\n",
			refused: []string{"a cluster that is yours"}},
		{from: "mingye-eigenai/DiffSynth-Studio skypilot.yaml",
			src:     "name: images\nconfig:\n  ^kubernetes:\n    pod_config:\n      spec:\n        containers:\n          - volumeMounts:\n              - mountPath: /shared\n                name: nfs\n\nresources:\n  cloud: ^kubernetes  # or another\n  accelerators: H100:8\n  cpus: 32+\n  memory: 256+\n\nenvs:\n  NUM_EPOCHS: \"5\"\n  LEARNING_RATE: \"1e-4\"\n  CUDA_VISIBLE_DEVICES: \"0,1,2,3,4,5,6,7\"\n\nrun: |\n  accelerate launch fit.py\n",
			refused: []string{"SkyPilot's own clusters", "a cluster that is yours"}},
	} {
		t.Run(tc.from, func(t *testing.T) {
			t.Parallel()
			src, places := marked(tc.src)
			opt := Options{Now: now, Budget: "$50", Dir: "/here", Home: "/home/ann", Stat: stat, Env: map[string]string{}, Secrets: map[string]events.Secret{}}
			for _, given := range strings.Fields(tc.env) {
				if name, value, ok := strings.Cut(given, "="); ok {
					opt.Env[name] = value
				} else if name, value, ok := strings.Cut(given, ":"); ok {
					opt.Secrets[name] = events.NewSecret(value)
				}
			}
			j, err := Read("task.yaml", []byte(src), opt)
			var refusal *Error
			if errors.As(err, &refusal) != (tc.refused != nil) {
				t.Fatalf("Read = %v; want refusals %q", err, tc.refused)
			}
			if refusal != nil {
				sameProblems(t, refusal.Problems, places, tc.refused)
				return
			}
			if got := fmt.Sprint(tc.want(j.Spec)); got != tc.is {
				t.Errorf("read as\n%s\nwant\n%s", got, tc.is)
			}
			var warned []string
			for _, w := range j.Warnings {
				if w.Severity == Warning {
					warned = append(warned, w.Field)
				}
			}
			if strings.Join(warned, " ") != strings.Join(tc.warned, " ") {
				t.Errorf("warned about %q, want %q", warned, tc.warned)
			}
		})
	}
}

// marked removes every ^ and returns where they stood.
func marked(src string) (string, []place) {
	var out strings.Builder
	var places []place
	at := place{1, 1}
	for _, c := range src {
		if c == '^' {
			places = append(places, at)
			continue
		}
		out.WriteRune(c)
		at.col++
		if c == '\n' {
			at = place{at.line + 1, 1}
		}
	}
	return out.String(), places
}

func sameProblems(t *testing.T, got []Problem, places []place, messages []string) {
	t.Helper()
	if len(got) != len(messages) || len(places) != len(messages) {
		t.Fatalf("%d problems, want %d at %d places:\n%v", len(got), len(messages), len(places), (&Error{Problems: got}).Error())
	}
	for i, p := range got {
		if p.Line != places[i].line || p.Col != places[i].col || !strings.Contains(p.Message, messages[i]) || p.Remedy == "" {
			t.Errorf("problem %d is\n%v\nwant %q at %d:%d, with a remedy", i, p, messages[i], places[i].line, places[i].col)
		}
	}
}
