package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
)

// lone is an agent with a process of its own, which can be stopped.
func lone(url, machine, ended string) error {
	processes, err := NewLinux()
	if err != nil {
		return err
	}
	log, err := zap.NewDevelopment()
	if err != nil {
		return err
	}
	boot := events.Bootstrap{Job: "j", Epoch: 1, Lease: "j-1-1", URL: url, Timers: events.DefaultTimers().Divide(25)}
	b, err := OpenBus(BusConfig{Bootstrap: boot, Entropy: rand.Reader, Log: log})
	if err != nil {
		return err
	}
	defer b.Close()
	err = Run(context.Background(), Config{Bootstrap: boot, Dir: machine, Control: b, Processes: processes, Env: os.Environ(), Log: log,
		Quiet: -1, WatchEvery: 10 * time.Millisecond, LogEvery: 20 * time.Millisecond, Grace: time.Second})
	return os.WriteFile(ended, []byte(fmt.Sprint(err)), 0o600)
}

// pen answers agents and writes down what they ask, in order.
type pen struct {
	mu     sync.Mutex
	fenced bool
	asked  []events.Verb
}

func (p *pen) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// since returns what was asked from a place on.
func (p *pen) since(n int) []events.Verb {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]events.Verb(nil), p.asked[n:]...)
}

func (p *pen) serve(t *testing.T, url string, join events.JoinReply) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	_, err = nc.Subscribe("agent.*.*.*", func(m *nats.Msg) {
		_, _, verb, err := events.ParseAgentSubject(m.Subject)
		if err != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if verb != events.VerbLog {
			p.asked = append(p.asked, verb)
		}
		var reply any = events.Reply{}
		switch over := (&events.Refusal{Code: events.RefusedFenced, Message: "the epoch is over"}); {
		case verb == events.VerbJoin:
			reply = join
		case verb == events.VerbRenew && p.fenced:
			reply = events.RenewReply{Refusal: over}
		case verb == events.VerbRenew:
			reply = events.RenewReply{Order: events.OrderStart, OrderID: "start-1"}
		case p.fenced:
			reply = events.Reply{Refusal: over}
		}
		data, _ := json.Marshal(reply)
		_ = m.Respond(data)
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

const untiring = `for i in $(seq 1000000); do
  d=$SPOTFERRY_CHECKPOINT_DIR/checkpoint-$i; mkdir -p $d; printf '{"global_step": %d}' $i > $d/trainer_state.json
  rm -rf $SPOTFERRY_CHECKPOINT_DIR/checkpoint-$((i - 3)); sleep 0.05
done`

// TestAnAgentThatWasStoppedAsksBeforeItCommits stops the agent, and not its
// trainer, for three holds. When it wakes up the trainer has saved on, and
// the first thing it may do is to ask whether the job is still its own.
func TestAnAgentThatWasStoppedAsksBeforeItCommits(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		t.Run(fmt.Sprintf("fenced meanwhile %v", fenced), func(t *testing.T) {
			t.Parallel()
			s, _ := bus(t, server.Options{})
			path, machine, ended := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "ended")
			store, err := dir.Open(dir.Config{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			p := &pen{}
			p.serve(t, s.ClientURL(), events.JoinReply{
				Store: events.StoreGrant{Kind: "dir", Path: path, Tenant: "acme"},
				Spec:  events.JobSpec{Run: untiring, Policy: events.Policy{Checkpoint: events.CheckpointPolicy{Framework: "hf"}}},
			})
			var log bytes.Buffer
			cmd := exec.Command(os.Args[0], "agent", s.ClientURL(), machine, ended)
			cmd.Stderr = &log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); killAll(machine) })
			soon(t, "it commits", func() bool { return contains(p.since(0), events.VerbCommit) })

			hold := events.DefaultTimers().Divide(25).Hold
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(3 * hold)
			p.mu.Lock()
			p.fenced = fenced
			p.mu.Unlock()
			before := p.count()
			woken := time.Now()
			_ = cmd.Process.Signal(syscall.SIGCONT)
			if !fenced {
				soon(t, "it commits again", func() bool { return contains(p.since(before), events.VerbCommit) })
				if first := p.since(before)[0]; first != events.VerbRenew {
					t.Errorf("its first word after the pause is %s", first)
				}
				return
			}
			soon(t, "it ends", func() bool { _, err := os.Stat(ended); return err == nil })
			if took := time.Since(woken); took > events.DefaultTimers().Divide(25).Fence+2*time.Second {
				t.Errorf("it ended after %v", took)
			}
			if why, _ := os.ReadFile(ended); !strings.Contains(string(why), ErrFenced.Error()) {
				t.Errorf("it ended with %s\n%s", why, &log)
			}
			if contains(p.since(before), events.VerbCommit) {
				t.Errorf("it asked to commit: %v", p.since(before))
			}
			if left := inDir(machine); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

func contains(asked []events.Verb, v events.Verb) bool {
	for _, a := range asked {
		if a == v {
			return true
		}
	}
	return false
}

func soon(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// inDir lists the processes that work below a directory.
func inDir(dir string) (pids []proc) {
	all, _ := processTable()
	for _, p := range all {
		if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.pid)); err == nil && strings.HasPrefix(cwd, dir) {
			pids = append(pids, p)
		}
	}
	return pids
}

func killAll(dir string) {
	for _, p := range inDir(dir) {
		if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			continue
		}
	}
}
