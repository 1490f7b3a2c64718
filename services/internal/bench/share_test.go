package bench

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// TestControlPlanesShare takes failovers in which nothing takes time but the
// control plane: the last checkpoint lies in the store, the seller sells at once,
// the machine's agent is there at once, and there is nothing to restore. What is
// left is from the notice at the gateway to the failover's record in the log.
func TestControlPlanesShare(t *testing.T) {
	n := pick(4, 120)
	s := begin(t)
	job := must(s.submit(s.ctx, 1))(t)
	s.started(job, "")
	var took, floors []time.Duration
	var parts phases
	for i := range n {
		e, _ := s.event(string(job), "job.started")
		from := e.Fact.(events.JobStarted)
		p := s.agents.of(from.Lease)
		last := must(p.save(s.ctx, 10, t.TempDir()))(t)
		before, _ := s.event(string(job), "job.failed-over")
		began := time.Now()
		p.warned(&last)
		s.must(s.until(s.ctx, fmt.Sprintf("failover %d is on record", i+1), func() bool {
			e, ok := s.event(string(job), "job.failed-over")
			return ok && e.ID != before.ID
		}))
		took = append(took, time.Since(began))
		parts.add(s, job, began)
		s.must(s.agents.err())
		floors = append(floors, s.floor(t))
	}
	share, floor := over(took), over(floors)
	t.Logf("control plane's share of a failover: %s; ten fsynced appends and ten round trips: %s; %d failovers", share, floor, n)
	for _, l := range parts.lines() {
		t.Log(l)
	}
	figure(t, "control plane's share of a failover, p50", share.p50, floor.p50, fmt.Sprintf("%d failovers; aim 100 ms", n))
	figure(t, "control plane's share of a failover, p99", share.p99, floor.p50, "aim 500 ms")
}

// floor is what ten appends and ten round trips take on this bus, one after the
// other: the least that a failover of so many facts can take.
func (s *stage) floor(t *testing.T) time.Duration {
	t.Helper()
	js := s.log.JetStream()
	nc := js.Conn()
	body := bytes.Repeat([]byte("x"), 700)
	if s.scratch == nil {
		cfg := jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.>"}, Storage: jetstream.FileStorage}
		s.scratch = must(js.CreateOrUpdateStream(s.ctx, cfg))(t)
		sub := must(nc.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) }))(t)
		t.Cleanup(func() { _ = sub.Unsubscribe() })
		s.asker = s.connect(t)
	}
	began := time.Now()
	for range 10 {
		must(js.Publish(s.ctx, "bench.append", body))(t)
		must(s.asker.RequestWithContext(s.ctx, "echo", body))(t)
	}
	return time.Since(began)
}

// connect opens one more connection to MAIN, over TCP as an agent's is.
func (s *stage) connect(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := natsbus.Connect(natsbus.ConnConfig{URLFile: s.bus.URLFile(), Credentials: must(s.creds("asker"))(t), Name: "asker"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// phases are where the time of a failover goes, by the log's own records.
type phases struct {
	names []string
	at    map[string][]time.Duration
}

func (p *phases) add(s *stage, job events.JobID, began time.Time) {
	if p.at == nil {
		p.at = map[string][]time.Duration{}
	}
	started, _ := s.event(string(job), "job.started")
	lease := string(started.Fact.(events.JobStarted).Lease)
	for _, step := range []struct{ of, kind string }{
		{string(job), "job.noticed"}, {string(job), "job.committed"}, {lease, "lease.intended"}, {lease, "lease.launched"}, {string(job), "job.leased"},
		{string(job), "job.joined"}, {string(job), "job.placed"}, {string(job), "job.started"}, {string(job), "job.failed-over"},
	} {
		if e, ok := s.event(step.of, step.kind); ok {
			if p.at[step.kind] == nil {
				p.names = append(p.names, step.kind)
			}
			p.at[step.kind] = append(p.at[step.kind], e.Time.Sub(began))
		}
	}
}

func (p *phases) lines() (out []string) {
	for _, n := range p.names {
		out = append(out, fmt.Sprintf("  %-16s after %s", n, over(p.at[n])))
	}
	return out
}
