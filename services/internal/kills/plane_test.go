package kills

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/dev"
	"github.com/spotferry/spotferry/services/internal/fleet"
	"github.com/spotferry/spotferry/services/internal/process"
)

// keepPlane runs the control plane, and starts it again whenever it was killed.
func (w *world) keepPlane(ready chan struct{}) {
	runtime.LockOSThread() // it dies with the thread that started it
	defer runtime.UnlockOSThread()
	for w.ctx.Err() == nil {
		_ = os.Remove(w.path("ready"))
		out, err := os.OpenFile(w.evidence(planeLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			w.fail("%v", err)
			return
		}
		c := exec.Command(w.exe, "plane", w.dir)
		c.Stdout, c.Stderr = out, out
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			w.fail("starting the control plane: %v", err)
			return
		}
		p := procOf(c.Process.Pid)
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		if w.until(time.Minute, func() bool { return exists(w.path("ready")) || !p.Alive() }) && p.Alive() {
			_ = put(w.path(planePID), p)
			w.mu.Lock()
			if w.starts++; w.starts == 1 {
				close(ready)
			}
			w.mu.Unlock()
		}
		select {
		case err = <-ended:
		case <-w.ctx.Done():
			_ = c.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				_ = c.Process.Kill()
				<-ended
			}
		}
		out.Close()
		if w.ctx.Err() == nil && !w.struckDown(p) {
			w.fail("the control plane ended by itself: %v: %s", err, tail(w.evidence(planeLog), 2000))
			return
		}
	}
}

// struckDown says whether we killed a process.
func (w *world) struckDown(p fleet.Proc) bool {
	all, err := rows[struck](w.evidence(struckFile))
	if err != nil {
		w.fail("%v", err)
	}
	for _, s := range all {
		if s.PID == p.PID && s.PIDStart == p.Start {
			return true
		}
	}
	return false
}

// runPlane is the control plane's program.
func runPlane(ctx context.Context, args []string) error {
	g := ground{args[0]}
	log, err := process.NewLogger(os.Stderr, "plane", zapcore.InfoLevel.String())
	if err != nil {
		return err
	}
	market := market()
	return dev.Run(ctx, dev.Config{
		Dir: g.state(), Version: "kills", Now: time.Now, Logger: log, Market: market, Scale: 1, Divide: divide, EvidenceDir: g.evidence("."),
		Ready: func() { _ = os.WriteFile(g.path("ready"), nil, 0o600) },
	})
}

// market sells this machine many times over, and takes nothing away by itself.
func market() trace.Spec {
	t := trace.Table{}
	for n := range zones {
		pool := events.Pool{Seller: "local", Region: "here", Zone: fmt.Sprintf("here-%d", n+1), InstanceType: "this-machine", Capacity: events.OnDemand, Gang: 1}
		t.List = append(t.List, trace.TablePool{Prices: []events.PriceFrom{{Price: events.DollarPerHour / 100}}, Info: trace.PoolInfo{OnDemand: pool, Offer: events.Offer{
			Pool: pool, Country: "US", SpeedPct: 100, DiskGB: 1 << 20, VCPU: 1 << 10, RAMMiB: 1 << 24,
			GPU:   events.GPU{Vendor: "nvidia", Model: "V100", Form: "SXM", Count: 1, MemoryMiB: 16384},
			Terms: events.Terms{GrainS: 1, MinimumS: 1},
		}}})
	}
	return trace.Spec{Kind: "table", Table: &t}
}
