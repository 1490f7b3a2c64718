package trainer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Evidence is one row of the evidence file: what one trainer process held at
// one moment. Rows of all the processes of a job, put side by side, show which
// steps were trained twice, when a machine took over, and that a step repeated
// gave the same weights.
type Evidence struct {
	Job      string    `json:"job"`       // SPOTFERRY_JOB_ID
	Epoch    int       `json:"epoch"`     // SPOTFERRY_EPOCH, 0 if unset
	PID      int       `json:"pid"`       //
	PIDStart uint64    `json:"pid_start"` // ticks from boot to the process's start: field 22 of /proc/self/stat
	Step     int       `json:"step"`      // steps done
	Loss     float32   `json:"loss"`      // of that step, in nats per character
	Digest   string    `json:"digest"`    // of the weights after the step, see the package comment
	Time     time.Time `json:"t"`         // wall clock, UTC
	Phase    string    `json:"phase"`     // one of the phases below
}

// Phases of an Evidence row.
const (
	PhaseStep      = "step"       // the step was trained
	PhaseSaveBegin = "save-begin" // its checkpoint is about to be written
	PhaseSaveEnd   = "save-end"   // its checkpoint is complete
)

// evidenceLog appends rows to a file that other processes may append to too.
type evidenceLog struct {
	file *os.File // nil writes nothing
}

func openEvidence(path string) (*evidenceLog, error) {
	if path == "" {
		return &evidenceLog{}, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, exitf(CodeUsage, "--evidence: %w: give a file that can be written", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, exitf(CodeUsage, "--evidence: %w: give a file that can be written", err)
	}
	return &evidenceLog{f}, nil
}

// add appends one row in one write, so that rows of two processes do not mix
// and a kill leaves whole rows.
func (l *evidenceLog) add(row Evidence) error {
	if l.file == nil {
		return nil
	}
	line, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("evidence of step %d: %w", row.Step, err)
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

func (l *evidenceLog) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// processStart reads when this process started, in clock ticks since boot. Pid
// and start time together name a process: pids come round again.
func processStart() (uint64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	return parseStart(stat)
}

func parseStart(stat []byte) (uint64, error) {
	// Field 2 is the program's name in parentheses, and may hold anything.
	// Field 3 is the first after it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, errors.New("/proc/self/stat: field 22, the start time, is missing")
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
