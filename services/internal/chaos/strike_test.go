package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider/local"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/services/internal/fleet"
	"github.com/spotferry/spotferry/services/internal/installation"
)

// carryOut does one planned kill. It reports whether there was something to kill.
func (w *world) carryOut(s stroke) bool {
	if !s.inside {
		if !w.pause(s.wait) {
			return false
		}
		return w.strike(s)
	}
	for range 3 {
		if !w.until(15*time.Second, w.failingOver) {
			w.note("no failover in 15 s: the kill of a %s comes later", s.target)
			return false
		}
		if !w.pause(s.wait) {
			return false
		}
		if w.moving() { // it may be over already
			return w.strike(s)
		}
		s.wait /= 3
	}
	return w.strike(s)
}

func (w *world) moving() bool { _, yes := states(w.rec.open()); return yes }

// failingOver reports whether a job is in a failover, and sees to it that one will be.
func (w *world) failingOver() bool {
	if w.moving() {
		return true
	}
	if time.Since(w.log.provoked()) > 5*time.Second {
		w.provoke()
	}
	return false
}

// provoke has the market take a machine away: half the time with a warning of two
// seconds, half without.
func (w *world) provoke() {
	for _, j := range w.rec.open() {
		if kindOf(j) != "hunted" || j.Over() || j.Phase != failover.Running || j.Current == nil {
			continue
		}
		w.mu.Lock()
		w.drills++
		n := w.drills
		w.mu.Unlock()
		r := local.Reclaim{ID: fmt.Sprint("chaos-", n), Token: string(j.Current.Lease)}
		if n%2 == 0 {
			r.NoticeS = 2
		}
		if err := local.WriteDrill(w.fleet.Installation().Path(installation.SellerDir), local.Drill{Reclaim: []local.Reclaim{r}}); err == nil {
			w.log.provoke()
		}
		return
	}
}

// strike kills.
func (w *world) strike(s stroke) bool {
	switch s.target {
	case "agent", "trainer":
		return w.strikeMachine(s)
	}
	replica := s.replica
	if s.target == "bus" || s.target == "provider-local" {
		replica = 0
	}
	p := w.fleet.Program(s.target, replica)
	if !w.until(20*time.Second, p.Running) {
		return false
	}
	w.kill(p, s.down)
	return true
}

// kill ends a program and keeps it away for a time.
func (w *world) kill(p *fleet.Program, down time.Duration) {
	w.mu.Lock()
	w.downed[p] = down
	w.mu.Unlock()
	blow := w.log.begin(w.rec.open())
	blow.Target, blow.Replica, blow.PID, blow.Start, blow.How = p.Name, p.Replica, p.Pid(), p.StartTicks(), killed
	p.Kill()
	w.log.end(blow)
}

// strikeMachine kills an agent or a trainer of a hunted job; inside a failover, of one that is in it.
func (w *world) strikeMachine(s stroke) bool {
	var victim fleet.Proc
	var lease string
	found := func() bool {
		machines, err := w.fleet.Machines()
		if err != nil {
			return false
		}
		for _, only := range []bool{s.inside, false} {
			for _, m := range machines {
				j, ok := w.jobOf(m.Lease)
				if !ok || kindOf(j) != "hunted" || j.Over() || only && !inside(j) {
					continue
				}
				victim, lease = m.Agent, m.Lease
				if s.target == "trainer" {
					victim = fleet.Proc{}
					if len(m.Trainers) > 0 {
						victim = m.Trainers[0]
					}
				}
				if victim.PID > 0 && victim.Alive() {
					return true
				}
			}
		}
		return false
	}
	if !w.until(20*time.Second, found) {
		return false
	}
	j, _ := w.jobOf(lease)
	blow := w.log.begin([]failover.Job{j})
	blow.Target, blow.PID, blow.Start, blow.How, blow.Lease = s.target, victim.PID, victim.Start, killed, lease
	victim.Kill()
	w.log.end(blow)
	return true
}

func (w *world) jobOf(lease string) (failover.Job, bool) {
	id := events.LeaseID(lease).Job()
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	j, ok := w.rec.jobs[id]
	return j, ok
}

// arm names one point after the other, and few at a time: each that is hit is a program gone for a moment.
func (w *world) arm() {
	names := points()
	w.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	armed := 0
	for _, name := range names {
		for armed-len(w.log.points()) >= 5 {
			if !w.pause(time.Second) {
				return
			}
		}
		if err := w.log.arm(w.dir, name); err != nil {
			w.fail("%v", err)
		}
		armed++
		if !w.pause(2 * time.Second) {
			return
		}
		w.mu.Lock()
		over := !w.supply
		w.mu.Unlock()
		if over {
			return
		}
	}
}

func list(items []string) string { return strings.Join(items, "\n  ") }
