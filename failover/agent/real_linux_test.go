package agent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lukechampine.com/blake3"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// real is an agent with real processes, a store on disk and real time.
type real struct {
	t     *testing.T
	cfg   agent.Config
	gw    *agenttest.Gateway
	store *dir.Store
	stop  context.CancelFunc
	ended chan error
}

func inReality(t *testing.T, spec events.JobSpec) *real {
	t.Helper()
	processes, err := agent.NewLinux()
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	store, err := dir.Open(dir.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	r := &real{t: t, store: store, ended: make(chan error, 1)}
	r.gw = agenttest.NewGateway(events.JoinReply{Spec: spec, Store: events.StoreGrant{Kind: "dir", Path: path, Tenant: "acme"}}, nil)
	r.cfg = agent.Config{
		Bootstrap: events.Bootstrap{Job: job, Epoch: 1, Lease: lease, Timers: events.DefaultTimers().Divide(10)},
		Dir:       t.TempDir(), Control: r.gw, Processes: processes, Quiet: 50 * time.Millisecond, WatchEvery: 20 * time.Millisecond,
		LogEvery: 20 * time.Millisecond, Grace: time.Second, Env: os.Environ(),
	}
	return r
}

func (r *real) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop = cancel
	go func() { r.ended <- agent.Run(ctx, r.cfg) }()
	r.gw.Order(events.OrderStart, "start-1")
}

func (r *real) until(what string, so func(agenttest.Record) bool) agenttest.Record {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if rec := r.gw.Record(); so(rec) {
			return rec
		}
	}
	r.t.Fatalf("never: %s; %+v", what, r.gw.Record())
	return agenttest.Record{}
}

func (r *real) finish() {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("Run = %v", err)
		}
	case <-time.After(20 * time.Second):
		r.t.Error("Run does not return")
	}
}

func output(rec agenttest.Record, stream string) string {
	var b strings.Builder
	for _, l := range rec.Lines {
		if l.Stream == stream {
			b.WriteString(l.Text + "\n")
		}
	}
	return b.String()
}

func workdir(t *testing.T, store checkpoint.Store, name, content string) *events.Archive {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := blake3.Sum256(b.Bytes())
	a := &events.Archive{Object: "v1/acme/workdirs/w", Hash: hex.EncodeToString(sum[:]), Bytes: int64(b.Len())}
	if err := store.Put(t.Context(), a.Object, &b, a.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestARealJobFromWorkdirToDone(t *testing.T) {
	r := inReality(t, events.JobSpec{
		Setup: "echo $GREETING from setup; echo made > made; setsid sleep 1000 &",
		Run: `set -e
cat made; ./train.sh
d=$SPOTFERRY_CHECKPOINT_DIR/checkpoint-5; mkdir -p $d
printf '{"global_step": 5}' > $d/trainer_state.json
echo '{"step": 5, "loss": 0.5}' > $SPOTFERRY_PROGRESS_FILE
printf 'no end of line' >&2`,
		Envs: map[string]string{"GREETING": "hello  $(date) world"},
	})
	r.gw.Joined.Spec.Workdir = workdir(t, r.store, "train.sh", "#!/bin/sh\necho trained in $PWD\n")
	r.start()
	rec := r.until("the end is reported", func(rec agenttest.Record) bool { return len(rec.Dones) > 0 })
	if d := rec.Dones[0]; d.Code != 0 || d.Signal != "" || d.LastStep != 5 {
		t.Errorf("reported %+v", d)
	}
	if len(rec.Commits) != 1 || rec.Commits[0].Checkpoint.Step != 5 {
		t.Errorf("commits %+v", rec.Commits)
	}
	rec = r.until("all output is there", func(rec agenttest.Record) bool { return strings.Contains(output(rec, "stderr"), "no end") })
	if got, want := output(rec, "stdout"), "hello $(date) world from setup\nmade\ntrained in "+r.cfg.Dir+"/work\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
	r.finish()
	data, err := os.ReadFile(filepath.Join(r.cfg.Dir, "job.log"))
	if err != nil || !bytes.Contains(data, []byte("no end of line")) {
		t.Errorf("the file on the machine: %v\n%s", err, data)
	}
	sleeping(t, r.cfg.Dir, false)
}

// sleeping checks whether any process works in a machine's directory.
func sleeping(t *testing.T, dir string, want bool) {
	t.Helper()
	got := false
	procs, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, p := range procs {
		if cwd, err := os.Readlink(p); err == nil && strings.HasPrefix(cwd, dir) {
			got = true
		}
	}
	if got != want {
		t.Errorf("processes in %s: %v, want %v", dir, got, want)
	}
}

func TestARealTrainerKilledOnALivingMachine(t *testing.T) {
	r := inReality(t, events.JobSpec{Run: "bash -c 'echo up; kill -9 $$'\n"})
	r.start()
	rec := r.until("the end is reported", func(rec agenttest.Record) bool { return len(rec.Dones) > 0 })
	if d := rec.Dones[0]; d.Code != -1 || d.Signal != "SIGKILL" {
		t.Errorf("reported %+v", d)
	}
	r.finish()
}

func TestARealFenceKillsTheWholeTree(t *testing.T) {
	r := inReality(t, events.JobSpec{Run: "trap '' TERM; (trap '' TERM; setsid sleep 1000) & echo up; sleep 1000; sleep 1000"})
	r.start()
	r.until("it runs", func(rec agenttest.Record) bool { return strings.Contains(output(rec, "stdout"), "up") })
	sleeping(t, r.cfg.Dir, true)
	r.gw.Fence()
	r.gw.Hint()
	began := time.Now()
	select {
	case err := <-r.ended:
		if err == nil || time.Since(began) > r.cfg.Bootstrap.Timers.Fence+5*time.Second {
			t.Errorf("Run = %v after %v", err, time.Since(began))
		}
		t.Logf("dead %v after the fence", time.Since(began))
	case <-time.After(30 * time.Second):
		t.Fatal("Run does not return")
	}
	sleeping(t, r.cfg.Dir, false)
	r.stop()
}
