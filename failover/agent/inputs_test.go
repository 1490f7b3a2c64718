package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/input"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// bucket is a source of two files, each of which takes a while.
type bucket struct {
	takes   time.Duration
	refuse  error
	failing int // that many times
	opened  int
	keys    string
}

func (b *bucket) List(context.Context) ([]input.File, error) {
	if b.refuse != nil {
		return nil, b.refuse
	}
	return []input.File{{Path: "a.bin", Size: 3, Key: "a 1"}, {Path: "deep/b.bin", Size: 3, Key: "b 1"}}, nil
}

func (b *bucket) Open(ctx context.Context, f input.File, _, n int64) (io.ReadCloser, error) {
	select {
	case <-time.After(b.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b.failing > 0 {
		b.failing--
		return nil, errors.New("the far end is away")
	}
	b.opened++
	return io.NopCloser(bytes.NewReader([]byte("abc")[:n])), nil
}

func (b *bucket) mounted(w *world, j *events.JoinReply) {
	j.Spec.Mounts = []events.Mount{{Path: "~/data", Source: "s3://my-bucket/set"}}
	w.cfg.OpenSource = func(s input.Source, cfg input.OpenConfig) (input.Remote, error) {
		b.keys = cfg.Getenv("AWS_ACCESS_KEY_ID") + cfg.Getenv("HOME")
		if s.Place != "my-bucket" {
			return nil, fmt.Errorf("source %v", s)
		}
		return b, nil
	}
}

func (w *world) clock() events.AgentClock {
	beats := w.gw.Record().Beats
	return beats[len(beats)-1].Clock
}

func TestInputsComeAheadOfTheOrderAndAreNotTheFailoversTime(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		b := &bucket{takes: 5 * time.Second}
		b.mounted(w, j)
		j.Spec.Envs = map[string]string{"AWS_ACCESS_KEY_ID": "key"}
		var seen []string
		j.Spec.Setup = "look"
		w.machine.Programs["setup.sh"] = func(r *agenttest.Running) agent.Exit {
			for _, name := range []string{"a.bin", "deep/b.bin"} {
				text, err := os.ReadFile(filepath.Join(r.Getenv("HOME"), "data", name))
				seen = append(seen, fmt.Sprint(string(text), err))
			}
			return agent.Exit{}
		}
		w.start()
		w.sleep(20 * time.Second)
		w.equal("fetched before any order", b.opened, 2)
		w.gw.Order(events.OrderStart, "start-1")
		w.until("training", w.running)
		w.equal("what setup saw", seen, "[abc<nil> abc<nil>]")
		w.sleep(10 * time.Second)
		c := w.clock()
		w.equal("time for inputs after the order", c.InputsMS, 0)
		if c.AheadMS < 5000 || c.AheadMS > 6000 {
			t.Errorf("%d ms ahead of it", c.AheadMS)
		}
		w.equal("only the job's own keys", b.keys, "key")
		if !w.said("~/data: 2 files") {
			t.Error("the job's output does not say what came")
		}
		w.machine.Started()[len(w.machine.Started())-1].Die("SIGKILL")
		w.until("the end is told", func() bool { return len(w.gw.Record().Dones) == 1 })
		w.gw.Order(events.OrderStart, "start-2")
		w.until("training again", w.running)
		w.equal("fetched for a restart in place", b.opened, 2)
	})
}

func TestAnOrderInTheMiddleOfTheInputsWaitsForThemAndBeginsNothingAgain(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		b := &bucket{takes: 10 * time.Second}
		b.mounted(w, j)
		w.start()
		w.sleep(4 * time.Second)
		w.gw.Order(events.OrderStart, "start-1")
		w.until("training", w.running)
		w.sleep(10 * time.Second)
		w.equal("fetched", b.opened, 2)
		c := w.clock()
		if sum := c.AheadMS + c.InputsMS; sum < 9500 || sum > 11_000 || c.AheadMS < 3000 || c.AheadMS > 9000 || c.SetupMS < c.InputsMS {
			t.Errorf("the time is counted twice or not at all: %+v", c)
		}
	})
}

func TestASourceThatIsAwayIsTriedAgainAndOneThatRefusesEndsTheJob(t *testing.T) {
	for name, b := range map[string]*bucket{
		"away":    {failing: 9},
		"refuses": {refuse: &input.Refusal{What: "403 Forbidden", Remedy: "give the job AWS_ACCESS_KEY_ID"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, j *events.JoinReply) {
				b.mounted(w, j)
				w.boot()
				if name == "away" {
					w.until("training", w.running)
					if !w.said("fetching ~/data, trying again") || b.opened != 2 {
						t.Error("the trouble is not told")
					}
					return
				}
				w.until("the end is told", func() bool { return len(w.gw.Record().Dones) == 1 })
				if d := w.gw.Record().Dones[0]; d.Code != 1 || !strings.Contains(d.Reason, "give the job AWS_ACCESS_KEY_ID") || !strings.Contains(d.Reason, "~/data") {
					t.Errorf("done %+v", d)
				}
			})
		})
	}
}

func TestASourceThatIsNoneEndsTheJob(t *testing.T) {
	for path, source := range map[string]string{"~/x": "ftp://host/x", "../x": "s3://my-bucket/set"} {
		inWorld(t, func(w *world, j *events.JoinReply) {
			(&bucket{}).mounted(w, j)
			j.Spec.Mounts = []events.Mount{{Path: path, Source: source}}
			w.boot()
			w.until("the end is told", func() bool { return len(w.gw.Record().Dones) == 1 })
			w.equal("exit code", w.gw.Record().Dones[0].Code, 1)
		})
	}
}

func TestTheNextMachineOfTheHostTakesInputsFromTheCache(t *testing.T) {
	cache := t.TempDir()
	var opened int
	for _, tenant := range []string{"acme", "acme", "beta"} {
		b := &bucket{}
		inWorld(t, func(w *world, j *events.JoinReply) {
			b.mounted(w, j)
			j.Store.Tenant, j.Store.Cache, w.cfg.InputLimit = tenant, cache, 1<<40
			w.boot()
			w.until("training", w.running)
			text, err := os.ReadFile(w.cfg.Dir + "/home/data/deep/b.bin")
			w.equal("content", fmt.Sprint(string(text), err), "abc<nil>")
		})
		opened = opened*10 + b.opened
	}
	if opened != 202 {
		t.Errorf("files fetched by the three machines: %03d, want 2, 0 of the same tenant's, and 2 of another's", opened)
	}
}

func TestCachesOfTheJobOutliveItsMachine(t *testing.T) {
	cache := t.TempDir()
	for _, tc := range []struct{ tenant, want string }{{"acme", ""}, {"acme", "weights"}, {"beta", ""}} {
		inWorld(t, func(w *world, j *events.JoinReply) {
			j.Spec.Caches = []string{"~/.cache/huggingface"}
			j.Store.Tenant, j.Store.Cache = tc.tenant, cache
			w.boot()
			w.until("training", w.running)
			path := w.cfg.Dir + "/home/.cache/huggingface/model"
			text, _ := os.ReadFile(path)
			w.equal("what the script downloaded before", string(text), tc.want)
			if err := os.WriteFile(path, []byte("weights"), 0o644); err != nil {
				t.Error(err)
			}
		})
	}
	for _, bad := range []string{"~", "~/..", "/etc", "data"} {
		inWorld(t, func(w *world, j *events.JoinReply) {
			j.Spec.Caches = []string{bad}
			j.Store.Cache = cache
			w.boot()
			w.until("the end is told", func() bool { return len(w.gw.Record().Dones) == 1 })
		})
	}
}
