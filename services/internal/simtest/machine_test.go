package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// machine is one bought machine: the real agent on it, a trainer that is a
// function, and whatever its seller tells it.
type machine struct {
	w      *world
	id     events.InstanceID
	boot   events.Bootstrap
	link   *link
	ctx    context.Context
	die    context.CancelFunc
	procs  *agenttest.Machine
	starts int

	mu       sync.Mutex
	warned   bool
	by       time.Time // the deadline of the warning
	offline  []window
	renewals []time.Time   // answered
	held     time.Time     // when the newest answered renewal was sent
	paidBy   time.Time     // as it was answered; zero: not limited
	gap      time.Duration // the newest without an answer that was longer than the hold
	back     time.Time     // when it ended
	gapPaid  time.Time     // paidBy then
	set      int           // how often its wall clock was
	spoiled  []window      // requests that went wrong
}

// window is a stretch of time.
type window struct{ from, to time.Time }

// born is called by the seller when a machine was bought.
func (w *world) born(inst provider.Instance, spec provider.LaunchSpec) {
	m := &machine{w: w, id: inst.ID, link: newLink(w.current)}
	if err := json.Unmarshal(spec.UserData, &m.boot); err != nil {
		w.fail("machine %s was born with user data that does not parse: %v", inst.ID, err)
		return
	}
	m.ctx, m.die = context.WithCancel(w.ctx)
	m.procs = &agenttest.Machine{Programs: map[string]func(*agenttest.Running) agent.Exit{"run.sh": m.train}}
	w.mu.Lock()
	w.machines[m.id] = m
	w.mu.Unlock()
	w.alive.Go(m.live)
	w.alive.Go(func() { w.fate(m, inst) })
}

// gone is called by the seller when a machine is no more.
func (w *world) gone(inst provider.Instance) {
	if m := w.machine(inst.ID); m != nil {
		m.link.cut(false) // nothing that was still to be said is said
		m.die()
	}
}

func (m *machine) train(r *agenttest.Running) agent.Exit {
	m.starts++
	t := &trainer{m: m, work: m.w.jobs[m.boot.Job].work, pid: fmt.Sprintf("%s/%d", m.id, m.starts), r: r}
	return t.main()
}

// live boots, runs the agent, and ends the machine when the agent has had enough.
func (m *machine) live() {
	c := m.w.chance
	if !sleep(m.ctx, c.between(15*time.Second, time.Minute, "boot", m.id)) {
		return
	}
	if m.w.chaotic() && c.hits(m.w.opt.trouble.noBoot, "no boot", m.id) {
		m.w.hits.add("machine never boots")
		<-m.ctx.Done()
		return
	}
	turn(m.actor("boot"))
	err := m.runAgent()
	if m.ctx.Err() != nil {
		return
	}
	m.w.trace("agent of %s ended: %v", m.boot.Lease, err)
	if errors.Is(err, agent.ErrSilent) {
		m.silent()
	}
	for _, known := range []struct {
		err error
		hit string
	}{{agent.ErrFenced, "agent learns it is fenced"}, {agent.ErrSilent, "agent gives up in silence"}, {agent.ErrBoot, "agent never joins"}} {
		if errors.Is(err, known.err) {
			m.w.hits.add(known.hit)
		}
	}
	turn(m.actor("halt"))
	m.w.fake.Kill(m.id, "machine")
}

// local is text as it would be on a machine of its own: this test's directory is
// another in every run.
func (m *machine) local(text string) string { return strings.ReplaceAll(text, m.w.dir, "") }

func (m *machine) actor(part string) string { return part + "-" + string(m.id) }

func (m *machine) runAgent() error {
	log := m.w.log.Named("agent").With(zap.String("lease", string(m.boot.Lease)))
	bus, err := agent.OpenBus(agent.BusConfig{
		Bootstrap: m.boot, Entropy: m.w.chance.entropy("agent", m.id), Log: log,
		Dial: func(string) (net.Conn, error) { return m.link.InProcessConn() },
	})
	if err != nil {
		return err
	}
	defer bus.Close()
	began := time.Now()
	return agent.Run(m.ctx, agent.Config{
		Bootstrap: m.boot, Dir: filepath.Join(m.w.dir, "machines", string(m.id)), Control: &control{Control: bus, m: m},
		Metadata: metadata{m}, Processes: m.procs,
		OpenStore:   func(events.StoreGrant) (checkpoint.Store, error) { return m.w.store, nil },
		NoticeEvery: time.Second, WatchEvery: 3 * time.Second, Quiet: -1, LogEvery: 20 * time.Second,
		Elapsed: func() time.Duration { return time.Since(began) + time.Hour }, Log: log,
		Now:  func() time.Time { return time.Now().Add(m.skew(began)) },
		Turn: func(part string) { turn(m.actor(part)) },
	})
}

// kill ends every process of the trainer's, as an operator's mistake or a lack
// of memory would.
func (m *machine) killTrainer() bool {
	for _, r := range m.procs.Started() {
		if r.Alive() {
			r.Die("SIGKILL")
			return true
		}
	}
	return false
}

// warn is what the machine's metadata say from now on; the zero time: nothing.
func (m *machine) warn(by time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.warned, m.by = !by.IsZero(), by
}

// metadata is the machine's own window to its seller.
type metadata struct{ m *machine }

// Warning implements agent.Metadata.
func (s metadata) Warning(context.Context) (*agent.Warning, error) {
	s.m.mu.Lock()
	warned, by := s.m.warned, s.m.by
	s.m.mu.Unlock()
	turn(s.m.actor("notice"))
	if !warned {
		return nil, nil
	}
	return &agent.Warning{Action: "terminate", Source: "imds", Left: time.Until(by), Known: true}, nil
}

// UserData implements agent.Metadata.
func (s metadata) UserData(context.Context) ([]byte, error) { return json.Marshal(s.m.boot) }

// Instance implements agent.Metadata.
func (s metadata) Instance(context.Context) (events.InstanceID, error) { return s.m.id, nil }

// control stands between the agent and its connection: each request is made, and
// its answer taken, at an instant of the agent's own, and some of both are lost.
type control struct {
	agent.Control
	m *machine

	mu sync.Mutex
	n  map[events.Verb]int
}

var (
	errLost    = errors.New("no answer came")
	errUnheard = fmt.Errorf("%w, after the effect", errLost)
)

// ask makes one request and lets happen to it what the seed tells.
func (c *control) ask(ctx context.Context, v events.Verb, do func(context.Context) error) error {
	m := c.m
	c.mu.Lock()
	if c.n == nil {
		c.n = map[events.Verb]int{}
	}
	c.n[v]++
	n := c.n[v]
	c.mu.Unlock()
	actor := m.actor(string(v))
	turn(actor)
	defer turn(actor)
	t := m.w.opt.trouble
	if !m.w.chaotic() || !m.w.chance.hits(t.request, "request", m.id, v, n) {
		return do(ctx)
	}
	about := []any{"how", m.id, v, n}
	defer m.spoil(time.Now())
	switch m.w.chance.below(4, about...) {
	case 0:
		m.w.hits.add("request lost")
		<-ctx.Done()
		return errLost
	case 1:
		m.w.hits.add("answer lost after the effect")
		_ = do(ctx)
		<-ctx.Done()
		return errLost
	case 2:
		m.w.hits.add("request repeated")
		_ = do(ctx)
		turn(actor)
		return do(ctx)
	}
	m.w.hits.add("request delayed")
	if !sleep(ctx, m.w.chance.between(100*time.Millisecond, 5*time.Second, append(about, "delay")...)) {
		return errLost
	}
	turn(actor)
	return do(ctx)
}

// Join implements agent.Control.
func (c *control) Join(ctx context.Context, r events.JoinRequest) (reply events.JoinReply, err error) {
	sent := time.Now()
	err = c.ask(ctx, events.VerbJoin, func(ctx context.Context) (err error) { reply, err = c.Control.Join(ctx, r); return err })
	if err == nil {
		c.m.renewed(sent, events.RenewReply{}) // joining holds as a renewal does
	}
	return reply, err
}

// Renew implements agent.Control.
func (c *control) Renew(ctx context.Context, h events.Heartbeat) (reply events.RenewReply, err error) {
	sent := time.Now()
	err = c.ask(ctx, events.VerbRenew, func(ctx context.Context) (err error) {
		if reply, err = c.Control.Renew(ctx, h); err == nil {
			c.m.heard()
		}
		return err
	})
	if err == nil {
		c.m.renewed(sent, reply)
	}
	return reply, err
}

// Notice implements agent.Control.
func (c *control) Notice(ctx context.Context, r events.NoticeRequest) error {
	return c.ask(ctx, events.VerbNotice, func(ctx context.Context) error { return c.Control.Notice(ctx, r) })
}

// Commit implements agent.Control.
func (c *control) Commit(ctx context.Context, r events.CommitRequest) error {
	c.m.committing()
	return c.ask(ctx, events.VerbCommit, func(ctx context.Context) error { return c.Control.Commit(ctx, r) })
}

// Reject implements agent.Control.
func (c *control) Reject(ctx context.Context, r events.RejectRequest) error {
	r.Path, r.Detail = c.m.local(r.Path), c.m.local(r.Detail)
	return c.ask(ctx, events.VerbReject, func(ctx context.Context) error { return c.Control.Reject(ctx, r) })
}

// Done implements agent.Control.
func (c *control) Done(ctx context.Context, r events.DoneRequest) error {
	r.Reason = c.m.local(r.Reason)
	return c.ask(ctx, events.VerbDone, func(ctx context.Context) error { return c.Control.Done(ctx, r) })
}

// Log implements agent.Control.
func (c *control) Log(ctx context.Context, b events.LogBatch) error {
	b.Lines = slices.Clone(b.Lines)
	for i := range b.Lines {
		b.Lines[i].Text = c.m.local(b.Lines[i].Text)
	}
	return c.ask(ctx, events.VerbLog, func(ctx context.Context) error { return c.Control.Log(ctx, b) })
}

// Adopt implements agent.Control.
func (c *control) Adopt(epoch int, jwt string) error {
	turn(c.m.actor("adopt"))
	c.m.w.hits.add("trainer restarted in place")
	return c.Control.Adopt(epoch, jwt)
}

// sleep waits for d and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}
