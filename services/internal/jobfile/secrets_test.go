package jobfile

import (
	"encoding/json"
	"strings"
	"testing"
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
			"in secrets":              minimal + "secrets: {" + name + ": " + value + "}\n",
			"in secrets, on a line":   minimal + "secrets:\n  " + name + ": " + value + "\n",
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
					Job      Job
					Problems []Problem
				}{j, refusals(t, err)})
				if jsonErr != nil {
					t.Fatal(jsonErr)
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
