package jobfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/events"
)

// canaries are credentials as people have them; none of them is one.
var canaries = map[string]string{
	"HF_TOKEN":              "hf_CANARYabcdefghijklmnopqrstu0123",
	"WANDB_API_KEY":         "9canary8canary7canary6canary5canary4",
	"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIK7MDENGbPxRfiCYCANARYKEY",
	"DB_PASSWORD":           "c4nary-passw0rd-1",
	"X":                     "AKIACANARYCANARY1234",
}

func TestCredentialsAreShownAndKeptNowhere(t *testing.T) {
	t.Parallel()
	for name, value := range canaries {
		files := map[string]string{
			"in envs":                 minimal + "envs: {" + name + ": " + value + "}\n",
			"in envs, on a line":      minimal + "envs:\n  " + name + ": " + value + "\n",
			"in envs, anchored":       minimal + "envs: {A: &v \"" + value + "\", " + name + ": *v}\nzzz: 1\n",
			"below a broken line":     minimal + "envs:\n  " + name + ": " + value + ": x\n",
			"in secrets, with a typo": minimal + "secrets: {" + name + ": " + value + "}\nzzz: 1\n",
			"in secrets, on a line":   minimal + "secrets:\n  " + name + ": " + value + "\nzzz: 1\n",
			"in secrets and in envs":  minimal + "envs: {" + name + ": x}\nsecrets:\n  " + name + ": " + value + "\n",
			"in a repository":         minimal + "workdir: {url: 'https://x:" + value + "@github.com/a/b'}\n",
			"in secrets, broken":      minimal + "secrets:\n  " + name + ": " + value + ": x\n",
			"in secrets, as two keys": minimal + "secrets:\n  A: " + value + "\n  A: " + value + "\n",
			"in misspelt secrets":     minimal + "secret: {" + name + ": " + value + "}\n",
			"in a docker login":       minimal + "resources:\n  _docker_login_config:\n    password: " + value + "\n",
		}
		for where, src := range files {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				j, err := read(src)
				if err == nil {
					t.Fatal("accepted")
				}
				b, jsonErr := json.Marshal(struct {
					Spec     events.JobSpec
					Problems []Problem
				}{j.Spec, refusals(t, err)})
				if jsonErr != nil {
					t.Fatal(jsonErr)
				}
				var e *Error
				errors.As(err, &e)
				for _, w := range e.Warnings {
					b = append(b, w.String()...)
				}
				if said := err.Error() + string(b); strings.Contains(said, value) || strings.Contains(said, value[4:]) {
					t.Errorf("shown:\n%s", said)
				}
			})
		}
	}
}

func TestACredentialOnTheCommandLineIsRefusedToo(t *testing.T) {
	t.Parallel()
	_, err := Read("job.yaml", []byte(minimal), Options{Now: now, Env: map[string]string{"HF_TOKEN": canaries["HF_TOKEN"]}})
	if ps := refusals(t, err); len(ps) != 1 || strings.Contains(err.Error(), "CANARY") {
		t.Errorf("got %v", err)
	}
}

// What is accepted keeps a secret apart from everything that is written down or said.
func TestASecretIsInNothingButItsOwnMap(t *testing.T) {
	t.Parallel()
	const inFile, onLine = "c4nary-in-file", "c4nary-on-line"
	src := minimal + "secrets:\n  A: " + inFile + "\n  B: null\n  C: \"\"\n"
	j, err := Read("job.yaml", []byte(src), Options{Now: now, Secrets: map[string]events.Secret{
		"B": events.NewSecret(onLine), "D": events.NewSecret(onLine),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Secrets["A"].Reveal() + " " + j.Secrets["B"].Reveal() + " " + j.Secrets["C"].Reveal() + " " + j.Secrets["D"].Reveal(); got != inFile+" "+onLine+"  "+onLine {
		t.Errorf("secrets are %q", got)
	}
	if got := strings.Join(j.Spec.Secrets, " "); got != "A B C D" || j.Spec.Envs != nil {
		t.Errorf("the spec names %q, and has envs %v", got, j.Spec.Envs)
	}
	spec, err := json.Marshal(j.Spec)
	if err != nil {
		t.Fatal(err)
	}
	said := string(spec) + fmt.Sprintf("%v %+v %#v", j, j, j)
	for _, w := range j.Warnings {
		said += w.String()
	}
	if strings.Contains(said, "c4nary") {
		t.Errorf("shown:\n%s", said)
	}
	if _, err := json.Marshal(j); err == nil {
		t.Error("a job with secrets is written down whole")
	}
}

func TestSecretsAreBounded(t *testing.T) {
	t.Parallel()
	many := map[string]events.Secret{}
	for i := range 101 {
		many[fmt.Sprintf("S%d", i)] = events.NewSecret("x")
	}
	big := map[string]events.Secret{}
	for i := range 3 {
		big[fmt.Sprintf("S%d", i)] = events.NewSecret(strings.Repeat("x", 100<<10))
	}
	for name, given := range map[string]map[string]events.Secret{
		"many": many, "big": big, "a NUL": {"A": events.NewSecret("a\x00b")}, "the agent's": {"SKYPILOT_TASK_ID": events.NewSecret("x")},
	} {
		_, err := Read("job.yaml", []byte(minimal), Options{Now: now, Secrets: given})
		if ps := refusals(t, err); len(ps) != 1 || ps[0].Field != "secrets" || ps[0].Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatOnlySoundsLikeACredentialIsKept(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"MAX_TOKENS": "4096", "PAD_TOKEN": "<pad>", "TOKENIZERS_PARALLELISM": "false", "TOKENIZER": "bert-base-uncased",
		"SECRET_SAUCE": "yes", "KEYS": "a,b,c", "HF_TOKEN_FILE": "/run/secrets/hf1token2", "WANDB_API_KEY": "",
		"MODEL": "meta-llama/Llama-3.1-8B-Instruct", "COMMIT": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
	} {
		src := minimal + "envs: {" + name + ": '" + value + "'}\n"
		if j, err := read(src); err != nil || j.Spec.Envs[name] != value {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
