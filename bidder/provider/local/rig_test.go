//go:build linux

package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

func ignoreAll() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
}

func request(method, path string, headers map[string]string) (status int, kind, body string) {
	return send(method, path, "", headers)
}

func send(method, path, text string, headers map[string]string) (status int, kind, body string) {
	req, err := http.NewRequest(method, endpoint()+path, strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(data)
}

// rig is a seller with a market of two pools and a clock that runs 240 times as
// fast, so that a market hour is fifteen seconds.
type rig struct {
	*Seller
	t    *testing.T
	dir  string
	out  string // where agents report
	spot events.Pool
	od   events.Pool
}

const scale = 240

// inControl is a market age in control time.
func inControl(d time.Duration) time.Duration { return scale * d }

func newRig(t *testing.T, fates ...trace.Fate) *rig {
	t.Helper()
	return newRigTold(t, "", fates...)
}

// newRigTold is a rig whose machines are told in this way that they will be taken.
func newRigTold(t *testing.T, kind events.NoticeKind, fates ...trace.Fate) *rig {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: filepath.Join(dir, "seller"), out: filepath.Join(dir, "report")}
	market := testMarket(fates)
	market.List[0].Info.Offer.NoticeKind = kind
	r.spot, r.od = market.List[0].Info.Offer.Pool, market.List[1].Info.Offer.Pool
	r.Seller, err = New(Config{
		Dir: r.dir, Exe: self, HostArgs: []string{"host"}, AgentArgs: []string{self, "agent"},
		Market: trace.Spec{Kind: "table", Table: market}, Clock: trace.NewClock(time.Now(), noon, scale),
		EvidenceDir: filepath.Join(dir, "evidence"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.tearDown)
	return r
}

// testMarket has a spot pool whose price moves every ten market minutes and which is
// billed by the minute, and one on demand.
func testMarket(fates []trace.Fate) *trace.Table {
	pool := func(c events.CapacityType, t events.Terms) trace.PoolInfo {
		return trace.PoolInfo{Offer: events.Offer{
			Pool: events.Pool{Seller: "local", Region: "here", Zone: "here-a", InstanceType: "v100x1", Capacity: c, Gang: 1},
			GPU:  events.GPU{Vendor: "nvidia", Model: "V100", Count: 1, MemoryMiB: 16384}, VCPU: 8, RAMMiB: 1 << 14, DiskGB: 10, Country: "US",
			Terms: t, NoticeS: 120, SpeedPct: 100,
		}}
	}
	spot := trace.TablePool{
		Info:  pool(events.Spot, events.Terms{GrainS: 60, MinimumS: 60, FreeIfReclaimedS: 600, FollowsMarket: true}),
		Fates: fates,
	}
	for n := range events.PerInstanceHour(200) {
		spot.Prices = append(spot.Prices, events.PriceFrom{From: noon.Add(time.Duration(n) * 10 * time.Minute), Price: 1_000_000_007 + n*1_234_567})
	}
	od := trace.TablePool{
		Info:   pool(events.OnDemand, events.Terms{GrainS: 1, MinimumS: 60}),
		Prices: []events.PriceFrom{{From: noon.Add(-time.Hour), Price: 3 * events.DollarPerHour}},
	}
	return &trace.Table{List: []trace.TablePool{spot, od}}
}

// tearDown ends every machine and checks that nothing of any is left.
func (r *rig) tearDown() {
	names, err := os.ReadDir(r.Seller.dir(instancesDir))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range names {
		if err := r.Terminate(context.Background(), instanceID(n.Name())); err != nil {
			r.t.Error(err)
		}
	}
	r.until("every machine to end", func() bool {
		l, err := r.List(context.Background())
		if err != nil {
			r.t.Fatal(err)
		}
		for _, i := range l.Instances {
			if i.State != provider.Gone {
				return false
			}
		}
		return true
	})
	// A host that lost a race for the machine may still be about to see that.
	r.until("every process to end", func() bool { return len(r.processes()) == 0 })
}

// processes returns the command lines that name this rig's directory.
func (r *rig) processes() []string {
	var out []string
	names, err := os.ReadDir("/proc")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range names {
		cmd, err := os.ReadFile(filepath.Join("/proc", n.Name(), "cmdline"))
		env, _ := os.ReadFile(filepath.Join("/proc", n.Name(), "environ"))
		if err == nil && n.Name() != fmt.Sprint(os.Getpid()) && (bytes.Contains(cmd, []byte(r.dir)) || bytes.Contains(env, []byte(r.dir))) {
			out = append(out, n.Name()+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return out
}

// until waits for a condition; there is no sleep but between looks.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited 30 s for %s; processes %q; logs:\n%s", what, r.processes(), r.hostLogs())
		}
	}
}

func (r *rig) hostLogs() string {
	paths, _ := filepath.Glob(filepath.Join(r.dir, "*", "*", "*.log"))
	var out []string
	for _, p := range paths {
		text, _ := os.ReadFile(p)
		out = append(out, filepath.Base(p)+": "+string(text))
	}
	return strings.Join(out, "\n")
}

func (r *rig) spec(p events.Pool, do role) provider.LaunchSpec {
	do.Out = r.out
	data, err := json.Marshal(do)
	if err != nil {
		r.t.Fatal(err)
	}
	return provider.LaunchSpec{Pool: p, MaxPrice: 10 * events.DollarPerHour, UserData: data, Labels: map[string]string{"job": "01j"}}
}

func (r *rig) launch(p events.Pool, do role, token string) provider.Instance {
	r.t.Helper()
	i, err := r.Launch(r.t.Context(), r.spec(p, do), token)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.hostLogs())
	}
	return i
}

// find returns the instance as a complete list has it.
func (r *rig) find(token string) provider.Instance {
	r.t.Helper()
	l, err := r.List(r.t.Context())
	if err != nil || !l.Complete {
		r.t.Fatalf("list: %+v, %v", l, err)
	}
	i, ok := l.Find(token)
	if !ok {
		r.t.Fatalf("%s is not listed in %+v", token, l)
	}
	return i
}

func (r *rig) awaitState(token string, want provider.State) provider.Instance {
	r.t.Helper()
	var i provider.Instance
	r.until(token+" to be "+string(want), func() bool { i = r.find(token); return i.State == want })
	return i
}

// reports returns what agents reported so far.
func (r *rig) reports() []string {
	text, err := os.ReadFile(r.out)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func (r *rig) awaitReports(n int) []string {
	r.t.Helper()
	r.until(fmt.Sprintf("%d reports", n), func() bool { return len(r.reports()) >= n })
	return r.reports()
}

// evidence reads a file of evidence.
func evidence[T any](r *rig, name string) []T {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.cfg.EvidenceDir, name))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	var out []T
	for l := range bytes.Lines(text) {
		var v T
		if err := json.Unmarshal(l, &v); err != nil {
			r.t.Fatalf("%s: %q: %v", name, l, err)
		}
		out = append(out, v)
	}
	return out
}

// pids are the processes that reported themselves.
func (r *rig) pids() []int {
	var out []int
	for _, l := range r.reports() {
		var pid int
		if n, _ := fmt.Sscanf(l, "pid %d", &pid); n == 1 {
			out = append(out, pid)
		}
	}
	return out
}

func alive(pid int) bool {
	e, err := lookUp(pid)
	return err == nil && !e.dead
}

func (r *rig) host(token string) hostState {
	r.t.Helper()
	h, err := read[hostState](filepath.Join(r.dir, instancesDir, token, hostFile))
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}
