package kills

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The files of evidence, beside the seller's meter.jsonl and kills.jsonl.
const (
	planFile    = "plan.json"     // written before a job is submitted
	struckFile  = "struck.jsonl"  // by whoever kills, before he does
	missedFile  = "missed.jsonl"  // what found nothing to kill, and what was drawn instead
	trainerFile = "trainer.jsonl" // by the trainers
	provenFile  = "proven.jsonl"  // each commit, as it was restored and compared
	summaryFile = "summary.json"
)

// struck is a kill that was carried out.
type struck struct {
	stroke
	Job      string    `json:"job"`
	Point    string    `json:"point"` // the operation that came next
	Epoch    int       `json:"epoch"`
	Step     int64     `json:"step"` // of the save or the training it hit; -1: by an agent, who knows none
	By       string    `json:"by"`   // who killed
	PID      int       `json:"pid"`  // of the first that died
	PIDStart uint64    `json:"pid_start"`
	Lease    string    `json:"lease"`
	Time     time.Time `json:"t"`
}

// missed is a stroke that was not carried out in its time, and its successor.
type missed struct {
	stroke
	Job     string    `json:"job"`
	Instead stroke    `json:"instead"`
	Time    time.Time `json:"t"`
}

// trained is a row of the trainers' side log.
type trained struct {
	Job      string    `json:"job"`
	Layout   string    `json:"layout"`
	Epoch    int       `json:"epoch"`
	PID      int       `json:"pid"`
	PIDStart uint64    `json:"pid_start"`
	Step     int64     `json:"step"`
	Digest   string    `json:"digest,omitempty"`
	Time     time.Time `json:"t"`
	Phase    string    `json:"phase"`
	Detail   string    `json:"detail,omitempty"`
}

// What a trainer's row is about.
const (
	rowFresh     = "fresh"      // it began with nothing
	rowResumed   = "resumed"    // it compared its checkpoint
	rowTorn      = "torn"       // which was not what it should be
	rowStep      = "step"       //
	rowSaveBegin = "save-begin" //
	rowSaveEnd   = "save-end"   // the checkpoint is complete
)

// proven is a committed checkpoint as it was found in the store.
type proven struct {
	Job   string    `json:"job"`
	Name  string    `json:"name"`
	Step  int64     `json:"step"`
	Time  time.Time `json:"t"`
	Wrong string    `json:"wrong,omitempty"`
	Gone  bool      `json:"gone,omitempty"` // it had been dropped by the time it was looked at
}

// jot appends one row in one write, so that rows of several processes do not mix.
func jot(path string, row any) error {
	line, err := json.Marshal(row)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// rows reads JSON lines; a file that is not there has none, and a last line that is
// still being written does not count.
func rows[T any](path string) (out []T, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
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

// put replaces a file of JSON: who reads it sees the old or the new.
func put(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// get reads what put wrote; false if nothing is there.
func get[T any](path string) (v T, ok bool) {
	b, err := os.ReadFile(path)
	return v, err == nil && json.Unmarshal(b, &v) == nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ground is the directory of a run, known to every process of it.
type ground struct{ dir string }

func (g ground) evidence(name string) string { return filepath.Join(g.dir, "evidence", name) }
func (g ground) state() string               { return filepath.Join(g.dir, "state") }
func (g ground) job(id, name string) string  { return filepath.Join(g.dir, "jobs", id, name) }
func (g ground) path(name string) string     { return filepath.Join(g.dir, name) }
func groundOf(getenv func(string) string) ground {
	return ground{filepath.Dir(getenv("SPOTFERRY_EVIDENCE_DIR"))}
}

// Files of a job, by which the processes of a run understand each other.
const (
	armedFile     = "armed.json"     // the stroke that is to come
	hitFile       = "hit.json"       // that stroke, once somebody carries it out
	warnFile      = "warn.json"      // asks for a seller's warning
	committedFile = "committed.json" // the newest step committed
	finishFile    = "finish.json"    // the plan is through: end with the next save
	jobFile       = "job.json"       // what the trainer is to do
)
