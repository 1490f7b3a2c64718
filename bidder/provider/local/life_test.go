//go:build linux

package local

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

func TestSellerKeepsTheContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		r := newRig(t)
		return providertest.Harness{
			Seller: r.Seller,
			Spec:   func() provider.LaunchSpec { return r.spec(r.spot, role{Do: "wait"}) },
			Pass:   time.Sleep,
			Settle: 3 * time.Second,
			Reclaim: func(id events.InstanceID) {
				token, _ := tokenOf(id)
				if err := WriteDrill(r.dir, Drill{Reclaim: []Reclaim{{Token: token}}}); err != nil {
					t.Error(err)
				}
			},
			Bought: func() int {
				names, err := os.ReadDir(r.Seller.dir(instancesDir))
				if err != nil {
					t.Error(err)
				}
				return len(names)
			},
		}
	})
}

func TestTwentyLaunchesOfOneTokenAreOneMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	second, err := New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	spec := r.spec(r.spot, role{Do: "wait"})
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			s := r.Seller
			if n%2 == 0 {
				s = second
			}
			if i, err := s.Launch(t.Context(), spec, "01j-1-1"); err != nil || i.ID != "i-01j-1-1" {
				t.Errorf("launch: %+v, %v", i, err)
			}
		})
	}
	all.Wait()
	r.awaitState("01j-1-1", provider.Running)
	pids := r.awaitReports(1)
	// A second host, started in the race, may wait for the lock; it gives up and no agent is its.
	r.until("one host", func() bool { return len(r.hosts()) == 1 })
	if got := r.reports(); len(got) != len(pids) || len(pids) != 1 {
		t.Errorf("agents reported %v, want one", got)
	}
}

// hosts are the host processes of the rig.
func (r *rig) hosts() []string {
	var out []string
	for _, p := range r.processes() {
		if strings.Contains(p, " host --dir ") {
			out = append(out, p)
		}
	}
	return out
}

func TestATerminatedMachineDiesWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	i := r.launch(r.od, role{Do: "fork"}, "01j-1-1")
	r.awaitReports(9)
	if err := r.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	gone := r.awaitState("01j-1-1", provider.Gone)
	r.dead()
	if gone.EndedBy != "us" || len(gone.Prices) != 1 {
		t.Errorf("%+v", gone)
	}
	if kills := evidence[killRow](r, killsEvidence); len(kills) != 0 {
		t.Errorf("giving a machine back is no reclaim: %+v", kills)
	}
	r.meterIsRight(gone)
}

// dead checks that no process that ever reported lives.
func (r *rig) dead() {
	r.t.Helper()
	pids := r.pids()
	if len(pids) == 0 {
		r.t.Error("nothing ever ran")
	}
	for _, pid := range pids {
		if alive(pid) {
			r.t.Errorf("process %d lives on a machine that is gone", pid)
		}
	}
}

// meterIsRight compares meter, evidence and a bill of another author.
func (r *rig) meterIsRight(i provider.Instance) {
	r.t.Helper()
	want := providertest.Bill(i.Started, i.Ended, i.EndedBy, i.Prices, i.Terms)
	got, err := r.Metered(r.t.Context(), i.ID)
	if err != nil || !got.Final || got.Amount != want {
		r.t.Errorf("meter %+v, %v; want %v, final", got, err, want)
	}
	var sum events.MicroUSD
	for _, row := range evidence[meterRow](r, meterEvidence) {
		if row.Instance != i.ID {
			continue
		}
		sum += events.MicroUSD(row.Amount)
		if !row.Start.Equal(i.Started) || !row.End.Equal(i.Ended) || row.EndedBy != i.EndedBy || row.GrainS != i.Terms.GrainS {
			r.t.Errorf("row %+v of %+v", row, i)
		}
	}
	if sum != want {
		r.t.Errorf("evidence sums to %v, want %v", sum, want)
	}
}

func TestANoticedReclaimKillsTheTreeAtTheDeadline(t *testing.T) {
	t.Parallel()
	r := newRig(t, trace.Fate{Age: inControl(4 * time.Second), What: trace.Reclaim{Kind: trace.Noticed, Notice: 2 * time.Second}})
	began := time.Now()
	r.launch(r.spot, role{Do: "fork"}, "01j-1-1")
	r.awaitReports(9)
	gone := r.awaitState("01j-1-1", provider.Gone)
	r.dead()
	if took := time.Since(began); took < 2900*time.Millisecond {
		t.Errorf("the machine was taken after %v", took)
	}
	due := r.cfg.Clock.Control(gone.Ended)
	if gone.EndedBy != "seller" || due.Nanosecond() > int(time.Microsecond) {
		t.Errorf("ended by %s at %v, want a whole second", gone.EndedBy, due)
	}
	kills := evidence[killRow](r, killsEvidence)
	if len(kills) != 1 || kills[0].Kind != trace.Noticed || kills[0].PID != r.pids()[0] || kills[0].EndedBy != "seller" ||
		!strings.HasPrefix(kills[0].DrawnAt, "age ") || kills[0].Time.Sub(due).Abs() > time.Second {
		t.Errorf("kills %+v, due %v", kills, due)
	}
	r.meterIsRight(gone)
}

func TestAWarningIsServedAndWithdrawn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.launch(r.spot, role{Do: "poll"}, "01j-1-1")
	r.polled(0, "404")
	r.drill(Reclaim{ID: "1", Token: "01j-1-1", NoticeS: 20, WithdrawS: 0.7})
	first := r.deadline(1)
	r.polled(2, "404")
	if gone := r.find("01j-1-1"); gone.State != provider.Running {
		t.Errorf("a warning that was withdrawn left the machine %s", gone.State)
	}
	r.drill(Reclaim{ID: "2", Token: "01j-1-1", NoticeS: 2})
	second := r.deadline(3)
	gone := r.awaitState("01j-1-1", provider.Gone)
	// Every answer named the same deadline, and it is when the machine went.
	due := r.cfg.Clock.Control(gone.Ended)
	if got := r.reports(); len(got) != 5 || due.Sub(second).Abs() > time.Microsecond || !second.Before(first) {
		t.Errorf("polls %q, ended %v", got, due)
	}
	kills := evidence[killRow](r, killsEvidence)
	if len(kills) != 2 || kills[0].Kind != trace.Withdrawn || kills[0].PID != 0 || kills[1].Kind != trace.Noticed || kills[1].PID == 0 {
		t.Errorf("kills %+v", kills)
	}
}

func (r *rig) drill(all ...Reclaim) {
	r.t.Helper()
	if err := WriteDrill(r.dir, Drill{Reclaim: all}); err != nil {
		r.t.Fatal(err)
	}
}

// polled waits for the n-th answer that an agent saw change.
func (r *rig) polled(n int, want string) string {
	r.t.Helper()
	got := r.awaitReports(n + 2)[n+1]
	if !strings.HasPrefix(got, want) {
		r.t.Fatalf("answer %d is %q, want %s", n, got, want)
	}
	return got
}

// deadline waits for a warning and returns its deadline.
func (r *rig) deadline(n int) time.Time {
	r.t.Helper()
	var a struct {
		Action string
		Time   time.Time
	}
	body := strings.TrimPrefix(r.polled(n, "200 "), "200 ")
	if err := json.Unmarshal([]byte(body), &a); err != nil || a.Action != "terminate" || a.Time.Nanosecond() != 0 {
		r.t.Fatalf("instance-action %q, %v", body, err)
	}
	return a.Time
}

func TestAMachineGivenBackUnderAWarningIsOnRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, trace.Fate{Age: inControl(30 * time.Second), What: trace.Reclaim{Kind: trace.Noticed, Notice: 30 * time.Second}})
	i := r.launch(r.spot, role{Do: "poll"}, "01j-1-1")
	r.until("a warning", func() bool { return strings.Contains(strings.Join(r.reports(), "\n"), "200 ") })
	if err := r.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	gone := r.awaitState("01j-1-1", provider.Gone)
	kills := evidence[killRow](r, killsEvidence)
	if gone.EndedBy != "us" || len(kills) != 1 || kills[0].Kind != trace.Noticed || kills[0].EndedBy != "us" {
		t.Errorf("ended by %s, kills %+v", gone.EndedBy, kills)
	}
}

func TestAKillAimedIntoASaveFallsIntoOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, trace.Fate{
		Age:  inControl(time.Second),
		What: trace.Reclaim{Kind: trace.Unnoticed, SaveOffset: 200 * time.Millisecond, SaveWait: 20 * time.Second, Drawn: trace.BySave},
	})
	r.launch(r.spot, role{Do: "save", For: 30 * time.Millisecond, Every: 300 * time.Millisecond}, "01j-1-1")
	gone := r.awaitState("01j-1-1", provider.Gone)
	last := r.reports()[len(r.reports())-1]
	kills := evidence[killRow](r, killsEvidence)
	if !strings.HasPrefix(last, "begin ") || len(kills) != 1 || !strings.HasPrefix(kills[0].DrawnAt, "save+") || kills[0].Kind != trace.Unnoticed {
		t.Errorf("the trainer's last words are %q, kills %+v", last, kills)
	}
	if gone.EndedBy != "seller" {
		t.Errorf("%+v", gone)
	}
	r.meterIsRight(gone)
}

func TestAKillThatWaitsForASaveInVainComesAllTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t, trace.Fate{
		Age:  inControl(500 * time.Millisecond),
		What: trace.Reclaim{Kind: trace.Unnoticed, SaveOffset: time.Millisecond, SaveWait: 300 * time.Millisecond, Drawn: trace.BySave},
	})
	r.launch(r.spot, role{Do: "wait"}, "01j-1-1")
	r.awaitState("01j-1-1", provider.Gone)
	if kills := evidence[killRow](r, killsEvidence); len(kills) != 1 || !strings.HasPrefix(kills[0].DrawnAt, "age ") {
		t.Errorf("kills %+v", kills)
	}
}

func TestAnAgentThatLeavesEndsItsMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.launch(r.spot, role{Do: "exit"}, "01j-1-1")
	gone := r.awaitState("01j-1-1", provider.Gone)
	if gone.EndedBy != "machine" {
		t.Errorf("%+v", gone)
	}
	r.meterIsRight(gone)
}

func TestAHostThatIsKilledIsAFault(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		group bool // leave the machine's control group to help
	}{{"with what the kernel offers", true}, {"without a control group", false}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			i := r.launch(r.spot, role{Do: "fork"}, "01j-1-1")
			r.awaitReports(9)
			h := r.host("01j-1-1")
			if !tc.group {
				defer cgroup(h.Cgroup).remove()
				h.Cgroup = ""
				if err := write(place(r.Seller.dir(instancesDir)+"/01j-1-1").path(hostFile), h); err != nil {
					t.Fatal(err)
				}
			}
			if running, err := r.Metered(t.Context(), i.ID); err != nil || running.Final {
				t.Errorf("meter %+v, %v", running, err)
			}
			if err := syscall.Kill(h.Host.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			gone := r.awaitState("01j-1-1", provider.Gone)
			r.dead()
			if gone.EndedBy != "fault" {
				t.Errorf("%+v", gone)
			}
			again, err := r.Launch(t.Context(), r.spec(r.spot, role{Do: "fork"}), "01j-1-1")
			if err != nil || again.State != provider.Gone {
				t.Errorf("the token of a machine that died gives %+v, %v", again, err)
			}
			r.meterIsRight(gone)
			if rows := evidence[meterRow](r, meterEvidence); len(rows) != len(gone.Prices) {
				t.Errorf("%d rows of %d prices", len(rows), len(gone.Prices))
			}
		})
	}
}

func TestEndedMachinesAreListedForAnHourAndKnownForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	i := r.launch(r.spot, role{Do: "exit"}, "01j-1-1")
	gone := r.awaitState("01j-1-1", provider.Gone)
	now := time.Now()
	r.cfg.Now = func() time.Time { return now }
	now = now.Add(59 * time.Minute)
	if got := r.find("01j-1-1"); !got.Ended.Equal(gone.Ended) {
		t.Errorf("%+v", got)
	}
	now = now.Add(2 * time.Minute)
	if l, err := r.List(t.Context()); err != nil || !l.Complete || len(l.Instances) != 0 {
		t.Errorf("after an hour the list is %+v, %v", l, err)
	}
	again, err := r.Launch(t.Context(), r.spec(r.spot, role{Do: "exit"}), "01j-1-1")
	if err != nil || again.State != provider.Gone || again.ID != i.ID {
		t.Errorf("launch gives %+v, %v", again, err)
	}
	r.meterIsRight(gone)
	if err := r.Terminate(t.Context(), i.ID); err != nil {
		t.Error(err)
	}
}

func TestAListThatCannotReadAMachineIsIncomplete(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.launch(r.spot, role{Do: "wait"}, "01j-1-1")
	bad := r.Seller.dir(instancesDir) + "/01j-2-1"
	if err := os.Mkdir(bad, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", `{"version":9}`} {
		if err := os.WriteFile(bad+"/"+recordFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := r.List(t.Context()); err != nil || l.Complete || len(l.Instances) != 1 {
			t.Errorf("with a record of %q the list is %+v, %v", text, l, err)
		}
	}
	if err := os.RemoveAll(bad); err != nil {
		t.Fatal(err)
	}
}

func TestADrillEmptiesPoolsAndTakesMachines(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.launch(r.spot, role{Do: "wait"}, "01j-1-1")
	r.launch(r.od, role{Do: "wait"}, "01j-2-1")
	if err := WriteDrill(r.dir, Drill{Empty: []events.Pool{r.spot}, Reclaim: []Reclaim{{Token: "*"}}}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Launch(t.Context(), r.spec(r.spot, role{Do: "wait"}), "01j-3-1")
	if provider.KindOf(err) != provider.NoCapacity {
		t.Errorf("launch in an empty pool: %v", err)
	}
	offers, err := r.Offers(t.Context())
	if err != nil || offers[0].Available() || !offers[1].Available() {
		t.Errorf("offers %+v, %v", offers, err)
	}
	r.awaitState("01j-1-1", provider.Gone)
	if i := r.find("01j-2-1"); i.State == provider.Gone {
		t.Errorf("a drill took a machine on demand: %+v", i)
	}
}

func TestMachinesDoNotInheritSecrets(t *testing.T) {
	t.Parallel()
	got := machineEnv([]string{"PATH=/bin", "AWS_SECRET_ACCESS_KEY=x", "LC_ALL=C", "SPOTFERRY_TOKEN=y", "HOME=/root", "NATS_URL=z"})
	if fmt.Sprint(got) != "[PATH=/bin LC_ALL=C HOME=/root]" {
		t.Errorf("%v", got)
	}
}
