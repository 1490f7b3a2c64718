package remote_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote"
	"github.com/spotferry/spotferry/events"
)

// python returns an interpreter that has nats-py: $SPOTFERRY_PYTHON, or the system's.
func python(t *testing.T) string {
	t.Helper()
	for _, p := range []string{os.Getenv("SPOTFERRY_PYTHON"), "python3"} {
		if p != "" && exec.CommandContext(t.Context(), p, "-c", "import nats").Run() == nil {
			return p
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no Python with nats-py: pip install nats-py into an environment and name its interpreter in SPOTFERRY_PYTHON")
	}
	t.Skip("no Python with nats-py here: pip install nats-py into an environment and name its interpreter in SPOTFERRY_PYTHON")
	return ""
}

// shed is the example seller in Python, as a process on a bus of its own.
type shed struct {
	t    *testing.T
	argv []string
	cmd  *exec.Cmd
	nc   *nats.Conn
}

const shedScript = "../../../deploy/examples/seller/seller.py"

func newShed(t *testing.T, stock int) (*shed, events.Offer) {
	t.Helper()
	interpreter := python(t)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the bus did not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	dir := t.TempDir()
	o := providertest.SampleOffer("shed", "home", events.DollarPerHour)
	o.TTLS = 60
	var entry map[string]any
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &entry)
	}
	if err != nil {
		t.Fatal(err)
	}
	entry["stock"] = stock
	delete(entry, "market_effective")
	if text, err = json.Marshal([]any{entry}); err == nil {
		err = os.WriteFile(filepath.Join(dir, "offers.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	sh := &shed{t: t, nc: nc, argv: []string{
		interpreter, shedScript, "--url", s.ClientURL(), "--name", "shed",
		"--offers", filepath.Join(dir, "offers.json"), "--state", filepath.Join(dir, "shed.db"), "--", "sleep", "300",
	}}
	sh.start()
	t.Cleanup(func() {
		sh.endMachines()
		sh.kill()
	})
	return sh, o
}

func (s *shed) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.argv[0], s.argv[1:]...) //nolint:noctx // ended by kill
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	var errs bytes.Buffer
	s.cmd.Stderr = &errs
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "serving" {
		s.t.Fatalf("the seller said %q: %v\n%s", line, err, errs.Bytes())
	}
}

// kill ends the seller as a crash does. Its machines go on.
func (s *shed) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *shed) client() *remote.Client {
	s.t.Helper()
	c, err := remote.NewClient(s.nc, "shed", remote.ClientConfig{})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// endMachines leaves no process behind, whatever a check has left.
func (s *shed) endMachines() {
	l, err := s.client().List(s.t.Context())
	if err != nil {
		return
	}
	for _, i := range l.Instances {
		_ = s.client().Terminate(s.t.Context(), i.ID)
	}
}

// TestASellerInPythonKeepsTheContract: nothing but the messages on the bus is
// needed to sell.
func TestASellerInPythonKeepsTheContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		s, o := newShed(t, 50)
		c := s.client()
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		return providertest.Harness{
			Seller: c, Spec: func() provider.LaunchSpec { return providertest.SampleSpec(o) }, Pass: time.Sleep, Settle: 5 * time.Second,
		}
	})
}

// TestASellerInPythonForgetsNothing: what it has sold stands in its file, and what
// has no stock left is not sold.
func TestASellerInPythonForgetsNothing(t *testing.T) {
	s, o := newShed(t, 2)
	c := s.client()
	spec := providertest.SampleSpec(o)
	var sold []provider.Instance
	for n := range 2 {
		i, err := c.Launch(t.Context(), spec, fmt.Sprint("token-", n))
		if err != nil {
			t.Fatal(err)
		}
		sold = append(sold, i)
	}
	if _, err := c.Launch(t.Context(), spec, "token-3"); provider.KindOf(err) != provider.NoCapacity {
		t.Errorf("a third of two machines: %v, want no capacity", err)
	}
	if offers, err := c.Offers(t.Context()); err != nil || len(offers) != 1 || offers[0].Available() {
		t.Errorf("offers %+v, %v; want one that is sold out", offers, err)
	}
	s.kill()
	if err := syscall.Kill(s.pidOf("token-0"), syscall.SIGKILL); err != nil { // it ends while nobody looks
		t.Fatal(err)
	}
	s.start()
	l, err := c.List(t.Context())
	if err != nil || !l.Complete || len(l.Instances) != 2 {
		t.Fatalf("the list after a crash is %+v, %v; want both machines", l, err)
	}
	first, _ := l.Find("token-0")
	second, _ := l.Find("token-1")
	if first.State != provider.Gone || first.EndedBy != "machine" || second.State != provider.Running || second.ID != sold[1].ID {
		t.Errorf("after a crash: %+v and %+v; want the first ended by the machine, and the second as it was", first, second)
	}
	if again, err := c.Launch(t.Context(), spec, "token-1"); err != nil || again.ID != sold[1].ID {
		t.Errorf("the token gave %+v, %v; want the machine it named before", again, err)
	}
}

// pidOf finds a machine's process by its environment.
func (s *shed) pidOf(token string) int {
	s.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && bytes.Contains(text, []byte("SPOTFERRY_MACHINE="+token+"\x00")) {
			var pid int
			if _, err := fmt.Sscanf(f, "/proc/%d/environ", &pid); err == nil {
				return pid
			}
		}
	}
	s.t.Fatalf("no process of %s", token)
	return 0
}
