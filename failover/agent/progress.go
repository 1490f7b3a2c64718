package agent

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"syscall"
)

// progress is what a trainer says of itself, in the file it was told of.
type progress struct {
	Step int64    `json:"step"`
	Loss *float64 `json:"loss"`
}

// readProgress returns what the file says now. No file, half a file and nonsense
// are all "nothing known": a trainer need not write it, or not well.
func readProgress(path string) (progress, bool) {
	// Not a FIFO, which would wait for a writer, nor a link to anywhere.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return progress{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return progress{}, false
	}
	p := progress{Step: -1}
	if json.Unmarshal(data, &p) != nil || p.Step < 0 {
		return progress{}, false
	}
	if p.Loss != nil && (math.IsNaN(*p.Loss) || math.IsInf(*p.Loss, 0)) {
		p.Loss = nil
	}
	return p, true
}
