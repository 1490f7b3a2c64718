package agent

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// gpuQuery asks nvidia-smi for what a GPUSample has, in its order.
var gpuQuery = []string{
	"--query-gpu=index,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw", "--format=csv,noheader,nounits",
}

// gpuLost is what nvidia-smi's exit says when a GPU cannot be reached (its manual,
// "return value"); older ones say 0 and write it.
const gpuLost = 15

// errGPUGone is an answer that says that a GPU is not there any more.
var errGPUGone = errors.New("a GPU cannot be reached")

// errGPUHung is no answer in time.
var errGPUHung = errors.New("no answer")

// sampler asks nvidia-smi, one process at a time. A process that hangs in the
// driver cannot be killed; none is started beside it.
type sampler struct {
	path      string
	processes Processes
	dir       string
	env       []string
	timeout   time.Duration
	hung      Process
}

// sample returns the GPUs as the driver shows them.
func (s *sampler) sample(ctx context.Context) ([]events.GPUSample, error) {
	if s.hung != nil && !exited(s.hung) {
		return nil, fmt.Errorf("%s: %w yet", s.path, errGPUHung)
	}
	s.hung = nil
	var out bounded
	p, err := s.processes.Start(Program{Argv: append([]string{s.path}, gpuQuery...), Dir: s.dir, Env: s.env, Stdout: &out, Stderr: &out})
	if err != nil {
		return nil, err
	}
	ended := make(chan Exit, 1)
	go func() { ended <- p.Wait() }() // as long as the process, which may be for ever
	timer := time.NewTimer(s.timeout)
	defer timer.Stop()
	select {
	case exit := <-ended:
		if err := s.end(p); err != nil { // what it wrote has been read then
			return nil, err
		}
		return parseGPUs(out.bytes(), exit)
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := s.end(p); err != nil {
		s.hung = p
	}
	return nil, fmt.Errorf("%s: %w for %v", s.path, errGPUHung, s.timeout)
}

func (s *sampler) end(p Process) error {
	// The machine's end is no reason to leave it running, nor a hung one to wait long.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return p.Kill(ctx)
}

func exited(p Process) bool {
	done := make(chan struct{})
	go func() { p.Wait(); close(done) }() // ends with the process
	select {
	case <-done:
		return true
	case <-time.After(10 * time.Millisecond):
		return false
	}
}

// parseGPUs reads nvidia-smi's answer.
func parseGPUs(out []byte, exit Exit) ([]events.GPUSample, error) {
	text := bound(strings.TrimSpace(string(out)), 300)
	switch {
	case exit.Code == gpuLost, strings.Contains(text, "GPU is lost"), strings.Contains(text, "fallen off the bus"),
		strings.Contains(text, "Unable to determine the device handle"), strings.Contains(text, "No devices were found"):
		return nil, fmt.Errorf("%w: nvidia-smi %v: %s", errGPUGone, exit, text)
	case exit != (Exit{}):
		return nil, fmt.Errorf("nvidia-smi %v: %s", exit, text)
	}
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace, r.FieldsPerRecord, r.LazyQuotes = true, 7, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi's answer: %w", err)
	}
	gpus := make([]events.GPUSample, 0, len(rows))
	for _, f := range rows {
		index, err := strconv.Atoi(f[0])
		if err != nil || len(gpus) == maxGPUs {
			return nil, fmt.Errorf("nvidia-smi's answer has a GPU %.40q", f[0])
		}
		gpus = append(gpus, events.GPUSample{
			Index: index, Name: bound(f[1], 100), Util: figure(f[2]) / 100,
			MemUsedMiB: int64(figure(f[3])), MemMiB: int64(figure(f[4])), TempC: figure(f[5]), PowerW: figure(f[6]),
		})
	}
	return gpus, nil
}

// maxGPUs is more than any machine has.
const maxGPUs = 64

// figure reads a number; what a GPU does not measure is "[N/A]" and counts as 0.
func figure(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 1e9 {
		return 0
	}
	return f
}

// bounded keeps the first bytes written to it.
type bounded struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p[:min(len(p), 64<<10-len(b.buf))]...)
	return len(p), nil
}

func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf)
}

// gpuWatch judges samples: a GPU is missing when two in a row say so, of a machine
// that had it before or should have it for the job. That nvidia-smi hangs or fails
// otherwise is no proof.
type gpuWatch struct {
	asked  int // the least that the job can do with
	most   int // GPUs seen at once
	absent int // samples in a row that lack one
}

// judge says what is wrong with the machine by a sample, "" if nothing is.
func (w *gpuWatch) judge(gpus []events.GPUSample, err error) string {
	least := max(w.most, w.asked)
	switch {
	case err != nil && !errors.Is(err, errGPUGone):
		return "" // nothing is known
	case err == nil && len(gpus) >= least:
		w.most, w.absent = len(gpus), 0
		return ""
	case least == 0:
		return "" // it never had any, and needs none
	}
	if w.absent++; w.absent < 2 {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	if w.most < w.asked {
		return fmt.Sprintf("nvidia-smi shows %d GPUs where the job asked for %d", len(gpus), w.asked)
	}
	return fmt.Sprintf("nvidia-smi shows %d GPUs where there were %d", len(gpus), w.most)
}

// gpusAsked is the least number of GPUs that a job can do with, whichever of the
// machines it would take this is.
func gpusAsked(choices []events.Accelerator) int {
	least := 0
	for i, a := range choices {
		if i == 0 || a.Count < least {
			least = a.Count
		}
	}
	return least
}
