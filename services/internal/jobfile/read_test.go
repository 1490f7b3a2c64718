package jobfile

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

var now = events.Moment{
	Control: time.Date(2030, 1, 31, 10, 0, 0, 0, time.UTC),
	Market:  time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC),
}

// minimal is the shortest file that says all that must be said.
const minimal = "run: train\npolicy: {budget: $120}\n"

func read(src string) (Job, error) {
	return Read("job.yaml", []byte(src), Options{Now: now})
}

func mustRead(t *testing.T, src string) Job {
	t.Helper()
	j, err := read(src)
	if err != nil {
		t.Fatalf("Read refused:\n%v", err)
	}
	return j
}

func refusals(t *testing.T, err error) []Problem {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) == 0 {
		t.Fatalf("Read = %v, want an *Error with problems", err)
	}
	return e.Problems
}

func TestReadUnderstandsAWholeFile(t *testing.T) {
	t.Parallel()
	j := mustRead(t, `
name: Fine-tune *7B* > v1.2
setup: |
  pip install -r requirements.txt
run: |
  python train.py
workdir: code
num_nodes: 1
envs:
  LR: 1.10
resources:
  infra: AWS/us-east-1
  accelerators: {V100: 1, A100-80GB: 2}
  cpus: 8+
  memory: 32.5+
  disk_size: 1TB
  max_hourly_cost: 3.5
  use_spot: true
  labels: {team: nlp, ticket: "42"}
policy:
  budget: 120.50
  deadline: +36h
  max_duration: 2d
  max_price: $2.50/h
  checkpoint:
    dir: out/ckpt
    interval: 10m
    framework: plain
    marker: DONE
    keep: 5
    on_notice: {signal: usr1, grace: 90s}
  spot: {policy: auto, return_to_spot: no, min_saving: 10%, dwell: 1h}
  on_budget: pause
  prefer: fastest
  countries: [de, FR, DE]
  work:
    steps: 12000
    hours_on: {V100: 6.5h, "*": 10h}
`)
	no := false
	want := events.JobSpec{
		Name: "Fine-tune *7B* > v1.2", Setup: "pip install -r requirements.txt\n", Run: "python train.py\n",
		Envs: map[string]string{"LR": "1.10"},
		Resources: events.Resources{
			Accelerators: []events.Accelerator{{Model: "V100", Count: 1}, {Model: "A100-80GB", Count: 2}},
			VCPU:         8, RAMMiB: 33280, DiskGB: 1024,
			Places:         []events.Place{{Seller: "aws", Region: "us-east-1"}},
			MaxHourlyPrice: 2_500_000_000,
		},
		Policy: events.Policy{
			Budget: 120_500_000, Deadline: now.Market.Add(36 * time.Hour), MaxDurationS: 172800,
			Checkpoint: events.CheckpointPolicy{
				Dir: "out/ckpt", IntervalS: 600, Signal: "SIGUSR1", GraceS: 90, Framework: "plain", Marker: "DONE", Keep: 5,
			},
			Spot:     events.SpotPolicy{Mode: events.SpotAuto, ReturnToSpot: &no, MinSavingPct: 10, DwellS: 3600},
			OnBudget: "pause", Prefer: "fastest", Countries: []string{"DE", "FR"},
			Work: events.Work{Steps: 12000, HoursOnS: map[string]int64{"V100": 23400, "*": 36000}},
		},
	}
	if !reflect.DeepEqual(j.Spec, want) {
		t.Errorf("spec is\n%+v\nwant\n%+v", j.Spec, want)
	}
	if j.Workdir != "code" || !reflect.DeepEqual(j.Labels, map[string]string{"team": "nlp", "ticket": "42"}) {
		t.Errorf("workdir %q, labels %v", j.Workdir, j.Labels)
	}
	if len(j.Warnings) != 1 || j.Warnings[0].Field != "policy.max_price" {
		t.Errorf("warnings are %v, want one about the two prices", j.Warnings)
	}
}

func TestReadFillsInDefaultsAndSaysSo(t *testing.T) {
	t.Parallel()
	j := mustRead(t, minimal)
	want := events.JobSpec{
		Name: "job", Run: "train",
		Policy: events.Policy{
			Budget: 120 * events.Dollar, OnBudget: "stop", Prefer: "cheapest",
			Checkpoint: events.CheckpointPolicy{Dir: "checkpoints"},
			Spot:       events.SpotPolicy{Mode: events.SpotAuto},
		},
	}
	if !reflect.DeepEqual(j.Spec, want) {
		t.Errorf("spec is\n%+v\nwant\n%+v", j.Spec, want)
	}
	var said []string
	for _, w := range j.Warnings {
		if w.Severity != Note {
			t.Errorf("%v is a %s, want a note", w, w.Severity)
		}
		said = append(said, w.Field)
	}
	if got := strings.Join(said, " "); got != "policy.spot.policy policy.deadline name" {
		t.Errorf("notes are about %q", got)
	}
}

// Each case is one line of resources or policy and what must come of it.
func TestReadValues(t *testing.T) {
	t.Parallel()
	resources := func(s events.JobSpec) any { return s.Resources }
	policy := func(f func(events.Policy) any) func(events.JobSpec) any {
		return func(s events.JobSpec) any { return f(s.Policy) }
	}
	mode := policy(func(p events.Policy) any { return p.Spot.Mode })
	for _, tc := range []struct {
		name string
		src  string
		get  func(events.JobSpec) any
		want any
	}{
		{"an accelerator without a count is one", "resources: {accelerators: V100}", resources,
			events.Resources{Accelerators: []events.Accelerator{{Model: "V100", Count: 1}}}},
		{"a list of accelerators is any of them", `resources: {accelerators: ["V100:1", "H100:8"]}`, resources,
			events.Resources{Accelerators: []events.Accelerator{{Model: "V100", Count: 1}, {Model: "H100", Count: 8}}}},
		{"a set of accelerators is any of them", `resources: {accelerators: {V100:1, "L4:2", A10G}}`, resources,
			events.Resources{Accelerators: []events.Accelerator{{Model: "V100", Count: 1}, {Model: "L4", Count: 2}, {Model: "A10G", Count: 1}}}},
		{"a star in infra is any", `resources: {infra: "*/*/us-east-1a"}`, resources,
			events.Resources{Places: []events.Place{{Zone: "us-east-1a"}}}},
		{"infra of only stars is anywhere", `resources: {infra: "*"}`, resources, events.Resources{}},
		{"cloud, region and zone are the older infra", "resources: {cloud: GCP, region: us-central1, zone: us-central1-a}", resources,
			events.Resources{Places: []events.Place{{Seller: "gcp", Region: "us-central1", Zone: "us-central1-a"}}}},
		{"alternatives may be places", "resources: {accelerators: V100, any_of: [{infra: aws}, {infra: gcp/us-central1}]}", resources,
			events.Resources{Accelerators: []events.Accelerator{{Model: "V100", Count: 1}},
				Places: []events.Place{{Seller: "aws"}, {Seller: "gcp", Region: "us-central1"}}}},
		{"alternatives may be accelerators", `resources: {infra: aws, ordered: [{accelerators: "V100:1"}, {accelerators: {A100: 1}}]}`, resources,
			events.Resources{Accelerators: []events.Accelerator{{Model: "V100", Count: 1}, {Model: "A100", Count: 1}}, Places: []events.Place{{Seller: "aws"}}}},
		{"alternatives may be every accelerator at every place",
			"resources: {any_of: [{infra: aws, accelerators: [V100, T4]}, {infra: gcp, accelerators: [T4, V100]}]}", resources,
			events.Resources{Accelerators: []events.Accelerator{{Model: "V100", Count: 1}, {Model: "T4", Count: 1}}, Places: []events.Place{{Seller: "aws"}, {Seller: "gcp"}}}},
		{"alternatives keep what resources says about where", "resources: {cloud: aws, any_of: [{region: us-east-1}, {region: us-west-2}]}", resources,
			events.Resources{Places: []events.Place{{Seller: "aws", Region: "us-east-1"}, {Seller: "aws", Region: "us-west-2"}}}},
		{"spot and on-demand as alternatives are auto", "resources: {any_of: [{use_spot: true}, {use_spot: false}]}", mode, events.SpotAuto},
		{"spot in every alternative is spot only", "resources: {any_of: [{infra: aws, use_spot: true}, {infra: gcp, use_spot: true}]}", mode, events.SpotOnly},
		{"half a CPU is one", "resources: {cpus: 0.5+}", resources, events.Resources{VCPU: 1}},
		{"memory has units", "resources: {memory: 512MB+}", resources, events.Resources{RAMMiB: 512}},
		{"an empty key asks for nothing", "resources: {ports: , labels: {}, infra: ~, accelerators: []}", resources, events.Resources{}},

		{"use_spot true is spot only", "resources: {use_spot: true}", mode, events.SpotOnly},
		{"use_spot false is on-demand only", "resources: {use_spot: False}", mode, events.OnDemandOnly},
		{"YAML 1.1's yes is true", "resources: {use_spot: yes}", mode, events.SpotOnly},
		{"use_spot absent is auto", "", mode, events.SpotAuto},

		{"exit codes to restart on may be one", "resources: {job_recovery: {recover_on_exit_codes: 33}}", policy(func(p events.Policy) any { return p.RestartOnExit }), []int{33}},
		{"exit codes to restart on are a set", "resources: {job_recovery: {recover_on_exit_codes: [34, 33, 34]}}", policy(func(p events.Policy) any { return p.RestartOnExit }), []int{33, 34}},
		{"so many restarts", "resources: {job_recovery: {strategy: failover, max_restarts_on_errors: 3}}", policy(func(p events.Policy) any { return p.MaxRestarts }), 3},
		{"no restarts at all", "resources: {job_recovery: {max_restarts_on_errors: 0}}", policy(func(p events.Policy) any { return p.MaxRestarts }), -1},
		{"nobody said how many restarts", "", policy(func(p events.Policy) any { return p.MaxRestarts }), 0},
		{"hooks on a preemption are kept in order", "config: {hooks: [{run: a, timeout: 30}, {run: b, events: [stop]}, {run: c, events: [preemption]}]}",
			func(s events.JobSpec) any { return s.OnNotice }, []events.Hook{{Run: "a", TimeoutS: 30}, {Run: "c"}}},
		{"what is switched off asks for nothing", "api_server_access: false\nresources: {autostop: false, network_tier: false}", resources, events.Resources{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := tc.get(mustRead(t, minimal+tc.src+"\n").Spec); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestReadPolicyValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		line string
		get  func(events.Policy) any
		want any
	}{
		{"a budget may have a dollar sign", "budget: $0.000001", func(p events.Policy) any { return p.Budget }, events.MicroUSD(1)},
		{"a tenth and a fifth are exactly three tenths", "budget: 0.3", func(p events.Policy) any { return p.Budget }, events.MicroUSD(300_000)},
		{"a deadline may be relative", "deadline: +1d12h", func(p events.Policy) any { return p.Deadline }, now.Market.Add(36 * time.Hour)},
		{"a deadline may have an offset", "deadline: 2030-02-01T02:30:00+01:00", func(p events.Policy) any { return p.Deadline }, time.Date(2030, 2, 1, 1, 30, 0, 0, time.UTC)},
		{"Z and +00:00 are the same", "deadline: 2030-02-01T02:30:00Z", func(p events.Policy) any { return p.Deadline }, time.Date(2030, 2, 1, 2, 30, 0, 0, time.UTC)},
		{"an automatic interval is left to the agent", "checkpoint: {interval: auto}", func(p events.Policy) any { return p.Checkpoint.IntervalAuto }, true},
		{"an automatic framework is detected", "checkpoint: {framework: auto}", func(p events.Policy) any { return p.Checkpoint.Framework }, ""},
		{"a signal may be short", "checkpoint: {on_notice: {signal: TERM}}", func(p events.Policy) any { return p.Checkpoint.Signal }, "SIGTERM"},
		{"a job without progress is stalled after so long", "progress_timeout: 45m", func(p events.Policy) any { return p.ProgressTimeoutS }, int64(2700)},
		{"one country needs no list", "countries: gb", func(p events.Policy) any { return p.Countries }, []string{"GB"}},
		{"any country is a word", "countries: any", func(p events.Policy) any { return p.Countries }, []string{events.AnyCountry}},
		{"whose machine, without a list", "trust: community", func(p events.Policy) any { return p.Trust }, []events.Trust{events.TrustCommunity}},
		{"whose machine, said twice", "trust: [own, community, own]", func(p events.Policy) any { return p.Trust }, []events.Trust{events.TrustOwn, events.TrustCommunity}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			src := "run: train\npolicy:\n  " + tc.line + "\n"
			if !strings.HasPrefix(tc.line, "budget") {
				src += "  budget: 1\n"
			}
			if got := tc.get(mustRead(t, src).Spec.Policy); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestEnvironmentKeepsItsText(t *testing.T) {
	t.Parallel()
	src := minimal + `
envs:
  A: 1.10
  B: 007
  C: 0x1F
  D: yes
  E: 1:30
  F: 1_000
  G: "~"
  H: 2030-01-31
  I: 1e308
  J: .inf
  K: ''
  L: " padded "
  M: |
    two
    lines
  N: !!str 0o17
  O: '007'
  P: $HOME ${X} {{ y }}
  Q: -0
`
	want := map[string]string{
		"A": "1.10", "B": "007", "C": "0x1F", "D": "yes", "E": "1:30", "F": "1_000", "G": "~", "H": "2030-01-31",
		"I": "1e308", "J": ".inf", "K": "", "L": " padded ", "M": "two\nlines\n", "N": "0o17", "O": "007",
		"P": "$HOME ${X} {{ y }}", "Q": "-0",
	}
	if got := mustRead(t, src).Spec.Envs; !reflect.DeepEqual(got, want) {
		t.Errorf("envs are %q\nwant %q", got, want)
	}
}

func TestCommandLineVariablesWin(t *testing.T) {
	t.Parallel()
	src := minimal + "envs: {A: file, B: , C: ~}\n"
	_, err := read(src)
	if ps := refusals(t, err); len(ps) != 2 || !strings.Contains(ps[0].Remedy, "--env B=") {
		t.Errorf("variables without values: %v", err)
	}
	j, err := Read("job.yaml", []byte(src), Options{Now: now, Env: map[string]string{"A": "line", "B": "x", "C": "", "D": "new"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"A": "line", "B": "x", "C": "", "D": "new"}; !reflect.DeepEqual(j.Spec.Envs, want) {
		t.Errorf("envs are %v, want %v", j.Spec.Envs, want)
	}
}

func TestCommandLineVariablesAreCheckedToo(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]map[string]string{
		"a NUL":             {"A": "a\x00b"},
		"bytes, not text":   {"A": "\xff"},
		"no name":           {"A B": "x"},
		"the agent's":       {"SPOTFERRY_JOB_ID": "x"},
		"longer than Linux": {"A": strings.Repeat("x", maxEnvValue)},
	} {
		_, err := Read("job.yaml", []byte(minimal), Options{Now: now, Env: env})
		if ps := refusals(t, err); len(ps) != 1 || ps[0].Line != 0 || ps[0].Field != "envs" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheCommandLineGivesBudgetAndDeadline(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, src, budget, deadline, wrong string }{
		{"to a file that has none", "run: t\n", "$7", "+2h", ""},
		{"over a file's own", "run: t\npolicy: {budget: 3, deadline: +9h}\n", "7", "2030-01-31T14:00:00Z", ""},
		{"a budget that is none", minimal, "7 EUR", "+2h", "budget is"},
		{"a deadline that is none", minimal, "7", "soon", "deadline is"},
		{"a deadline gone by", minimal, "7", "2029-01-01T00:00:00Z", "deadline is"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j, err := Read("job.yaml", []byte(tc.src), Options{Now: now, Budget: tc.budget, Deadline: tc.deadline})
			if tc.wrong != "" {
				if ps := refusals(t, err); len(ps) != 1 || ps[0].Line != 0 || !strings.Contains(ps[0].Message, tc.wrong) {
					t.Errorf("got %v", err)
				}
				return
			}
			if p := j.Spec.Policy; err != nil || p.Budget != 7*events.Dollar || !p.Deadline.Equal(now.Market.Add(2*time.Hour)) {
				t.Errorf("budget %v, deadline %v, %v", p.Budget, p.Deadline, err)
			}
		})
	}
}

func TestWithoutAClockNoDateIsJudged(t *testing.T) {
	t.Parallel()
	for line, good := range map[string]bool{
		"deadline: 1999-01-01T00:00:00Z": true, "deadline: 9999-01-01T00:00:00Z": true, "deadline: +5h": true,
		"deadline: +5000d": false, "deadline: 2030-03-31": false, "deadline: +1h\n  checkpoint: {interval: 2h}": false,
	} {
		_, err := Read("job.yaml", []byte("run: t\npolicy:\n  budget: 1\n  "+line+"\n"), Options{})
		if (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestARepositoryIsToBeFetched(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]Repository{
		"{url: https://github.com/a/b.git, ref: v1.2}":              {"https://github.com/a/b.git", "v1.2"},
		"{ref: feature/x-1, url: git@github.com:a/b.git}":           {"git@github.com:a/b.git", "feature/x-1"},
		"{url: 'ssh://git@example.com:2222/a/b'}":                   {"ssh://git@example.com:2222/a/b", ""},
		"{url: https://example.com/a, ref: 0a1b2c3d4e5f60718293a4}": {"https://example.com/a", "0a1b2c3d4e5f60718293a4"},
	} {
		j := mustRead(t, minimal+"workdir: "+src+"\n")
		if j.Repository == nil || *j.Repository != want || j.Workdir != "" {
			t.Errorf("%s: %+v, workdir %q", src, j.Repository, j.Workdir)
		}
	}
}

func TestAnchorsAndMergesAreFollowed(t *testing.T) {
	t.Parallel()
	j := mustRead(t, `
run: &cmd train --fast
setup: *cmd
policy: {budget: 1}
envs: &base {A: "1", B: "2"}
resources:
  labels: {<<: *base, B: "3"}
`)
	if j.Spec.Setup != "train --fast" || !reflect.DeepEqual(j.Labels, map[string]string{"A": "1", "B": "3"}) {
		t.Errorf("setup %q, labels %v", j.Spec.Setup, j.Labels)
	}
}

func TestReadIsRepeatable(t *testing.T) {
	t.Parallel()
	src := minimal + "envs: {A: 1, B: 2, C: 3, bad-: 4, worse-: 5, SPOTFERRY_X: 6}\nzzz: 1\nresources: {ports: 1, priority: 2, what: 3}\n"
	_, first := read(src)
	for range 20 {
		if _, err := read(src); err.Error() != first.Error() {
			t.Fatalf("read again:\n%v\nfirst:\n%v", err, first)
		}
	}
}
