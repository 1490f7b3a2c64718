package kills

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/services/internal/fleet"
)

// crew is who runs on a machine, by files in its directory.
type crew struct {
	Lease   string     `json:"lease"`
	Host    fleet.Proc `json:"host"`
	Agent   fleet.Proc `json:"agent"`
	Shell   fleet.Proc `json:"shell"`
	Trainer fleet.Proc `json:"trainer"`
}

// Where they are written down.
const (
	agentCrew   = ".kills-agent.json"
	trainerCrew = ".kills-trainer.json"
)

func crewOf(machine string) crew {
	a, _ := get[crew](filepath.Join(machine, agentCrew))
	t, _ := get[crew](filepath.Join(machine, trainerCrew))
	a.Shell, a.Trainer = t.Shell, t.Trainer
	return a
}

// procOf names a process for good.
func procOf(pid int) fleet.Proc {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return fleet.Proc{}
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return fleet.Proc{}
	}
	start, _ := strconv.ParseUint(f[19], 10, 64)
	return fleet.Proc{PID: pid, Start: start}
}

// striker carries out strokes in one process: whoever comes by the place named.
type striker struct {
	ground
	job     string
	by      string // "trainer", "agent", "setup"
	machine string // its directory
	epoch   func() int
	step    func() int64
}

// armed is the stroke that is to come, if it is for this process's epoch.
func (s *striker) armed() (stroke, bool) {
	a, ok := get[stroke](s.ground.job(s.job, armedFile))
	return a, ok && s.epoch() >= a.MinEpoch
}

// at is called at an operation of a phase, the k-th.
func (s *striker) at(p phase, k int, point string) {
	if a, ok := s.armed(); ok && a.Phase == p && a.K <= k {
		s.strike(a, point)
	}
}

// strike carries a stroke out, unless somebody else does or the victim is not
// there. If it is this process's end as well, it does not return.
func (s *striker) strike(a stroke, point string) bool {
	doomed := s.doomed(a.Victim)
	if len(doomed) == 0 || !s.claim(a) {
		return false
	}
	row := struck{stroke: a, Job: s.job, Point: point, Epoch: s.epoch(), Step: s.step(), By: s.by, PID: doomed[0].PID, PIDStart: doomed[0].Start,
		Lease: crewOf(s.machine).Lease, Time: time.Now().UTC()}
	deal := func() {
		row.Time = time.Now().UTC()
		if err := jot(s.evidence(struckFile), row); err != nil {
			panic(err)
		}
		if a.Victim == warned {
			if err := put(s.ground.job(s.job, warnFile), row); err != nil {
				panic(err)
			}
			return
		}
		end(doomed)
	}
	if d := a.delay(); d > 0 {
		time.AfterFunc(d, deal)
		return true
	}
	deal()
	return true
}

// claim takes the armed stroke; only one process can.
func (s *striker) claim(a stroke) bool {
	armed, hit := s.ground.job(s.job, armedFile), s.ground.job(s.job, hitFile)
	if os.Rename(armed, hit) != nil {
		return false
	}
	if got, ok := get[stroke](hit); !ok || got.N != a.N || got.Again != a.Again {
		_ = os.Rename(hit, armed) // it was another one by then
		return false
	}
	return true
}

// doomed are the processes that die of a victim's death at our hand, this one last;
// none if what is to die is not there.
func (s *striker) doomed(v victim) (out []fleet.Proc) {
	c, self := crewOf(s.machine), procOf(os.Getpid())
	var all []fleet.Proc
	switch v {
	case trainer:
		all = []fleet.Proc{c.Trainer}
	case agents, warned:
		all = []fleet.Proc{c.Agent}
	case host:
		all = []fleet.Proc{c.Host}
	case whole:
		all = []fleet.Proc{c.Host, c.Agent, c.Shell, c.Trainer, self}
	case plane:
		p, _ := get[fleet.Proc](s.path(planePID))
		all = []fleet.Proc{p}
	}
	last := false
	for i, p := range all {
		switch {
		case p == self:
			last = true
		case p.PID > 0 && p.Alive():
			out = append(out, p)
		case i == 0:
			return nil
		}
	}
	if last {
		out = append(out, self)
	}
	return out
}

// end kills; a process that is to die itself does not go on.
func end(doomed []fleet.Proc) {
	for _, p := range doomed {
		if p.PID != os.Getpid() {
			p.Kill()
			continue
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the kernel takes a moment
	}
}
