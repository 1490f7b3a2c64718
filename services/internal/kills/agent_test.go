package kills

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"go.uber.org/zap/zapcore"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/services/internal/machine"
	"github.com/spotferry/spotferry/services/internal/process"
)

// runAgent is the agent's program: the real one, with somebody between it and its
// store and the gateway who may kill it there.
func runAgent(ctx context.Context, _ []string) error {
	log, err := process.NewLogger(os.Stderr, "agent", zapcore.InfoLevel.String())
	if err != nil {
		return err
	}
	return machine.Agent(ctx, machine.AgentConfig{Getenv: os.Getenv, Log: log, Adjust: func(c *agent.Config) {
		epoch := &atomic.Int64{}
		epoch.Store(int64(c.Bootstrap.Epoch))
		s := &striker{
			ground: groundOf(os.Getenv), job: string(c.Bootstrap.Job), by: "agent", machine: os.Getenv("SPOTFERRY_MACHINE_DIR"),
			epoch: func() int { return int(epoch.Load()) }, step: func() int64 { return -1 },
		}
		me := crew{Lease: string(c.Bootstrap.Lease), Agent: procOf(os.Getpid()), Host: procOf(os.Getppid())}
		if err := put(filepath.Join(s.machine, agentCrew), me); err != nil {
			panic(err)
		}
		c.Control = control{c.Control, s, epoch}
		open := agent.OpenStore
		c.OpenStore = func(g events.StoreGrant) (checkpoint.Store, error) {
			inner, err := open(g)
			return &store{Store: inner, strike: s}, err
		}
	}})
}

// control is the gateway as the agent sees it, and where commits are hit.
type control struct {
	agent.Control
	strike *striker
	epoch  *atomic.Int64
}

func (c control) Join(ctx context.Context, r events.JoinRequest) (events.JoinReply, error) {
	c.strike.at(joining, 0, "before it joins")
	a, err := c.Control.Join(ctx, r)
	c.strike.at(joining, 0, "after it has joined")
	return a, err
}

func (c control) Adopt(epoch int, jwt string) error {
	err := c.Control.Adopt(epoch, jwt)
	if err == nil {
		c.epoch.Store(int64(epoch))
	}
	return err
}

func (c control) Commit(ctx context.Context, r events.CommitRequest) error {
	c.strike.at(asked, anyK, "before the commit of "+r.Checkpoint.Name)
	c.strike.at(answering, anyK, "while the commit is asked for of "+r.Checkpoint.Name)
	err := c.Control.Commit(ctx, r)
	c.strike.at(answered, anyK, "after the commit of "+r.Checkpoint.Name)
	return err
}

// anyK is more than any operation's number.
const anyK = 1 << 30

// store is the checkpoint store as the agent sees it, and where uploads and
// restores are hit.
type store struct {
	checkpoint.Store
	strike *striker
	puts   atomic.Int64
}

func (s *store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if isManifest(name) {
		s.puts.Store(0) // of the next save
		return s.Store.Put(ctx, name, s.torn(inManifest, anyK, name, r, size), size)
	}
	k := int(s.puts.Add(1) - 1)
	s.strike.at(beforeObject, k, "before it puts "+name)
	err := s.Store.Put(ctx, name, s.torn(inObject, k, name, r, size), size)
	s.strike.at(afterObject, k, "after it has put "+name)
	return err
}

func isManifest(name string) bool { return strings.Contains(name, "/ckpt/") }

func (s *store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.Store.Get(ctx, name)
	return s.read(r, name, 4<<10), err
}

func (s *store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Range(ctx, name, off, n)
	return s.read(r, name, n), err
}

func (s *store) read(r io.ReadCloser, name string, n int64) io.ReadCloser {
	if r == nil {
		return nil
	}
	return struct {
		io.Reader
		io.Closer
	}{s.torn(fetching, anyK, name, r, n), r}
}

// torn returns r, and hits when a part of what it has was read.
func (s *store) torn(p phase, k int, name string, r io.Reader, size int64) io.Reader {
	a, ok := s.strike.armed()
	if !ok || a.Phase != p || a.K > k {
		return r
	}
	at := min(int64(a.Part*float64(size)), size-1)
	return io.MultiReader(io.LimitReader(r, at), &trip{func() { s.strike.strike(a, "inside "+name) }}, r)
}

// trip calls once, when reading comes to it.
type trip struct{ do func() }

func (t *trip) Read([]byte) (int, error) {
	t.do()
	return 0, io.EOF
}

// runSetup is the job's setup script.
func runSetup(context.Context, []string) error {
	machine := filepath.Dir(os.Getenv("HOME"))
	epoch, err := strconv.Atoi(os.Getenv("SPOTFERRY_EPOCH"))
	if err != nil {
		return err
	}
	s := &striker{ground: groundOf(os.Getenv), job: os.Getenv("SPOTFERRY_JOB_ID"), by: "setup", machine: machine,
		epoch: func() int { return epoch }, step: func() int64 { return -1 }}
	s.at(setup, 0, "in the setup script")
	return nil
}
