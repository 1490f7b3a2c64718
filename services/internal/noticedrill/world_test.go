package noticedrill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/s3"
	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// world is what the runs have in common.
type world struct {
	t         *testing.T
	server    *s3server.Server
	bucket    string
	processes agent.Processes
	self      string // this program
	seed      uint64
	quick     bool
}

func newWorld(t *testing.T, seed uint64, quick bool) *world {
	w := &world{t: t, server: s3server.Start(t), seed: seed, quick: quick}
	w.bucket = w.server.Bucket(t)
	var err error
	if w.processes, err = agent.NewLinux(); err != nil {
		t.Fatal(err)
	}
	if w.self, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	return w
}

// store is a run's part of the bucket, through a line or past it.
func (w *world) store(r run, host string) (*s3.Store, error) {
	return s3.Open(s3.Config{Bucket: w.bucket, Prefix: fmt.Sprintf("run-%d", r.n), Endpoint: "http://" + host,
		Access: w.server.Access, Secret: w.server.Secret})
}

func (w *world) host() string {
	u, _ := url.Parse(w.server.URL)
	return u.Host
}

// machine is one run under way.
type machine struct {
	run
	model  model
	dir    string
	gw     *agenttest.Gateway
	seller *agenttest.Seller
	line   *line
	direct *s3.Store
	kill   context.CancelFunc
	says   *observer.ObservedLogs
	ended  chan error
}

const (
	tenant = "acme"
	job    = events.JobID("01jdrill")
)

var boot = time.Now()

func elapsed() time.Duration { return time.Since(boot) }

// start has a machine with its agent and trainer running.
func (w *world) start(r run) (*machine, error) {
	m := &machine{run: r, model: model{w.seed*1000 + uint64(r.n), r.bytes, r.shards}, ended: make(chan error, 1)}
	var err error
	if m.dir, err = os.MkdirTemp(w.t.TempDir(), "m"); err != nil {
		return nil, err
	}
	if m.direct, err = w.store(r, w.host()); err != nil {
		return nil, err
	}
	m.line = newLine(w.t, w.host(), r.rate)
	spec := events.JobSpec{Run: "exec " + w.self,
		Envs: map[string]string{asTrainer: "1", logPath: m.log(),
			shape: fmt.Sprintln(m.model.seed, r.bytes, r.shards, r.step.Microseconds(), r.every)},
		Policy: events.Policy{Checkpoint: events.CheckpointPolicy{Framework: "hf", Signal: "SIGUSR1"}}}
	m.gw = agenttest.NewGateway(events.JoinReply{Spec: spec, Store: events.StoreGrant{Kind: "test", Tenant: tenant}}, elapsed)
	m.seller = &agenttest.Seller{Now: elapsed}
	core, says := observer.New(zap.InfoLevel)
	m.says = says
	cfg := agent.Config{Log: zap.New(core),
		Bootstrap: events.Bootstrap{Job: job, Epoch: 1, Lease: events.LeaseID(job + "-1-1"), Timers: events.DefaultTimers()},
		Dir:       filepath.Join(m.dir, "machine"), Control: m.gw, Metadata: m.seller, Processes: w.processes, Elapsed: elapsed, Env: os.Environ(),
		OpenStore: func(events.StoreGrant) (checkpoint.Store, error) { return w.store(r, m.line.addr()) },
	}
	if w.quick {
		cfg.Quiet, cfg.NoticeEvery = 300*time.Millisecond, 100*time.Millisecond
	}
	if err := os.Mkdir(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, m.kill = context.WithCancel(context.Background())
	go func() { m.ended <- agent.Run(ctx, cfg) }()
	m.gw.Order(events.OrderStart, "start-1")
	return m, nil
}

func (m *machine) log() string { return filepath.Join(m.dir, "trainer.log") }

// taken ends the machine as a seller does.
func (m *machine) taken() error {
	m.gw.Cut(true)
	m.line.cut()
	m.kill()
	return <-m.ended
}

// drill plays a run and says what came of it.
func (w *world) drill(r run) (o outcome, err error) {
	o.run = r
	m, err := w.start(r)
	if err != nil {
		return o, err
	}
	defer os.RemoveAll(m.dir)
	defer w.empty(r)
	first := func() bool { return len(m.gw.Record().Commits) > 0 }
	if err := within(2*r.whole()+time.Minute, first); err != nil {
		return o, errors.Join(fmt.Errorf("no first commit: %w", err), m.taken())
	}
	time.Sleep(r.after)
	before, at := len(m.gw.Record().Commits), time.Now()
	m.seller.Warn(r.notice)
	time.Sleep(time.Until(at.Add(r.notice)))
	late := time.Since(at) - r.notice
	record := m.gw.Record()
	if err := m.taken(); err != nil {
		return o, fmt.Errorf("the agent: %w", err)
	}
	steps, err := readLog(m.log())
	if err != nil {
		return o, err
	}
	o.judge(record, before, steps, at, late)
	o.says = m.said()
	return o, w.restores(m, o.commit)
}

// said is the agent's own account, without what it says of every machine.
func (m *machine) said() (lines []string) {
	for _, e := range m.says.All() {
		fields := e.ContextMap()
		for _, name := range []string{"job", "epoch", "lease", "tenant"} {
			delete(fields, name)
		}
		lines = append(lines, fmt.Sprintf("%s %s %v", e.Time.Format("05.000"), e.Message, fields))
	}
	return lines
}

// within waits for something.
func within(limit time.Duration, so func() bool) error {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if so() {
			return nil
		}
	}
	return fmt.Errorf("not within %v", limit)
}

// restores makes sure that a checkpoint is what the trainer saved at its step.
func (w *world) restores(m *machine, c events.Checkpoint) error {
	e, err := checkpoint.New(checkpoint.Config{Store: m.direct, Tenant: tenant, Job: string(job)})
	if err != nil {
		return err
	}
	got, err := e.Restore(context.Background(), checkpoint.RestoreRequest{Dir: filepath.Join(m.dir, "restored"),
		Refs: []checkpoint.Ref{{Name: c.Name, Epoch: c.Epoch, Step: c.Step, Digest: c.Digest, Bytes: c.Bytes, Files: c.Files}}})
	if err != nil {
		return fmt.Errorf("what was committed does not restore: %w", err)
	}
	for i := range m.model.shards {
		f, err := os.Open(filepath.Join(got.Path, m.model.shard(i)))
		if err != nil {
			return err
		}
		err = same(f, m.model.content(c.Step, i))
		f.Close()
		if err != nil {
			return fmt.Errorf("%s of step %d is not what was saved: %w", m.model.shard(i), c.Step, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(got.Path, "trainer_state.json"))
	if err == nil && string(text) != state(c.Step) {
		err = fmt.Errorf("trainer_state.json of step %d is %q", c.Step, text)
	}
	return err
}

func same(a, b io.Reader) error {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(a, x)
		k, err2 := io.ReadFull(b, y)
		if n != k || !bytes.Equal(x[:n], y[:k]) {
			return errors.New("bytes differ")
		}
		if err != nil || err2 != nil {
			return nil
		}
	}
}

// empty gives the disk back.
func (w *world) empty(r run) {
	s, err := w.store(r, w.host())
	if err != nil {
		return
	}
	all, err := s.List(context.Background(), "")
	for _, o := range all {
		err = errors.Join(err, s.Delete(context.Background(), o.Name))
	}
	if err != nil {
		w.t.Log(err)
	}
}
