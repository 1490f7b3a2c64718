package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/services/internal/fleet"
)

// How a process was hurt.
const (
	killed  = "kill -9"
	point   = "point"   // it killed itself where its code names a point
	stopped = "SIGSTOP" // and went on later
	full    = "disk full"
)

// blow is a row of chaos.jsonl: what we did to one process, and what it hit.
type blow struct {
	N       int       `json:"n"`
	Target  string    `json:"target"`
	Replica int       `json:"replica"`
	PID     int       `json:"pid"`
	Start   uint64    `json:"pid_start"` // clock ticks since boot
	Time    time.Time `json:"t"`
	How     string    `json:"kind"`
	Point   string    `json:"point,omitempty"`
	State   string    `json:"state"`  // of every open job, or of the one on the machine
	Inside  bool      `json:"inside"` // a failover was going on
	Lease   string    `json:"lease,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}

// evidence keeps our own record of what was done.
type evidence struct {
	dir string

	mu     sync.Mutex
	blows  []blow
	last   time.Time // of a provocation
	hitSet map[string]bool
}

func newEvidence(dir string) (*evidence, error) {
	return &evidence{dir: dir, hitSet: map[string]bool{}}, os.MkdirAll(dir, 0o700)
}

// begin is a blow about to be dealt: the state is that of now, not of afterwards.
func (l *evidence) begin(jobs []failover.Job) blow {
	b := blow{Time: time.Now().UTC()}
	b.State, b.Inside = states(jobs)
	return b
}

// end writes it down.
func (l *evidence) end(b blow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.N = len(l.blows) + 1
	l.blows = append(l.blows, b)
	line, err := json.Marshal(b)
	if err != nil {
		return
	}
	f, err := os.OpenFile(filepath.Join(l.dir, "chaos.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()
}

func (l *evidence) all() []blow {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]blow(nil), l.blows...)
}

func (l *evidence) provoke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
}

func (l *evidence) provoked() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// arm names a point: the first process that comes by it dies.
func (l *evidence) arm(dir, name string) error {
	return os.WriteFile(filepath.Join(dir, "points", name), nil, 0o600)
}

// hit looks whether a program died at a point, writes that down and returns its name.
func (l *evidence) hit(dir string, p *fleet.Program, jobs []failover.Job) string {
	names, _ := os.ReadDir(filepath.Join(dir, "points", "hit"))
	for _, n := range names {
		name := n.Name()
		l.mu.Lock()
		known := l.hitSet[name]
		if !known && strings.HasPrefix(name, p.Name+".") {
			l.hitSet[name] = true
		}
		l.mu.Unlock()
		if known || !strings.HasPrefix(name, p.Name+".") {
			continue
		}
		b := l.begin(jobs)
		b.Target, b.Replica, b.PID, b.Start, b.How, b.Point = p.Name, p.Replica, p.Pid(), p.StartTicks(), point, name
		l.end(b)
		return name
	}
	return ""
}

// points are those hit so far.
func (l *evidence) points() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.hitSet {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// rows reads JSON lines; a file that is not there has none.
func rows[T any](path string) (out []T, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(b[:bytes.LastIndexByte(b, '\n')+1]))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %.200q", path, n, err, lines.Text())
		}
		out = append(out, row)
	}
	return out, lines.Err()
}

// trained is a row of trainer.jsonl, the trainers' own record.
type trained struct {
	Job      string    `json:"job"`
	Epoch    int       `json:"epoch"`
	PID      int       `json:"pid"`
	PIDStart uint64    `json:"pid_start"`
	Step     int       `json:"step"`
	Digest   string    `json:"digest"`
	Time     time.Time `json:"t"`
	Phase    string    `json:"phase"`
}

// metered is a row of meter.jsonl, the seller's own record.
type metered struct {
	Instance string `json:"instance"`
	Token    string `json:"token"`
	EndedBy  string `json:"ended_by"`
	Amount   int64  `json:"amount_micros"`
}

// reclaimed is a row of kills.jsonl, the seller's own record.
type reclaimed struct {
	Token string    `json:"token"`
	PID   int       `json:"pid"`
	Time  time.Time `json:"t"`
	Kind  string    `json:"kind"`
}

// write leaves one JSON document beside the records.
func (l *evidence) write(name string, v any) {
	if b, err := json.MarshalIndent(v, "", "  "); err == nil {
		_ = os.WriteFile(filepath.Join(l.dir, name), append(b, '\n'), 0o600)
	}
}
