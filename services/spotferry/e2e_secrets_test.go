package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// The secrets of a job, one for each way to give one. Each is told by its digest:
// no script and no output may hold its text.
var secretsOf = map[string]string{
	"IN_FILE": "c4nary/in-file+1==", "IN_FILE_PEM": "-----BEGIN KEY-----\nc4naryPemLine1\nc4naryPemLine2\n-----END KEY-----",
	"ON_LINE": "c4nary-on-line", "OVER_ENVS": "c4nary-over-envs",
}

// A job with secrets in every slot, whose trainer shouts all of them, through two
// trainers of one machine; and then everything that anybody can see.
func TestASecretReachesItsTrainerAndNothingElse(t *testing.T) {
	s := quick(t)
	s.serve()
	file := filepath.Join(t.TempDir(), "shouting.yaml")
	src := `name: shouting
envs: {OVER_ENVS: null, PLAIN: seen}
secrets:
  IN_FILE: ` + secretsOf["IN_FILE"] + `
  IN_FILE_PEM: |-
    ` + strings.ReplaceAll(secretsOf["IN_FILE_PEM"], "\n", "\n    ") + `
  ON_LINE: null
setup: |
  echo "setup says $ON_LINE and $PLAIN"
run: |
  env | cat
  echo "IN_FILE_PEM is $IN_FILE_PEM" >&2
  for name in IN_FILE IN_FILE_PEM ON_LINE OVER_ENVS; do
    echo "digest $name $(printf %s "${!name}" | sha256sum | cut -c1-64)"
  done
  printf 'no end: %s' "$IN_FILE"
  spotferry trainer --steps 150 --save-every 25 --save-total-limit 3 --seed 3 --hidden 64 --step-interval 50ms
  ls /nowhere/$OVER_ENVS
resources: {accelerators: "V100:1", use_spot: false}
policy: {budget: $100, checkpoint: {framework: hf}, work: {steps: 150, hours_on: {V100: 1h}}}
`
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer // all that a person is shown
	show := func(r result) result {
		seen.WriteString(r.out + r.err)
		return r
	}
	r := show(s.command("run", file, "-y", "--accept-risk", "--detach", "-o", "name",
		"--secret", "ON_LINE="+secretsOf["ON_LINE"], "--secret", "OVER_ENVS="+secretsOf["OVER_ENVS"]))
	if r.code != 0 {
		t.Fatalf("run exited with %d: %s", r.code, r.err)
	}
	job := strings.TrimSpace(r.out)
	kept := s.bucket(t)
	if _, ok, err := kept.Sealed(t.Context(), events.JobID(job)); !ok || err != nil {
		t.Errorf("sealed secrets are kept: %t, %v", ok, err)
	}
	until(t, "it trains", func() bool { _, step := s.trainerOf(job); return step > 30 })
	p, _ := s.trainerOf(job)
	p.kill() // the next trainer, of another epoch, has them too
	ended := s.closed(job)
	if ended.Status != "failed" || ended.Epochs < 2 { // by ls, which repeats one of them
		t.Errorf("the job is %s (%s) after %d placements", ended.Status, ended.Detail, ended.Epochs)
	}
	logs := show(s.command("job", "logs", job))
	for name, value := range secretsOf {
		sum := sha256.Sum256([]byte(value))
		if n := strings.Count(logs.out, "digest "+name+" "+hex.EncodeToString(sum[:])); n < 2 {
			t.Errorf("%s reached the trainer %d times:\n%.3000s", name, n, logs.out)
		}
	}
	for _, line := range []string{"setup says **** and seen", "ON_LINE=****", "no end: ****", "PLAIN=seen"} {
		if !strings.Contains(logs.out, line) {
			t.Errorf("the log has no line %q", line)
		}
	}
	for _, args := range [][]string{
		{"job", "show", job, "-o", "json"}, {"job", "show", job}, {"job", "ls", "-o", "json"}, {"job", "events", job, "-o", "json"}, {"job", "events", job},
		{"failover", "ls", "-o", "json"}, {"checkpoint", "ls", job, "-o", "json"}, {"bill", "show", job, "-o", "json"}, {"instance", "ls", "-o", "json"},
		{"doctor", "-o", "json"}, {"plan", file, "--secret", "ON_LINE=" + secretsOf["ON_LINE"], "--secret", "OVER_ENVS=x"},
		{"spec", "validate", file, "-o", "json"},
	} {
		show(s.command(args...))
	}
	archive := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if r := show(s.command("failover", "show", job, "--bundle", archive)); r.code != 0 {
		t.Errorf("failover show --bundle exited with %d: %s", r.code, r.err)
	}
	seen.Write(unzipped(t, archive))
	until(t, "the sealed secrets are forgotten", func() bool {
		_, ok, err := kept.Sealed(context.WithoutCancel(t.Context()), events.JobID(job))
		return err == nil && !ok
	})
	s.stop()
	seen.WriteString(s.running.stderr.String())
	if i := bytes.Index(seen.Bytes(), []byte("c4nary")); i >= 0 {
		t.Errorf("shown to a person: %.200q", seen.Bytes()[max(0, i-100):])
	}
	for _, dir := range []string{s.dir, s.evidence} {
		nothingOf(t, dir, "c4nary")
	}
}

func unzipped(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil || len(b) < 1000 {
		t.Errorf("%s unzips to %d bytes, %v", path, len(b), err)
	}
	return b
}

// bucket is the bus's store of sealed secrets, as a service sees it.
func (s *installation) bucket(t *testing.T) *natsbus.Secrets {
	t.Helper()
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: filepath.Join(s.dir, "operator"), Entropy: zeros{}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	creds, err := op.Service("auditor")
	if err != nil {
		t.Fatal(err)
	}
	nc, err := natsbus.Connect(natsbus.ConnConfig{URLFile: natsbus.URLFile(filepath.Join(s.dir, "bus")), Credentials: creds, Name: "auditor"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return natsbus.NewSecrets(js)
}

// nothingOf fails for every file below dir that holds text.
func nothingOf(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(filepath.Dir(path)) == "bin" { // this program itself, with this test in it
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if i := bytes.Index(b, []byte(text)); i >= 0 {
			t.Errorf("%s holds %.120q", path, b[max(0, i-40):])
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("looked at %d files of %s, %v", files, dir, err)
	}
}
