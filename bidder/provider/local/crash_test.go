//go:build linux

package local

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
)

// TestAControlPlaneKilledAnywhereLeavesOneMachineOrNone kills a process in the
// middle of Launch and Terminate and lets another go on.
func TestAControlPlaneKilledAnywhereLeavesOneMachineOrNone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		step string
		sold bool // whether the machine is listed without a second launch
		want provider.State
	}{
		{"begun", false, provider.Running},
		{"written", false, provider.Running},
		{"named", true, provider.Running},
		{"bought", true, provider.Running},
		{"started", true, provider.Running},
		{"asked", true, provider.Gone},
	} {
		for _, again := range []string{"launch", "list"} {
			t.Run("killed when "+tc.step+", then "+again, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				spec := r.spec(r.spot, role{Do: "wait"})
				r.killedAt(tc.step, spec)
				next, err := New(r.cfg)
				if err != nil {
					t.Fatal(err)
				}
				r.Seller = next
				l, err := r.List(t.Context())
				if _, sold := l.Find("01j-1-1"); err != nil || !l.Complete || sold != tc.sold {
					t.Fatalf("list %+v, %v; want the machine listed: %v", l, err, tc.sold)
				}
				if again == "launch" || !tc.sold {
					if _, err := r.Launch(t.Context(), spec, "01j-1-1"); err != nil {
						t.Fatal(err)
					}
				}
				i := r.awaitState("01j-1-1", tc.want)
				if tc.want == provider.Running {
					r.awaitReports(1)
					if hosts := r.hosts(); len(hosts) == 0 || len(r.pids()) != 1 {
						t.Errorf("hosts %v, agents %v", hosts, r.pids())
					}
				} else {
					r.meterIsRight(i)
				}
				if names, err := os.ReadDir(r.Seller.dir(instancesDir)); err != nil || len(names) != 1 {
					t.Errorf("%v, %v", names, err)
				}
			})
		}
	}
}

// killedAt runs a control plane of its own that launches one machine and is killed at a step.
func (r *rig) killedAt(step string, spec provider.LaunchSpec) {
	r.t.Helper()
	config, err := json.Marshal(map[string]any{
		"Dir": r.cfg.Dir, "Exe": r.cfg.Exe, "HostArgs": r.cfg.HostArgs, "AgentArgs": r.cfg.AgentArgs, "Market": r.cfg.Market,
		"Clock": r.cfg.Clock, "EvidenceDir": r.cfg.EvidenceDir,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	request, err := json.Marshal(spec)
	if err != nil {
		r.t.Fatal(err)
	}
	c := exec.Command(r.cfg.Exe, "plane", string(config), string(request), "01j-1-1", step)
	out, err := c.CombinedOutput()
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); err == nil || !ok || !s.Signaled() {
		r.t.Fatalf("the control plane was not killed at %s: %v, %s", step, err, out)
	}
}
