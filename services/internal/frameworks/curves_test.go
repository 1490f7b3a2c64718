package frameworks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// told is one loss as a trainer wrote it down: a row of losses-<job>.jsonl.
type told struct {
	Epoch int     `json:"epoch"` // of the job, which rises with every machine
	Rank  int     `json:"rank"`
	Step  int     `json:"step"`
	Loss  float64 `json:"loss"`
}

// curves are all losses that the trainers of one job told, in the order in which they did.
type curves []told

func readCurves(path string) (curves, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var c curves
	lines := bytes.Split(b, []byte("\n"))
	for n, line := range lines[:len(lines)-1] { // the last is empty, or still being written
		var row told
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %.100q", path, n+1, err, line)
		}
		c = append(c, row)
	}
	return c, nil
}

// parted returns what was told up to an epoch, and after it.
func (c curves) parted(epoch int) (before, after curves) {
	for _, row := range c {
		if row.Epoch <= epoch {
			before = append(before, row)
		} else {
			after = append(after, row)
		}
	}
	return before, after
}

// of counts what was told in an epoch by rank 0.
func (c curves) of(epoch int) (n int) {
	for _, row := range c {
		if row.Epoch == epoch && row.Rank == 0 {
			n++
		}
	}
	return n
}

// ends are the first and the last loss of rank 0.
func (c curves) ends() (first, last float64) {
	for _, row := range c {
		if row.Rank == 0 && row.Step == 1 {
			first = row.Loss
		}
		if row.Rank == 0 {
			last = row.Loss
		}
	}
	return first, last
}

// point is a step of a rank.
type point struct{ rank, step int }

func (p point) String() string { return fmt.Sprintf("step %d of rank %d", p.step, p.rank) }

// verdict compares what a job's trainers told with an undisturbed run.
type verdict struct {
	rows    int // compared
	again   int // of them, of steps that had been trained before
	epochs  []int
	missing []point
	off     int     // farther off than the tolerance
	worst   float64 // relative difference
	where   string
}

func (v verdict) String() string {
	return fmt.Sprintf("%d losses compared (%d of steps trained again) in %d epochs, largest relative difference %.3g", v.rows, v.again, len(v.epochs), v.worst)
}

// compare looks at every loss that was told, also those of steps that were lost
// and trained again.
func compare(want, got curves) verdict {
	var v verdict
	ought := map[point]float64{}
	for _, row := range want {
		ought[point{row.Rank, row.Step}] = row.Loss
	}
	seen := map[point]bool{}
	for _, row := range got {
		p := point{row.Rank, row.Step}
		loss, known := ought[p]
		v.rows++
		if seen[p] {
			v.again++
		}
		seen[p] = true
		if !slices.Contains(v.epochs, row.Epoch) {
			v.epochs = append(v.epochs, row.Epoch)
		}
		off := relative(loss, row.Loss)
		if !known {
			off = math.Inf(1)
		}
		if off > tolerance {
			v.off++
		}
		if off > v.worst {
			v.worst, v.where = off, fmt.Sprintf("%v in epoch %d: %v, want %v", p, row.Epoch, row.Loss, loss)
		}
	}
	for _, row := range want {
		if p := (point{row.Rank, row.Step}); !seen[p] {
			v.missing = append(v.missing, p)
		}
	}
	return v
}

// relative is how far got is off, as a part of want. What is no number is off by more than anything.
func relative(want, got float64) float64 {
	off := math.Abs(got-want) / math.Abs(want)
	switch {
	case got == want:
		return 0
	case math.IsNaN(off):
		return math.Inf(1)
	}
	return off
}

func TestCurvesAreCompared(t *testing.T) {
	want := curves{{0, 0, 1, 4}, {0, 1, 1, 5}, {0, 0, 2, 3}, {0, 1, 2, 2}}
	for _, tc := range []struct {
		name              string
		got               curves
		again, off, lacks int
		worst             float64
	}{
		{"the same", curves{{1, 0, 1, 4}, {1, 1, 1, 5}, {1, 0, 2, 3}, {1, 1, 2, 2}}, 0, 0, 0, 0},
		{"a step trained again, the same", curves{{1, 0, 1, 4}, {1, 1, 1, 5}, {2, 0, 1, 4}, {2, 1, 1, 5}, {2, 0, 2, 3}, {2, 1, 2, 2}}, 2, 0, 0, 0},
		{"a step trained again, differently", curves{{1, 0, 1, 4}, {1, 1, 1, 5}, {1, 0, 2, 3.3}, {2, 0, 2, 3}, {2, 1, 2, 2}}, 1, 1, 0, 0.1},
		{"a rank that is off", curves{{1, 0, 1, 4}, {1, 1, 1, 5.5}, {1, 0, 2, 3}, {1, 1, 2, 2}}, 0, 1, 0, 0.1},
		{"within the tolerance", curves{{1, 0, 1, 4 + 2e-6}, {1, 1, 1, 5}, {1, 0, 2, 3}, {1, 1, 2, 2}}, 0, 0, 0, 5e-7},
		{"steps that nobody told", curves{{1, 0, 1, 4}, {1, 0, 2, 3}}, 0, 0, 2, 0},
		{"a step that there should not be", curves{{1, 0, 1, 4}, {1, 1, 1, 5}, {1, 0, 2, 3}, {1, 1, 2, 2}, {1, 0, 3, 1}}, 0, 1, 0, math.Inf(1)},
		{"no number", curves{{1, 0, 1, math.NaN()}, {1, 1, 1, 5}, {1, 0, 2, 3}, {1, 1, 2, 2}}, 0, 1, 0, math.Inf(1)},
		{"nothing", nil, 0, 0, 4, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := compare(want, tc.got)
			if v.rows != len(tc.got) || v.again != tc.again || v.off != tc.off || len(v.missing) != tc.lacks || math.Abs(v.worst-tc.worst) > 1e-9 {
				t.Errorf("compare = %+v, missing %v", v, v.missing)
			}
		})
	}
}
