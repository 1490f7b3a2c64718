//go:build linux

package local

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/trace"
)

// The test binary is also every program that these tests run: the host, an
// agent, what an agent forks, and a control plane that is killed in the middle.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		programs := map[string]func([]string) error{"host": playHost, "agent": playAgent, "stubborn": playStubborn, "plane": playPlane}
		if p := programs[os.Args[1]]; p != nil {
			if err := p(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	// These tests mostly wait for other processes.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func playHost(args []string) error { return RunHost(context.Background(), args[1]) }

// role is what an agent of these tests is told to do, as user data.
type role struct {
	Do    string        `json:"do"`    // "wait", "exit", "fork", "poll", "save", "told", "agree"
	Out   string        `json:"out"`   // where it reports, outside its machine
	For   time.Duration `json:"for"`   // how long a save takes
	Every time.Duration `json:"every"` // between saves
}

func playAgent([]string) error {
	var r role
	status, body := bornWith()
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		return fmt.Errorf("user data: status %d, %q: %w", status, body, err)
	}
	report(r.Out, fmt.Sprintf("pid %d", os.Getpid()))
	switch r.Do {
	case "exit":
		os.Exit(7)
	case "fork":
		return fork(r.Out, 3)
	case "poll":
		poll(r.Out)
	case "save":
		return save(r)
	case "told":
		told(r.Out)
	case "agree":
		agree(r.Out)
	}
	select {}
}

// fork starts a chain of processes, each in a session of its own, deaf to
// everything that can be ignored, orphaned where they can be, and started with no
// variable but one.
func fork(out string, depth int) error {
	for range 2 {
		c := exec.Command("/proc/self/exe", "stubborn", out, fmt.Sprint(depth))
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Env = []string{"SPOTFERRY_CHECKPOINT_DIR=" + os.Getenv("SPOTFERRY_MACHINE_DIR") + "/work"}
		if err := c.Start(); err != nil {
			return err
		}
	}
	select {}
}

func playStubborn(args []string) error {
	ignoreAll()
	report(args[0], fmt.Sprintf("pid %d", os.Getpid()))
	var depth int
	if _, err := fmt.Sscan(args[1], &depth); err != nil {
		return err
	}
	if depth > 0 {
		c := exec.Command("/proc/self/exe", "stubborn", args[0], fmt.Sprint(depth-1))
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			return err
		}
		if depth%2 == 1 {
			return nil // and orphans it
		}
	}
	select {}
}

// poll writes down every change of what instance-action says.
func poll(out string) {
	token, last := newToken(), ""
	for ; ; time.Sleep(10 * time.Millisecond) {
		status, _, body := ask("/latest/meta-data/spot/instance-action", token)
		line := fmt.Sprint(status)
		if status == 200 {
			line += " " + body
		}
		if line != last {
			report(out, line)
			last = line
		}
	}
}

// save writes checkpoints as a trainer does: a directory, files, and last of all its state.
func save(r role) error {
	time.Sleep(r.Every)
	for n := 1; ; n++ {
		dir := filepath.Join(os.Getenv("SPOTFERRY_MACHINE_DIR"), "work", "out", fmt.Sprintf("checkpoint-%d", n))
		report(r.Out, fmt.Sprintf("begin %d", n))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		time.Sleep(r.For)
		if err := os.WriteFile(filepath.Join(dir, complete), []byte("{}"), 0o644); err != nil {
			return err
		}
		report(r.Out, fmt.Sprintf("end %d", n))
		time.Sleep(r.Every)
	}
}

// report adds a line in one write.
func report(path, line string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		panic(err)
	}
}

// playPlane is a control plane that kills itself when it reaches a step.
func playPlane(args []string) error {
	var cfg struct {
		Dir, Exe            string
		HostArgs, AgentArgs []string
		Market              trace.Spec
		Clock               trace.Clock
		EvidenceDir         string
	}
	var spec provider.LaunchSpec
	if err := json.Unmarshal([]byte(args[0]), &cfg); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(args[1]), &spec); err != nil {
		return err
	}
	s, err := New(Config{
		Dir: cfg.Dir, Exe: cfg.Exe, HostArgs: cfg.HostArgs, AgentArgs: cfg.AgentArgs, Market: cfg.Market, Clock: cfg.Clock, EvidenceDir: cfg.EvidenceDir,
	})
	if err != nil {
		return err
	}
	s.step = func(name string) {
		if name == args[3] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	i, err := s.Launch(context.Background(), spec, args[2])
	if err != nil {
		return err
	}
	if err := s.Terminate(context.Background(), i.ID); err != nil {
		return err
	}
	return fmt.Errorf("step %s was never reached", args[3])
}

// ask puts one question to the metadata service.
func ask(path, token string) (status int, kind, body string) {
	return request("GET", path, map[string]string{tokenHeader: token})
}

func newToken() string {
	_, _, token := request("PUT", "/latest/api/token", map[string]string{ttlHeader: "60"})
	return token
}

func endpoint() string { return strings.TrimSuffix(os.Getenv(MetadataEndpoint), "/") }
