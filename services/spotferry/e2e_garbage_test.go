package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/events/natsbus"
)

// A system that has done a job, a second one on the same directory, garbage on
// every subject, and another job.
func TestGarbageOnTheBusIsSetAsideAndTheSystemGoesOn(t *testing.T) {
	s := quick(t)
	s.serve()
	oneLine(t, s.command("dev"), exitInternal, "already in use by another process: stop it, or choose another --state")

	c := calm{name: "bystander", steps: 150, saveEvery: 25, hidden: 64, seed: 3, pace: 50 * time.Millisecond}
	job := s.submit(c)
	until(t, "it trains", func() bool { _, step := s.trainerOf(job); return step > 5 })
	dead := s.deadLetters()
	sent := s.litter(job)
	until(t, "what reached a stream that is worked on was set aside", func() bool { return s.deadLetters() > dead })
	if j := s.closed(job); j.Status != "succeeded" || j.Epochs != 1 {
		t.Errorf("the job that ran meanwhile is %s (%s) after %d placements", j.Status, j.Detail, j.Epochs)
	}
	c.name, c.steps = "after", 50
	after := s.submit(c)
	if j := s.closed(after); j.Status != "succeeded" || j.Checkpoint.Weights != uninterrupted(t, c.script(0)) {
		t.Errorf("the job that came after is %s (%s), with weights %s", j.Status, j.Detail, j.Checkpoint.Weights)
	}
	t.Logf("%d messages of garbage, %d dead letters", sent, s.deadLetters()-dead)
	s.settled(job, after)
	s.serve() // it starts again on streams with garbage in them
	if j := s.closed(after); j.Status != "succeeded" {
		t.Errorf("after another start the job is %s", j.Status)
	}
}

// deadLetters is what doctor counts.
func (s *installation) deadLetters() (n int) {
	s.t.Helper()
	r := s.command("doctor", "-o", "json") // exits with a code of its own when something is wrong
	var doc struct {
		Items []struct{ Name, Detail string }
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil {
		s.t.Fatalf("doctor: exit %d, %.300q, %s", r.code, r.out, r.err)
	}
	for _, c := range doc.Items {
		if c.Name == "dead letters" {
			if _, err := fmt.Sscan(c.Detail, &n); err != nil {
				s.t.Fatalf("doctor says of dead letters: %q", c.Detail)
			}
			return n
		}
	}
	s.t.Fatalf("doctor does not count dead letters: %s", r.out)
	return 0
}

// litter publishes nonsense with a service's credential: on every stream, on
// what agents ask, and on what people ask.
func (s *installation) litter(job string) (sent int) {
	t := s.t
	t.Helper()
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: filepath.Join(s.dir, "operator"), Entropy: zeros{}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	creds, err := op.Service("vandal")
	if err != nil {
		t.Fatal(err)
	}
	nc, err := natsbus.Connect(natsbus.ConnConfig{URLFile: natsbus.URLFile(filepath.Join(s.dir, "bus")), Credentials: creds, Name: "vandal"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	lease := job + "-1-1"
	random := rand.New(rand.NewPCG(1, 2))
	for _, subject := range []string{
		"sf.v1.job.local." + job + ".committed", "sf.v1.job.local." + job + ".placed", "sf.v1.job.local.nobody.submitted", "sf.v1.job.x",
		"sf.v1.lease.local." + lease + ".ended", "sf.v1.lease.local." + lease + ".launched", "sf.v1.lease.local.x-1-1.ended",
		"sf.v1.money.local.settled", "sf.v1.money.nobody.reserved",
		"sf.v1.offer.local.us-east.x", "sf.v1.quarantine.local.us-east.x", "sf.v1.hist.x",
		"sf.v1.log.local." + job + ".1", "sf.v1.signal.local." + job + ".1", "sf.v1.signal.local." + job + ".zwei", "sf.v1.dlq.x",
		"agent." + job + ".1.renew", "agent." + job + ".1.commit", "agent." + job + ".1.done", "agent." + job + ".99.join", "agent.x.y.z",
		"down." + job + ".1", "sf.api.root.job", "sf.api.root.submit", "sf.api.root.cancel", "sf.api.root.nonsense", "sf.api.x.bill",
	} {
		for range 8 {
			m := nats.NewMsg(subject)
			m.Data = nonsense(random)
			m.Header = headers(random)
			if strings.HasPrefix(subject, "agent.") {
				m.Reply = nats.NewInbox()
			}
			if err := nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	return sent
}

// nonsense is bytes, text, or JSON of the wrong shape.
func nonsense(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(4000))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return [][]byte{
		b, nil, []byte("null"), []byte("{}"), []byte(`{"epoch":-1,"step":1e300,"lease":[],"job":{"id":"\u0000"}}`), []byte(strings.Repeat("[", 5000)),
	}[r.IntN(6)]
}

// headers are none, strange ones, or such as events have, with nonsense in them.
func headers(r *rand.Rand) nats.Header {
	h := nats.Header{}
	switch r.IntN(4) {
	case 0:
		h.Set("ce-type", "job.committed")
		h.Set("ce-id", "not an id")
		h.Set("ce-time", "yesterday")
	case 1:
		h.Set("ce-type", "com.example.unheard-of")
		h.Set("ce-specversion", "9")
	case 2:
		h.Set("Nats-Msg-Id", fmt.Sprint(r.Uint64()))
		h.Set("X-Odd", strings.Repeat("z", 500))
	}
	return h
}

// zeros is entropy for what is never kept.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
