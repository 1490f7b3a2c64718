package gateway

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

func TestWhoMayJoin(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setup func(r *rig)
		lease events.LeaseID
		key   string
		want  string
	}{
		{"the agent of a machine that is wanted", func(r *rig) { r.buy(1, 1) }, "j1-1-1", "UA", ""},
		{"the same agent again, when an answer got lost", func(r *rig) { r.join(1, r.buy(1, 1), "UA") }, "j1-1-1", "UA", ""},
		{"a second agent with the same token is refused", func(r *rig) { r.join(1, r.buy(1, 1), "UA") }, "j1-1-1", "UB", "fenced"},
		{"a machine that booted before its purchase was recorded asks again", func(*rig) {}, "j1-1-1", "UA", "unavailable"},
		{"a machine bought for an epoch that another already has is not wanted",
			func(r *rig) { r.buy(1, 1); r.buy(1, 2) }, "j1-1-2", "UA", "fenced"},
		{"a machine that is gone is not wanted", func(r *rig) { r.gone(r.buy(1, 1)) }, "j1-1-1", "UA", "fenced"},
		{"a machine of a job that has ended is not wanted",
			func(r *rig) { r.buy(1, 1); r.apply(failover.Cancel{By: "ann"}) }, "j1-1-1", "UA", "fenced"},
		{"a lease of another job is invalid", func(r *rig) { r.buy(1, 1) }, "j2-1-1", "UA", "invalid"},
		{"a lease of another epoch is invalid", func(r *rig) { r.buy(1, 1) }, "j1-2-1", "UA", "invalid"},
		{"a lease that is none is invalid", func(r *rig) { r.buy(1, 1) }, "machine", "UA", "invalid"},
		{"no key is invalid", func(r *rig) { r.buy(1, 1) }, "j1-1-1", "", "invalid"},
		{"a key that is none is invalid", func(r *rig) { r.buy(1, 1) }, "j1-1-1", strings.Repeat("U", 1<<16), "invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			tc.setup(r)
			got := r.join(1, tc.lease, tc.key)
			if code(got.Refusal) != tc.want {
				t.Fatalf("refusal %v, want %q", got.Refusal, tc.want)
			}
			if tc.want != "" {
				if got.JWT != "" {
					t.Errorf("a refused agent got credentials %q", got.JWT)
				}
				return
			}
			if got.JWT != "jwt j1 1 UA" || got.Org != org || got.Spec.Run != "train" || got.Store.Tenant != string(org) || got.Timers.Hold == 0 {
				t.Errorf("reply %+v", got)
			}
		})
	}
}

func TestWhatAnAgentSaysOfItsMachineIsCutToSize(t *testing.T) {
	r := newRig(t)
	l := r.buy(1, 1)
	long := strings.Repeat("é", 1<<15)
	got := request[events.JoinReply](r, 1, events.VerbJoin, events.JoinRequest{Lease: l, Key: "UA", Host: events.Host{
		Instance: events.InstanceID(long), OS: long, Arch: long, BootMS: 1 << 60,
	}})
	if got.Refusal != nil {
		t.Fatal(got.Refusal)
	}
	for _, e := range r.log.Events(events.FilterJobs) {
		if f, ok := e.Fact.(events.JobJoined); ok {
			if len(f.Host.OS) > maxWord || len(f.Host.Arch) > maxWord || len(f.Host.Instance) > maxWord || f.Host.BootMS > maxSpan.Milliseconds() {
				t.Errorf("recorded %d, %d, %d bytes and %d ms", len(f.Host.OS), len(f.Host.Arch), len(f.Host.Instance), f.Host.BootMS)
			}
			return
		}
	}
	t.Error("the join is not recorded")
}

func TestATokenIsMintedOnceAndHandedOutByteForByteTheSame(t *testing.T) {
	r := newRig(t)
	cfg := r.config()
	gateways := []*Gateway{New(cfg), New(cfg)}
	got := make([][]byte, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			b, err := gateways[i%2].Bootstrap(t.Context(), job, 1, "j1-1-1")
			if err != nil {
				t.Error(err)
			}
			got[i] = b
		})
	}
	wg.Wait()
	for _, b := range got {
		if !bytes.Equal(b, got[0]) || len(b) == 0 {
			t.Fatalf("two answers:\n%s\n%s", got[0], b)
		}
	}
	other, err := gateways[0].Bootstrap(t.Context(), job, 1, "j1-1-2")
	if err != nil || bytes.Equal(other, got[0]) {
		t.Errorf("another lease got %s, %v", other, err)
	}
	r.accounts.down = true
	if _, err := gateways[0].Bootstrap(t.Context(), job, 1, "j1-1-1"); err == nil || !strings.Contains(err.Error(), "j1") {
		t.Errorf("without the operator: %v; want an error that names the job", err)
	}
}
