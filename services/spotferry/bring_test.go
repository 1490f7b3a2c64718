package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/jobfile"
)

// store keeps what is packed, by its object.
type store map[string][]byte

func (s store) keep(_ context.Context, write func(io.Writer) error) (events.Archive, error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return events.Archive{}, err
	}
	a := events.Archive{Object: fmt.Sprintf("archive-%d", len(s)), Bytes: int64(b.Len())}
	s[a.Object] = b.Bytes()
	return a, nil
}

func (s store) names(t *testing.T, a events.Archive) string {
	t.Helper()
	var out []string
	for r := tar.NewReader(bytes.NewReader(s[a.Object])); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(out, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h.Name)
	}
}

func TestFileMountsTravelWithTheJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"conf/a.json": "1", "conf/b.json": "2", "one.txt": "3"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "job.yaml")
	src := "run: train\npolicy: {budget: $20}\nfile_mounts:\n  ~/conf: ./conf\n  ~/x/two.txt: one.txt\n  ~/w: s3://my-bucket/w\n"
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := store{}
	r := newRig(t, system())
	r.tune = func(e *environment) { e.keep = kept.keep }
	if got := r.run("run", file, "-y", "-d"); got.code != 0 {
		t.Fatalf("exit %d, %s", got.code, got.err)
	}
	var sent console.SubmitRequest
	if err := json.Unmarshal(r.sent[console.DoSubmit], &sent); err != nil {
		t.Fatal(err)
	}
	m := sent.Spec.Mounts
	if len(m) != 3 || m[2].Path != "~/w" || m[2].Source != "s3://my-bucket/w" || m[2].Archive.Object != "" || m[0].Path != "~/conf" || m[1].Path != "~/x" || kept.names(t, m[0].Archive) != "a.json b.json" || kept.names(t, m[1].Archive) != "two.txt" {
		t.Errorf("mounts %+v", m)
	}
	if err := os.Remove(filepath.Join(dir, "one.txt")); err != nil {
		t.Fatal(err)
	}
	if got := r.run("run", file, "-y", "-d"); got.code != 2 || !strings.Contains(got.err, file+":5:16") {
		t.Errorf("without the file: exit %d, %s", got.code, got.err)
	}
}

func TestSecretsAreSealedBeforeTheyLeave(t *testing.T) {
	t.Parallel()
	gateway, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	key, _ := gateway.PublicKey()
	a := system()
	a[console.GetSecretsKey] = always(console.SecretsKey{Key: key})
	r := newRig(t, a)
	r.env = func(k string) string { return map[string]string{"HF_TOKEN": "c4nary-shell", "HOME": "/home/ann"}[k] }
	file := jobFile(t, "run: train\npolicy: {budget: $20}\nenvs: {HF_TOKEN: null}\nsecrets: {IN_FILE: c4nary-file, ON_LINE: null}\n")
	got := r.run("run", file, "-y", "-d", "-o", "json", "--secret", "HF_TOKEN", "--secret", "ON_LINE=c4nary-line")
	if got.code != 0 {
		t.Fatalf("exit %d, %s", got.code, got.err)
	}
	said := got.out + got.err
	for verb, body := range r.sent {
		said += string(verb) + string(body)
	}
	if strings.Contains(said, "c4nary") {
		t.Errorf("shown or sent in clear:\n%s", said)
	}
	var sent console.SubmitRequest
	if err := json.Unmarshal(r.sent[console.DoSubmit], &sent); err != nil || sent.Secrets == nil {
		t.Fatalf("submitted %+v, %v", sent, err)
	}
	clear, err := gateway.Open(sent.Secrets.Box, sent.Secrets.From)
	if err != nil {
		t.Fatal(err)
	}
	have, err := events.UnpackSecrets(sent.ID, clear)
	if err != nil || len(have) != 3 || have["HF_TOKEN"].Reveal() != "c4nary-shell" || have["IN_FILE"].Reveal() != "c4nary-file" || have["ON_LINE"].Reveal() != "c4nary-line" {
		t.Errorf("sealed %v, %v", have, err)
	}
	if s := sent.Spec; strings.Join(s.Secrets, " ") != "HF_TOKEN IN_FILE ON_LINE" || len(s.Envs) != 0 {
		t.Errorf("the spec has secrets %v, envs %v", s.Secrets, s.Envs)
	}
}

func TestWithoutAKeyNothingIsSubmitted(t *testing.T) {
	t.Parallel()
	file := jobFile(t, "run: train\npolicy: {budget: $20}\nsecrets: {A: null}\n")
	for name, answer := range map[string]any{
		"no key":         console.SecretsKey{},
		"another's kind": console.SecretsKey{Key: "UABC"},
		"no gateway":     &console.Problem{Code: "unavailable", Message: "secrets cannot be taken here"},
	} {
		a := system()
		a[console.GetSecretsKey] = always(answer)
		r := newRig(t, a)
		if got := r.run("run", file, "-y", "-d", "--secret", "A=c4nary"); got.code == 0 || r.ask(console.DoSubmit) != 0 || strings.Contains(got.err, "c4nary") {
			t.Errorf("%s: exit %d, submitted %d times, %s", name, got.code, r.ask(console.DoSubmit), got.err)
		}
	}
}

// A repository is fetched over ssh, by a program that runs the other side here.
func TestARepositoryIsFetchedAtOneCommit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	ssh := filepath.Join(dir, "ssh")
	if err := os.WriteFile(ssh, []byte("#!/bin/sh\nfor last; do :; done\neval \"$last\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_SSH", ssh)
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.Mkdir(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	for i, text := range []string{"first", "second"} {
		if err := os.WriteFile(filepath.Join(repo, "train.py"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
		git("commit", "-q", "-m", text)
		if i == 0 {
			git("tag", "v1")
			git("config", "core.hooksPath", filepath.Join(dir, "hooks"))
		}
	}
	tag := git("rev-parse", "v1")

	kept := store{}
	r := newRig(t, system())
	r.tune = func(e *environment) { e.keep, e.pack = kept.keep, e.packWorkdir }
	e := r.environment(io.Discard, io.Discard)
	for ref, want := range map[string]string{"v1": "first", "main": "second", "": "second"} {
		a, err := e.fetch(t.Context(), jobfile.Repository{URL: "ssh://host" + repo, Ref: ref})
		if err != nil {
			t.Fatalf("%q: %v", ref, err)
		}
		if got := kept.names(t, a); got != "train.py" || !bytes.Contains(kept[a.Object], []byte(want)) {
			t.Errorf("%q: packed %q, want it to hold %q", ref, got, want)
		}
		if ref == "v1" && a.Origin != "ssh://host"+repo+" at "+tag {
			t.Errorf("its origin is %q", a.Origin)
		}
	}
	for _, bad := range []jobfile.Repository{{URL: "ssh://host" + repo, Ref: "nowhere"}, {URL: "file://" + repo}, {URL: repo}, {URL: "ext::sh -c touch% " + dir + "/pwned"}} {
		if a, err := e.fetch(t.Context(), bad); err == nil {
			t.Errorf("%v was fetched: %+v", bad, a)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("git ran a program")
	}
}
