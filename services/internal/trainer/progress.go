package trainer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Progress is the content of the progress file: the newest step of the trainer.
type Progress struct {
	Step       int     `json:"step"`         // steps done
	Loss       float32 `json:"loss"`         // of that step
	Digest     string  `json:"digest"`       // of the weights after it, see the package comment
	TimeUnixMS int64   `json:"time_unix_ms"` //
	SavedStep  int     `json:"saved_step"`   // newest step with a complete checkpoint, 0 for none
}

// progressEvery is the least time between two writes of the progress file that
// nothing but a step calls for.
const progressEvery = 20 * time.Millisecond

// progressFile replaces a file as training goes on.
type progressFile struct {
	path    string // "" writes nothing
	written time.Time
}

func openProgress(path string) (*progressFile, error) {
	if path == "" {
		return &progressFile{}, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, exitf(CodeUsage, "--progress: %w: give a file that can be written", err)
	}
	return &progressFile{path: path}, nil
}

// due says whether a step at this time should be written. The first one is.
func (f *progressFile) due(now time.Time) bool {
	return f.path != "" && (f.written.IsZero() || now.Sub(f.written) >= progressEvery)
}

// write replaces the file by rename: a reader sees the old content or the new.
// It is not flushed to disk, for it is worth nothing after a crash.
func (f *progressFile) write(p Progress, now time.Time) error {
	if f.path == "" {
		return nil
	}
	p.TimeUnixMS = now.UnixMilli()
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("progress of step %d: %w", p.Step, err)
	}
	tmp := f.path + ".tmp"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, f.path); err != nil {
		return err
	}
	f.written = now
	return nil
}
