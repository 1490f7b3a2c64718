package jobfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each case is a file that says run and policy.budget, with one line that is
// wrong; ^ in it marks where the problem must be placed (and is removed).
func TestRefusalsNamePlaceReasonAndRemedy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, line      string
		message, remedy string
	}{
		{"a misspelt key", "^nmae: x", `no key "nmae" in a job file`, "did you mean name?"},
		{"a key with neighbours swapped", "resources:\n  ^accelerator: V100", `no key "accelerator" in resources`, "did you mean accelerators?"},
		{"a key at the wrong level", "^accelerators: V100", "no key", "did you mean resources.accelerators? It stands below resources"},
		{"a key that nobody knows", "resources: {^frobnicate: 1}", "no key", "the keys here are accelerators, any_of"},
		{"a path instead of a key", "^resources.cpus: 8", "no key", "remove it"},
		{"a key of SkyPilot's own", "resources: {^_is_image_managed: true}", "no key", "SkyPilot's own"},
		{"a key that stands twice", "setup: a\n^setup: b", `"setup" stands twice, first on line 3`, "keep one"},
		{"a list as a key", "resources: {? ^[a, b] : c}", "a list as a key", "plain key"},
		{"a mount of what nobody fetches", "file_mounts: {~/data: ^az://container/x}", "comes from az://, which machines do not fetch by themselves", "fetch it in setup: azcopy"},
		{"a mount of a bucket without a name", "file_mounts: {~/data: ^s3://}", "is no bucket's name", "s3://BUCKET/PREFIX"},
		{"a mount of an address without a file", "file_mounts: {~/data: ^https://example.org/}", "names no file", "one file"},
		{"a mount that anybody may change", "file_mounts: {~/data: ^http://example.org/x}", "anybody on the way", "#sha256=HEX"},
		{"a mount with a password", "file_mounts: {~/data: ^https://u:p@example.org/x}", "no place for one", "secret"},
		{"a mount of no model", "file_mounts: {~/data: ^hf://gpt2}", "names no model", "hf://OWNER/NAME"},
		{"a mount of a bucket from a variable", "file_mounts: {~/data: ^s3://$BUCKET/x}", "variables are not filled in", "write it out"},
		{"a mount outside the job's directories", "file_mounts: {^/data: ./data}", `"/data" is outside`, "write ~/data here and in run"},
		{"a mount that climbs out of the home directory", "file_mounts: {^~/../x: ./data}", "leads out", "~/data"},
		{"a mount that climbs out of the working directory", "file_mounts: {^a/../../x: ./data}", "leads out", "~/data"},
		{"a mount into another's home", "file_mounts: {^~root/x: ./data}", "leads out", "~/data"},
		{"a mount from a variable", "file_mounts: {~/data: ^$DATA/x}", "variables are not filled in", ""},
		{"a new bucket", "file_mounts:\n  ^~/out: {name: my-bucket, mode: MOUNT}", "mounts a bucket", "$SPOTFERRY_CHECKPOINT_DIR"},
		{"a bucket mounted", "file_mounts:\n  ~/out: {source: gs://my-bucket, mode: ^MOUNT_CACHED}", "a bucket is copied to the machine", "mode: COPY"},
		{"a mount in no known mode", "file_mounts:\n  ~/out: {source: ./x, mode: ^SHARE}", "mode is", "COPY"},
		{"a mount with a key nobody knows", "file_mounts:\n  ~/out: {source: ./x, ^sauce: y}", `no key "sauce"`, "source, mode"},
		{"a list of mounts", "file_mounts: ^[a, b]", "file_mounts is a list", ""},
		{"a secret without a value", "secrets: {^HF_TOKEN: null}", `"HF_TOKEN" has no value`, "--secret HF_TOKEN"},
		{"a list of secrets without values", "secrets: [^HF_TOKEN]", `"HF_TOKEN" has no value`, "--secret HF_TOKEN"},
		{"a secret that the agent sets", "secrets: {^SPOTFERRY_X: y}", "set by the agent", "another name"},
		{"a secret that is an environment variable too", "envs: {A: b}\nsecrets: {^A: c}", "an environment variable too", "secrets only"},
		{"a secret with no name", "secrets: {^a b: c}", "is not a name", ""},
		{"a variable that the agent sets", "envs: {^SKYPILOT_NODE_RANK: 1}", "set by the agent", ""},
		{"event callbacks", "^event_callback: curl x", "your shell in the control plane", "job events"},
		{"services", "^service: {replicas: 2}", "jobs that come to an end", ""},
		{"gangs", "num_nodes: ^2", "not bought in gangs", "num_nodes: 1"},
		{"no nodes", "num_nodes: ^0", "num_nodes is", "whole number from 1"},
		{"a workdir from a repository", "workdir: {url: ^git://x/y, ref: main}", "neither https nor ssh", "https://host"},
		{"a workdir that is a program for git", "workdir: {url: ^ext::sh -c id}", "no address", ""},
		{"a workdir from a file of git's", "workdir: {url: ^file:///etc}", "neither https nor ssh", ""},
		{"a workdir with a token in its address", "workdir: {url: ^https://tok3n@github.com/a/b}", "has a credential in it", "credential helper"},
		{"a workdir at an option of git's", "workdir: {url: https://x/y, ref: ^--upload-pack=id}", "workdir.ref is", "a branch"},
		{"a workdir whose ref climbs", "workdir: {url: https://x/y, ref: ^a..b}", "workdir.ref is", ""},
		{"a ref of nothing", "workdir: {ref: ^main}", "without workdir.url", ""},
		{"an empty command", "name: x\nsetup: ^[a]", "setup is a list", ""},
		{"a workdir with a variable", "workdir: ^$HOME/x", "variables are not filled in", ""},
		{"images", "resources: {^image_id: docker:nvcr.io/x}", "no image is started", "setup"},
		{"ports", "resources: {^ports: [8080]}", "never reached from outside", ""},
		{"clusters of one's own", "resources: {infra: ^k8s/ctx}", "cluster that is yours", "seller"},
		{"both ways to say where", "resources: {infra: aws, region: ^us-east-1}", "infra and region both", "keep infra"},
		{"both lists of alternatives", "resources: {any_of: [{infra: aws}], ordered: ^[{infra: gcp}]}", "any_of and ordered", "keep any_of"},
		{"alternatives in more than place and accelerator", "resources: {any_of: [{^cpus: 4}]}", `not in "cpus"`, "one job file for each"},
		{"accelerators tied to places", "resources: {any_of: [^{infra: aws, accelerators: V100}, {infra: gcp, accelerators: T4}]}", "tie accelerators, places or use_spot", ""},
		{"a TPU", "resources: {accelerators: ^tpu-v5e:1}", "is a TPU", ""},
		{"half an accelerator", "resources: {accelerators: {^V100: 0.5}}", "no usable count", "V100:1"},
		{"no accelerators", "resources: {accelerators: ^V100:0}", "no usable count", ""},
		{"memory by the CPU", "resources: {memory: ^4x}", "memory is", "32+"},
		{"a truth value that is none", "resources: {use_spot: ^maybe}", "use_spot is", "true or false"},
		{"a hook without a script", "config: {hooks: [^{events: [preemption]}]}", "has no run", ""},
		{"a hook on an event that is none", "config: {hooks: [{run: x, events: [^reboot]}]}", "events is", "preemption"},
		{"a hook with a key nobody knows", "config: {hooks: [{run: x, ^when: y}]}", `no key "when"`, "run, events, timeout"},
		{"a hook with a time that is none", "config: {hooks: [{run: x, timeout: ^0}]}", "timeout is", ""},
		{"restarts after success", "resources: {job_recovery: {recover_on_exit_codes: [3, ^0]}}", "0 is success", "from 1"},
		{"an exit code that is none", "resources: {job_recovery: {recover_on_exit_codes: ^256}}", "recover_on_exit_codes is", "255"},
		{"restarts without a number", "resources: {job_recovery: {max_restarts_on_errors: ^many}}", "max_restarts_on_errors is", ""},
		{"a strategy nobody knows", "resources: {job_recovery: ^DYNAMIC_NODE_SET}", "strategy is", "FAILOVER"},
		{"SkyPilot's own settings", "config: {^kubernetes: {pod_config: {}}}", "SkyPilot's own clusters", ""},
		{"a tag that makes objects", "setup: ^!!python/object:os.system x", "has the tag", "remove the tag"},
		{"a mapping for a value", "setup: ^{a: b}", "setup is a mapping", "one value"},
		{"a value for a mapping", "resources: ^V100", "resources is a single value", "indented"},
		{"a NUL in a command", "setup: ^\"a\\0b\"", "NUL", "remove"},
		{"a variable that is no name", "envs: {^A-B: x}", "is not a name", "letters"},
		{"a variable that the agent sets", "envs: {^SPOTFERRY_EPOCH: 3}", "set by the agent", ""},
		{"a credential in the environment", "envs: {^HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyz0123}", "looks like a credential", "--secret HF_TOKEN"},
		{"a list in the environment", "envs: {A: ^[1, 2]}", "envs.A is a list", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checkRefusal(t, minimal, tc.line, tc.message, tc.remedy)
		})
	}
}

func TestRefusalsInPolicy(t *testing.T) {
	t.Parallel()
	const head = "run: train\npolicy:\n"
	for _, tc := range []struct {
		name, line      string
		message, remedy string
	}{
		{"a budget of nothing", "  budget: ^0", "nothing can be bought", "budget: $120"},
		{"a budget of nothing, with cents", "  budget: ^$0.00", "nothing can be bought", ""},
		{"a negative budget", "  budget: ^-5", "nothing can be bought", ""},
		{"a budget that is not a number", "  budget: ^.nan", "not an amount", ""},
		{"an infinite budget", "  budget: ^.inf", "not an amount", ""},
		{"a budget with an exponent", "  budget: ^1e308", "not an amount", ""},
		{"a budget with separators", "  budget: ^1_000", "not an amount", ""},
		{"a budget with commas", "  budget: ^$1,000", "not an amount", ""},
		{"a budget in euros", "  budget: ^100 EUR", "in US dollars", ""},
		{"a budget with a euro sign", "  budget: ^€100", "in US dollars", ""},
		{"a budget finer than the books", "  budget: ^0.0000001", "not an amount", "six decimals"},
		{"a budget beyond int64", "  budget: ^99999999999999999999", "not an amount", ""},
		{"a budget of a country", "  budget: ^10000001", "the most is $10000000.00", "smaller"},
		{"a budget that is empty", "^  budget: ", "budget is missing", "budget: $120"},
		{"a deadline in the past", "  budget: 1\n  deadline: ^2030-01-31T11:59:59Z", "it is 2030-01-31T12:00:00Z now", ""},
		{"a deadline now", "  budget: 1\n  deadline: ^2030-01-31T12:00:00Z", "now", ""},
		{"a deadline in the year 9999", "  budget: 1\n  deadline: ^9999-12-31T23:59:59-23:59", "deadline is", "within a year"},
		{"a deadline without a zone", "  budget: 1\n  deadline: ^2030-03-31T02:30:00", "no time zone", "its zone"},
		{"a deadline in YAML's own way", "  budget: 1\n  deadline: ^2030-03-31 02:30:00", "no time zone", ""},
		{"a deadline without a time of day", "  budget: 1\n  deadline: ^2030-03-31", "no time zone, or no time of day", ""},
		{"a leap day in a common year", "  budget: 1\n  deadline: ^2031-02-29T00:00:00Z", "no time", ""},
		{"a leap second", "  budget: 1\n  deadline: ^2030-06-30T23:59:60Z", "no time", ""},
		{"a zone by name", "  budget: 1\n  deadline: ^2030-03-31 02:30 Europe/Berlin", "no time", "its zone"},
		{"a span without a plus", "  budget: 1\n  deadline: ^36h", "begins with +", ""},
		{"a span of nothing", "  budget: 1\n  deadline: ^+0h", "no time from now", ""},
		{"a span back", "  budget: 1\n  deadline: ^+-3h", "no time from now", ""},
		{"a span of 1:30", "  budget: 1\n  max_duration: ^1:30", "max_duration is", "with its unit"},
		{"a span of nothing at all", "  budget: 1\n  max_duration: ^0s", "max_duration is", "from 1s to 366d"},
		{"a span for ever", "  budget: 1\n  max_duration: ^999999999d", "max_duration is", ""},
		{"milliseconds", "  budget: 1\n  max_duration: ^1.0001s", "max_duration is", "whole seconds"},
		{"no interval", "  budget: 1\n  checkpoint: {interval: ^0s}", "interval is", "from 1s"},
		{"an interval past the deadline", "  budget: 1\n  deadline: +1h\n  checkpoint: {interval: ^2h}", "nothing would ever be saved", "more often"},
		{"a checkpoint directory outside", "  budget: 1\n  checkpoint: {dir: ^../x}", "checkpoint.dir is", "SPOTFERRY_CHECKPOINT_DIR"},
		{"a checkpoint directory at the root", "  budget: 1\n  checkpoint: {dir: ^/mnt/ckpt}", "checkpoint.dir is", ""},
		{"the job's own directory as checkpoint", "  budget: 1\n  checkpoint: {dir: ^.}", "checkpoint.dir is", ""},
		{"a signal that kills", "  budget: 1\n  checkpoint: {on_notice: {signal: ^SIGKILL}}", "no program can catch", "SIGUSR1"},
		{"a signal by number", "  budget: 1\n  checkpoint: {on_notice: {signal: ^10}}", "signal is", "SIGUSR1"},
		{"a framework nobody knows", "  budget: 1\n  checkpoint: {framework: ^jax}", "framework is", "auto, hf, plain"},
		{"a marker in a directory", "  budget: 1\n  checkpoint: {marker: ^a/b}", "marker is", "file"},
		{"no checkpoints kept", "  budget: 1\n  checkpoint: {keep: ^0}", "keep is", "from 1 to 1000"},
		{"a saving in fractions", "  budget: 1\n  spot: {min_saving: ^0.05}", "min_saving is", "5%"},
		{"a mode nobody knows", "  budget: 1\n  spot: {policy: ^cheap}", "policy.spot.policy is", "spot, auto, on-demand"},
		{"preferring a deadline without one", "  budget: 1\n  prefer: ^deadline", "there is none", "policy.deadline"},
		{"a continent", "  budget: 1\n  countries: [DE, ^EU]", "not a country", "[DE, FR"},
		{"a country by name", "  budget: 1\n  countries: [^Germany]", "two-letter", ""},
		{"steps in YAML 1.1", "  budget: 1\n  work: {steps: ^1_000}", "steps is", "digits only"},
		{"steps with an exponent", "  budget: 1\n  work: {steps: ^1e6}", "steps is", ""},
		{"hours without a unit", "  budget: 1\n  work: {hours_on: {V100: ^6.5}}", "hours_on.V100 is", "6.5h"},
		{"tokens that are no number", "  budget: 1\n  work: {tokens: ^many}", "tokens is", "300M"},
		{"a progress timeout of a blink", "  budget: 1\n  progress_timeout: ^1s", "progress_timeout is", "from 10s"},
		{"webhooks", "  budget: 1\n  ^webhooks: [https://x]", "no webhook is called", "job events"},
		{"a wait for spot without a unit", "  budget: 1\n  spot: {wait_for_spot: ^5}", "wait_for_spot is", "unit"},
		{"webhooks", "  budget: 1\n  ^webhooks: [https://x]", "no webhook is called", "job events"},
		{"a misspelt key of ours", "  ^budgte: 1\n  budget: 1", "no key", "did you mean budget?"},
		{"a price of nothing", "  budget: 1\n  max_price: ^0", "nothing can be bought", "2.50"},
		{"use_spot against the mode", "  budget: 1\n  spot: {policy: ^spot}\nresources: {use_spot: false}", "on line 5, is false", "remove resources.use_spot"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checkRefusal(t, head, tc.line, tc.message, tc.remedy)
		})
	}
}

func checkRefusal(t *testing.T, head, line, message, remedy string) {
	t.Helper()
	before, after, marked := strings.Cut(line, "^")
	if !marked {
		t.Fatal("the case marks no place")
	}
	src := head + before
	wantLine := 1 + strings.Count(src, "\n")
	wantCol := 1 + len(src) - (strings.LastIndexByte(src, '\n') + 1)
	_, err := read(src + after + "\n")
	ps := refusals(t, err)
	p := ps[0]
	if len(ps) != 1 || !strings.Contains(p.Message, message) {
		t.Fatalf("got\n%v\nwant one problem with %q", err, message)
	}
	if strings.HasPrefix(line, "^  budget") {
		return // what is missing stands nowhere
	}
	if p.Line != wantLine || p.Col != wantCol {
		t.Errorf("placed at %d:%d, want %d:%d", p.Line, p.Col, wantLine, wantCol)
	}
	if !strings.Contains(p.Remedy, remedy) && !strings.Contains(p.String(), remedy) {
		t.Errorf("remedy is %q, want %q in it", p.Remedy, remedy)
	}
}

func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	_, err := read("resources:\n  ports: 80\n  cpus: many\nnmae: x\n")
	var got []string
	for _, p := range refusals(t, err) {
		got = append(got, p.Field)
	}
	if s := strings.Join(got, " "); s != "run policy.budget resources.ports resources.cpus " {
		t.Errorf("problems are about %q:\n%v", s, err)
	}
}

func TestTooManyProblemsAreCounted(t *testing.T) {
	t.Parallel()
	_, err := read(minimal + strings.Repeat("x", 3) + ": 1\n" + manyKeys(100))
	ps := refusals(t, err)
	if last := ps[len(ps)-1]; len(ps) != maxProblems+1 || last.Message != "and 81 more problems" {
		t.Errorf("%d problems, the last %q", len(ps), last.Message)
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("zz" + strings.Repeat("y", i) + ": 1\n")
	}
	return b.String()
}

func TestProblemsReadWell(t *testing.T) {
	t.Parallel()
	_, err := read("run: train\npolicy:\n  budget: €100\nresources:\n\n  acelerators: V100\n")
	want := `job.yaml:3:11: budget is "€100": the books are in US dollars
    budget: €100
            ^
  write the most the job may ever cost, in US dollars, with at most six decimals: budget: $120
job.yaml:6:3: there is no key "acelerators" in resources
    acelerators: V100
    ^
  did you mean accelerators?`
	if err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestWarningsSayWhatWillNotHappen(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, line, field string }{
		{"no recovery", "resources: {job_recovery: none}", "resources.job_recovery"},
		{"a hook on the machine's end", "config: {hooks: [{run: x, events: [down]}]}", "config.hooks[0]"},
		{"a bucket's mode for files from here", "file_mounts: {~/x: {source: ./x, mode: MOUNT}}", "file_mounts.~/x"},
		{"a secret in the file", "secrets: {HF_TOKEN: abc}", "secrets"},
		{"autostop", "resources: {autostop: {idle_minutes: 5}}", "resources.autostop"},
		{"priority", "resources: {priority: 100}", "resources.priority"},
		{"a price that eats the budget in an hour", "resources: {max_hourly_cost: 500}", "policy.max_price"},
		{"a variable that sounds like a credential", "envs: {PAD_TOKEN: pad}", "envs"},
		{"commands that are not what they seem", "setup: \"echo \\u202e ok\"", "setup"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := mustRead(t, minimal+tc.line+"\n")
			for _, w := range j.Warnings {
				if w.Severity == Warning && w.Field == tc.field && w.Line > 0 && w.Remedy != "" {
					return
				}
			}
			t.Errorf("no warning about %s with line and remedy in %v", tc.field, j.Warnings)
		})
	}
	j := mustRead(t, "run: t\nresources: {accelerators: [V100, L4]}\npolicy:\n  budget: 1\n  spot: {wait_for_spot: 1h}\n  checkpoint: {verify: false, on_notice: {grace: 5s}, framework: hf, marker: X}\n  work: {hours_on: {V100: 1h}}\n")
	var got []string
	for _, w := range j.Warnings {
		if w.Severity == Warning {
			got = append(got, w.Field)
		}
	}
	want := "policy.spot.wait_for_spot policy.checkpoint.verify policy.checkpoint.on_notice.grace policy.checkpoint.marker policy.work.hours_on"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("warnings are about %q, want %q", s, want)
	}
}

func TestWorkdirIsFoundBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "code"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, workdir, want, refused string }{
		{"relative to where the caller says", "code", filepath.Join(base, "code"), ""},
		{"below the home directory", "~/code", filepath.Join(base, "code"), ""},
		{"absolute", base + "/./code/", filepath.Join(base, "code"), ""},
		{"not there", "nowhere", "", "there is no"},
		{"a file", "file", "", "which is a file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			opt := Options{Now: now, Dir: base, Home: base, Stat: func(p string) (fs.FileInfo, error) { return os.Stat(p) }}
			j, err := Read("job.yaml", []byte(minimal+"workdir: "+tc.workdir+"\n"), opt)
			if tc.refused != "" {
				if ps := refusals(t, err); !strings.Contains(ps[0].Message, tc.refused) {
					t.Errorf("got %v, want %q", err, tc.refused)
				}
				return
			}
			if err != nil || j.Workdir != tc.want {
				t.Errorf("workdir %q, %v; want %q", j.Workdir, err, tc.want)
			}
		})
	}
}
