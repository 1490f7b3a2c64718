package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// What deploy/ ships is started here as it is written there: each program with
// the command and the environment of its compose service or of its unit. Only paths are
// moved below a directory of the test, and the programs themselves are words of the one binary.

const programsDir = "/usr/lib/spotferry"

// deployed is one program as a file of deploy/ has it started.
type deployed struct {
	name string
	argv []string
	env  []string
}

// site is a machine with an installation on it.
type site struct {
	t    *testing.T
	root string // what / is to the files
	dir  string // the installation
	bin  string // what programsDir is
}

func newSite(t *testing.T, dir string, flags ...string) site {
	t.Helper()
	root := t.TempDir()
	s := site{t: t, root: root, dir: filepath.Join(root, dir), bin: filepath.Join(root, programsDir)}
	exe, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(s.bin, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{"spotferry": "", "agent": "agent"}
	for _, name := range []string{"bus", "provider-local", "gateway", "bidder", "watcher", "failover", "ledger", "console"} {
		words[name] = "service " + name
	}
	for name, word := range words {
		script := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", exe, word)
		if err := os.WriteFile(filepath.Join(s.bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := command(t, append([]string{"creds", "init", s.dir, "--scale", "240", "--divide", "10"}, flags...)...)
	if r.code != 0 {
		t.Fatalf("creds init exited with %d: %s", r.code, r.err)
	}
	t.Cleanup(func() {
		until(t, "its machines are gone", func() bool {
			left := processesIn(t, root)
			for _, p := range left {
				p.kill()
			}
			return len(left) == 0
		})
	})
	return s
}

// running is a program that has been started.
type running struct {
	deployed
	*program
	admin string
}

// start starts everything and waits until each says that it is ready.
func (s site) start(all []deployed) []*running {
	s.t.Helper()
	var out []*running
	for _, d := range all {
		p := &program{Cmd: exec.Command(d.argv[0], d.argv[1:]...), began: time.Now(), stderr: &heard{}, stdout: &heard{}, ended: make(chan struct{})}
		p.Stdout, p.Stderr, p.Dir = p.stdout, p.stderr, s.root
		p.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.root, "GOCOVERDIR=" + s.t.TempDir()}, d.env...)
		if err := p.Start(); err != nil {
			s.t.Fatalf("%s: %v", d.name, err)
		}
		go func() { _ = p.Wait(); close(p.ended) }()
		s.t.Cleanup(p.kill)
		out = append(out, &running{deployed: d, program: p})
	}
	for _, r := range out {
		said := ""
		until(s.t, r.name+" is ready", func() bool {
			if r.over() {
				s.t.Fatalf("%s ended: %s", r.name, r.stderr)
			}
			var ok bool
			said, ok = r.ask("/readyz?verbose")
			return ok
		})
		if !strings.Contains(said, "[+]") || !strings.Contains(said, " ok\n") {
			s.t.Errorf("%s is ready without saying why: %q", r.name, said)
		}
	}
	return out
}

// ask asks the admin port, which is found in the program's log.
func (r *running) ask(path string) (string, bool) {
	if r.admin == "" {
		for line := range strings.Lines(r.stderr.String()) {
			var said struct{ Msg, Addr string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "admin port open" {
				r.admin = said.Addr
			}
		}
		if r.admin == "" {
			return "no admin port yet", false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+path, nil)
	if err != nil {
		return err.Error(), false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error(), false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err == nil && resp.StatusCode == http.StatusOK
}

// proves runs a short job through what was started, and stops it all.
func (s site) proves(all []*running) {
	s.t.Helper()
	file := filepath.Join(s.root, "job.yaml")
	job := "name: short\nrun: |\n  echo carried\n  sleep 1\nresources:\n  accelerators: V100:1\n  use_spot: false\npolicy:\n  budget: $50\n  work: {steps: 1, hours_on: {V100: 1h}}\n"
	if err := os.WriteFile(file, []byte(job), 0o600); err != nil {
		s.t.Fatal(err)
	}
	r := command(s.t, "run", file, "-y", "--accept-risk", "--state", s.dir)
	if r.code != 0 {
		for _, p := range all {
			s.t.Logf("%s: %.3000s", p.name, p.stderr)
		}
		s.t.Fatalf("run exited with %d: %s%s", r.code, r.out, r.err)
	}
	until(s.t, "the job is closed and charged", func() bool {
		shown := command(s.t, "job", "show", "short", "-o", "json", "--state", s.dir)
		var j jobShown
		return shown.code == 0 && json.Unmarshal([]byte(shown.out), &j) == nil && j.Closed && j.Status == "succeeded" && j.Spent != ""
	})
	if l := command(s.t, "job", "logs", "short", "--state", s.dir); !strings.Contains(l.out, "carried") {
		s.t.Errorf("job logs exited with %d and shows %q%s", l.code, l.out, l.err)
	}
	s.measures(all)
	s.stops(all)
}

// core are metrics that somebody has to export once a job has run.
var core = []string{
	"spotferry_build_info", "spotferry_offers", "spotferry_feed_age_seconds", "spotferry_price_dollars", "spotferry_bids_total",
	"spotferry_instances", "spotferry_failover_oldest_seconds", "spotferry_checkpoints_total", "spotferry_budget_overrun_dollars_total",
	"spotferry_spend_dollars_total", "spotferry_ledger_lag_seconds", "spotferry_consumer_pending", "spotferry_dead_letters",
	"spotferry_bus_appends_total", "spotferry_provider_calls_total", "spotferry_lost_work_seconds_total",
}

func (s site) measures(all []*running) {
	s.t.Helper()
	exported := ""
	for _, p := range all {
		text, ok := p.ask("/metrics")
		if !ok {
			s.t.Errorf("%s: /metrics: %s", p.name, text)
			continue
		}
		if !strings.Contains(text, fmt.Sprintf("program=%q", p.name)) {
			s.t.Errorf("%s does not say what it was built from", p.name)
		}
		exported += text
		promtool(s.t, p.name, text)
	}
	for _, name := range core {
		if !strings.Contains(exported, "\n"+name+"{") && !strings.Contains(exported, "\n"+name+" ") {
			s.t.Errorf("nobody exports %s", name)
		}
	}
}

func promtool(t *testing.T, who, text string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is missing: apt-get install prometheus")
		}
		t.Log("metrics are not linted: promtool is missing (apt-get install prometheus)")
		return
	}
	c := exec.CommandContext(t.Context(), tool, "check", "metrics")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("%s: promtool check metrics: %v: %s", who, err, out)
	}
}

// stops ends everything in the order in which it was started, backwards, and looks for what is left.
func (s site) stops(all []*running) {
	s.t.Helper()
	for i := len(all) - 1; i >= 0; i-- {
		p := all[i]
		_ = p.Process.Signal(syscall.SIGTERM)
		until(s.t, p.name+" stops", p.over)
		if code := p.ProcessState.ExitCode(); code != 0 {
			s.t.Errorf("%s exited with %d: %s", p.name, code, p.stderr)
		}
		for line := range strings.Lines(p.stderr.String()) {
			var said struct{ Level, Msg string }
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				s.t.Errorf("%s says what is no JSON: %q", p.name, line)
			}
			if said.Msg == "bus lost" || said.Level == "error" || said.Level == "panic" {
				s.t.Errorf("%s: %s", p.name, line)
			}
		}
	}
	if left := processesIn(s.t, s.root); len(left) != 0 {
		s.t.Errorf("left behind: %v", left)
	}
}

// --- compose

type composeFile struct {
	Services map[string]composeService
}

type composeService struct {
	Command     []string
	Environment map[string]string
	Volumes     []string
	User        string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	Healthcheck struct{ Test []string }
}

// interpolate fills in ${NAME:-default}, as compose does.
func interpolate(text string, env map[string]string) string {
	return regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`).ReplaceAllStringFunc(text, func(m string) string {
		f := regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`).FindStringSubmatch(m)
		if v, ok := env[f[1]]; ok {
			return v
		}
		return f[2]
	})
}

func TestComposeRunsAJob(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight programs")
	}
	s, all := composed(t, nil)
	s.proves(s.start(all))
}

// composed is a site with everything that compose.yaml starts; env are variables that whoever runs compose has set.
func composed(t *testing.T, env map[string]string) (site, []deployed) {
	t.Helper()
	port := freePort(t)
	s := newSite(t, "/installation", "--bus-url", fmt.Sprintf("nats://127.0.0.1:%d", port))
	src, err := os.ReadFile("../../deploy/compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{"SPOTFERRY_DIR": s.dir, "SPOTFERRY_ADMIN": "127.0.0.1:0", "SPOTFERRY_LISTEN": fmt.Sprintf("127.0.0.1:%d", port)}
	maps.Copy(set, env)
	text := interpolate(string(src), set)
	var file composeFile
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	var all []deployed
	for _, name := range []string{"bus", "provider-local", "gateway", "bidder", "watcher", "failover", "ledger", "console"} {
		c, ok := file.Services[name]
		if !ok {
			t.Fatalf("compose.yaml has no service %s", name)
		}
		if !c.ReadOnly || strings.Join(c.CapDrop, "") != "ALL" || strings.Join(c.SecurityOpt, "") != "no-new-privileges:true" || strings.HasPrefix(c.User, "0") || c.User == "" {
			t.Errorf("%s is not confined: %+v", name, c)
		}
		if h := c.Healthcheck.Test; len(h) != 4 || h[1] != c.Command[0] || h[2] != "ready" {
			t.Errorf("%s has the health check %q", name, h)
		}
		all = append(all, s.contained(name, c))
		delete(file.Services, name)
	}
	if len(file.Services) != 0 {
		t.Errorf("compose.yaml has services that are not started here: %v", file.Services)
	}
	return s, all
}

// contained is a compose service outside a container: each of its paths is where
// its volumes have it. A path that is not mounted is not there.
func (s site) contained(name string, c composeService) deployed {
	s.t.Helper()
	view := filepath.Join(s.root, "containers", name) // what / is in the container
	for _, v := range c.Volumes {
		f := strings.Split(v, ":")
		at := filepath.Join(view, f[1])
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		if err == nil {
			err = os.Symlink(f[0], at)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	d := deployed{name: name}
	for _, w := range c.Command {
		d.argv = append(d.argv, strings.ReplaceAll(w, programsDir, s.bin))
	}
	for k, v := range c.Environment {
		if strings.HasPrefix(v, "/spotferry/") {
			v = filepath.Join(view, v)
		}
		d.env = append(d.env, k+"="+strings.ReplaceAll(v, programsDir, s.bin))
	}
	return d
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// --- systemd

func TestUnitsRunAJob(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight programs")
	}
	s := newSite(t, "/var/lib/spotferry")
	etc := filepath.Join(s.root, "/etc/spotferry")
	if err := os.MkdirAll(etc, 0o700); err != nil {
		t.Fatal(err)
	}
	var all []deployed
	for _, name := range []string{"bus", "provider-local", "gateway", "bidder", "watcher", "failover", "ledger", "console"} {
		over := "SPOTFERRY_ADMIN=127.0.0.1:0\n"
		if name == "bus" {
			over += "SPOTFERRY_LISTEN=127.0.0.1:0\n"
		}
		if err := os.WriteFile(filepath.Join(etc, name+".env"), []byte(over), 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, s.unit(name))
	}
	s.proves(s.start(all))
}

// unit is what systemd would start for a unit: its command and its environment,
// with the credentials that it loads, and the environment file over what stands in the unit.
func (s site) unit(name string) deployed {
	s.t.Helper()
	src, err := os.Open("../../deploy/systemd/spotferry-" + name + ".service")
	if err != nil {
		s.t.Fatal(err)
	}
	defer src.Close()
	creds := filepath.Join(s.root, "run/credentials", name)
	d, env := deployed{name: name}, map[string]string{"CREDENTIALS_DIRECTORY": creds}
	lines := bufio.NewScanner(src)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), "=")
		if !ok || strings.HasPrefix(key, "#") {
			continue
		}
		value = strings.ReplaceAll(value, "%d", creds)
		for _, dir := range []string{"/var/lib/spotferry", "/usr/lib/spotferry", "/etc/spotferry"} {
			value = strings.ReplaceAll(value, dir, s.root+dir)
		}
		switch key {
		case "ExecStart":
			d.argv = strings.Fields(value)
		case "Environment":
			k, v, _ := strings.Cut(value, "=")
			env[k] = v
		case "EnvironmentFile":
			over, err := os.ReadFile(strings.TrimPrefix(value, "-"))
			if err != nil {
				s.t.Fatal(err)
			}
			for line := range strings.Lines(string(over)) {
				k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
				env[k] = v
			}
		case "LoadCredential":
			id, from, _ := strings.Cut(value, ":")
			s.load(from, filepath.Join(creds, id))
		}
	}
	for k, v := range env {
		d.env = append(d.env, k+"="+v)
	}
	return d
}

func (s site) load(from, to string) {
	s.t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o400)
	}
	if err != nil {
		s.t.Fatalf("loading a credential: %v", err)
	}
}

// The agent's unit is started by a machine's own boot, on user data that its seller hands over.
func TestTheAgentsUnitStartsTheAgent(t *testing.T) {
	s := newSite(t, "/var/lib/spotferry")
	if err := os.MkdirAll(filepath.Join(s.root, "etc/spotferry"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.root, "etc/spotferry/agent.env"), []byte("AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := s.unit("agent")
	c := exec.CommandContext(t.Context(), d.argv[0], d.argv[1:]...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + t.TempDir()}, d.env...)
	var said heard
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = c.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(patience):
		_ = c.Process.Kill()
		t.Fatal("it waits for a metadata service that refuses")
	}
	if c.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "bootstrap") {
		t.Errorf("without user data it exited with %d: %s", c.ProcessState.ExitCode(), &said)
	}
}

func TestUnitsAreHardened(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("systemd-analyze is missing: apt-get install systemd")
		}
		t.Skip("systemd-analyze is missing: apt-get install systemd")
	}
	units, err := filepath.Glob("../../deploy/systemd/*.service")
	if err != nil || len(units) != 9 {
		t.Fatalf("units: %v, %v", units, err)
	}
	for _, u := range units {
		abs, err := filepath.Abs(u)
		if err != nil {
			t.Fatal(err)
		}
		// The threshold is a tenth of the exposure: 19 is 1.9.
		out, err := exec.CommandContext(t.Context(), tool, "security", "--offline=true", "--threshold=19", "--no-pager", abs).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", filepath.Base(u), err, regexp.MustCompile(`(?m)^.*Overall.*$`).Find(out))
		}
	}
}
