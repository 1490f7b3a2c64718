package rehearse

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spotferry/spotferry/events"
)

// memory measures the processes of a job on this machine: those that were started
// with its id in their environment, and their descendants, who may have dropped it.
type memory struct {
	mark []byte
	own  map[process]bool
	noes map[process]int // how often a process was looked at that was not
	peak int64
}

// sure is how many looks make sure that a process is not the job's: between fork
// and exec it still has the environment of its parent.
const sure = 3

// process is a process by what never comes round again.
type process struct {
	pid   int
	start string // ticks since boot
}

func newMemory(job events.JobID) *memory {
	return &memory{mark: []byte("SPOTFERRY_JOB_ID=" + string(job)), own: map[process]bool{}, noes: map[process]int{}}
}

// sample adds what the job's processes hold now. Pages that several of them share
// count for each. It returns how many there are.
func (m *memory) sample() int {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	type row struct {
		process
		parent int
		bytes  int64
	}
	var rows []row
	ours := map[int]bool{}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		f, err := statOf(pid)
		if err != nil || f[0][0] == 'Z' {
			continue
		}
		parent, _ := strconv.Atoi(string(f[1]))
		pages, _ := strconv.ParseInt(string(f[21]), 10, 64)
		r := row{process{pid, string(f[19])}, parent, pages * int64(os.Getpagesize())}
		rows = append(rows, r)
		if m.marked(r.process) {
			ours[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, r := range rows {
			if ours[r.parent] && !ours[r.pid] {
				ours[r.pid], grown = true, true
			}
		}
	}
	all := int64(0)
	own, noes := map[process]bool{}, map[process]int{} // those that are gone are forgotten
	for _, r := range rows {
		if ours[r.pid] {
			all += r.bytes
		}
		if m.own[r.process] {
			own[r.process] = true
		} else {
			noes[r.process] = m.noes[r.process]
		}
	}
	m.own, m.noes, m.peak = own, noes, max(m.peak, all)
	return len(ours)
}

// marked says whether a process was started with the job's id in its environment.
func (m *memory) marked(p process) bool {
	if m.own[p] || m.noes[p] >= sure {
		return m.own[p]
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", p.pid))
	if err != nil {
		m.noes[p] = sure // somebody else's
		return false
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, 4<<20))
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, m.mark) {
			m.own[p] = true
			return true
		}
	}
	m.noes[p]++
	return false
}

// statOf returns the fields of a process's line after its name, from field 3 on. See proc(5).
func statOf(pid int) ([][]byte, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 22 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f)+2)
	}
	return f, nil
}

// ThisMachine describes this machine, but for its GPUs.
func ThisMachine(cpus int) Machine {
	m := Machine{CPUs: cpus, GPUs: []string{}}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = valueOf(b, "model name")
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		kib, _ := strconv.ParseInt(valueOf(bytes.ReplaceAll(b, []byte(" kB"), nil), "MemTotal"), 10, 64)
		m.MemoryBytes = kib << 10
	}
	return m
}

// valueOf is the first value of a name in a file of lines "name : value".
func valueOf(b []byte, name string) string {
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		if k, v, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(k)) == name {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}
