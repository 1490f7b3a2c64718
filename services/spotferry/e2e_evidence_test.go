package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What follows checks the records of trainers, machines and meter by itself. It
// uses nothing of the program: whoever reviews a demonstration would write the same.

// trained is a row of trainer.jsonl.
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

// metered is a row of meter.jsonl: one price of one machine's bill.
type metered struct {
	Instance  string    `json:"instance"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	EndedBy   string    `json:"ended_by"`
	PriceNano int64     `json:"price_nano"`
	PriceFrom time.Time `json:"price_from"`
	GrainS    int64     `json:"grain_s"`
	Aligned   bool      `json:"aligned_grain"`
	MinimumS  int64     `json:"minimum_s"`
	FreeS     int64     `json:"free_if_reclaimed_s"`
	Amount    int64     `json:"amount_micros"`
}

// killed is a row of kills.jsonl.
type killed struct {
	Target   string    `json:"target"`
	PID      int       `json:"pid"`
	Time     time.Time `json:"t"`
	Kind     string    `json:"kind"`
	DrawnAt  string    `json:"drawn_at"`
	Instance string    `json:"instance"`
	Token    string    `json:"token"`
	EndedBy  string    `json:"ended_by"`
}

// records are the evidence of one demonstration.
type records struct {
	trainer []trained
	meter   []metered
	kills   []killed
}

func readRecords(t *testing.T, dir string) records {
	t.Helper()
	return records{
		readRows[trained](t, filepath.Join(dir, "trainer.jsonl")),
		readRows[metered](t, filepath.Join(dir, "meter.jsonl")),
		readRows[killed](t, filepath.Join(dir, "kills.jsonl")),
	}
}

// readRows reads JSON lines; a file that is not there has none, and a last line
// that is still being written does not count.
func readRows[T any](t *testing.T, path string) (rows []T) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b[:bytes.LastIndexByte(b, '\n')+1]))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%s:%d: %v: %.200q", path, n, err, lines.Text())
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return rows
}

// process is one trainer.
type process struct {
	epoch       int
	pid         int
	start       uint64
	first, last int // steps; 0: it trained none
	torn        int // step of a save that was begun and never ended; 0: none
	steps       int
	began       time.Time
}

// lives are the trainer processes of a job in the order in which they began.
// Within one, steps must rise by one.
func (r records) lives(t *testing.T, job string) (out []process) {
	t.Helper()
	for _, row := range r.trainer {
		if row.Job != job {
			continue
		}
		i := slices.IndexFunc(out, func(l process) bool { return l.pid == row.PID && l.start == row.PIDStart })
		if i < 0 {
			i = len(out)
			out = append(out, process{epoch: row.Epoch, pid: row.PID, start: row.PIDStart, began: row.Time})
		}
		l := &out[i]
		switch row.Phase {
		case "save-begin":
			l.torn = row.Step
		case "save-end":
			l.torn = 0
		case "step":
			if l.first == 0 {
				l.first = row.Step
			} else if row.Step != l.last+1 {
				t.Errorf("job %s, pid %d: step %d follows step %d", job, row.PID, row.Step, l.last)
			}
			l.last, l.steps = row.Step, l.steps+1
		}
		if l.epoch != row.Epoch {
			t.Errorf("job %s, pid %d: its epoch was %d and is %d", job, row.PID, l.epoch, row.Epoch)
		}
	}
	slices.SortStableFunc(out, func(a, b process) int { return a.began.Compare(b.began) })
	return out
}

// lostBefore returns, by epoch, the steps that had been trained before it and were trained again in it.
func lostBefore(lives []process) map[int]int64 {
	lost := map[int]int64{}
	last := 0
	for _, l := range lives {
		if l.first == 0 {
			continue
		}
		lost[l.epoch] += int64(max(0, last-(l.first-1)))
		last = l.last
	}
	return lost
}

// digests checks that a step seen twice had the same weights both times, and
// returns the weights of the last.
func (r records) digests(t *testing.T, job string) (final string, steps int) {
	t.Helper()
	seen := map[int]string{}
	for _, row := range r.trainer {
		if row.Job != job {
			continue
		}
		if d, ok := seen[row.Step]; ok && d != row.Digest {
			t.Errorf("job %s: step %d had weights %.12s and %.12s", job, row.Step, d, row.Digest)
		}
		seen[row.Step] = row.Digest
		if row.Step >= steps {
			final, steps = row.Digest, row.Step
		}
	}
	for n := 1; n <= steps; n++ {
		if seen[n] == "" {
			t.Errorf("job %s: nobody trained step %d", job, n)
		}
	}
	return final, steps
}

// bills computes what each instance costs, in micro-dollars, and compares each
// row's amount on the way.
func (r records) bills(t *testing.T) map[string]*big.Int {
	t.Helper()
	rows := map[string][]metered{}
	for _, m := range r.meter {
		rows[m.Instance] = append(rows[m.Instance], m)
	}
	out := map[string]*big.Int{}
	for id, all := range rows {
		slices.SortFunc(all, func(a, b metered) int { return a.PriceFrom.Compare(b.PriceFrom) })
		sum := new(big.Int)
		for i, m := range all {
			if a := all[0]; !m.Start.Equal(a.Start) || !m.End.Equal(a.End) || m.EndedBy != a.EndedBy {
				t.Errorf("instance %s: its rows differ in when or how it ended", id)
			}
			amount := charge(all, i)
			if amount.Cmp(big.NewInt(m.Amount)) != 0 {
				t.Errorf("instance %s, row %d: the meter says %d, its terms give %s", id, i, m.Amount, amount)
			}
			sum.Add(sum, amount)
		}
		out[id] = sum
	}
	return out
}

// charge is the amount of one price: the nanoseconds billed at it times the price, rounded half to even.
func charge(rows []metered, i int) *big.Int {
	m := rows[i]
	lived := m.End.Sub(m.Start)
	if m.EndedBy == "seller" && m.FreeS > 0 && lived <= time.Duration(m.FreeS)*time.Second {
		return new(big.Int)
	}
	grain := time.Duration(max(m.GrainS, 1)) * time.Second
	up := func(d time.Duration) time.Duration { return (d + grain - 1) / grain * grain }
	from, effective := m.Start, func(t time.Time) time.Time { return t }
	if m.Aligned { // grains begin at whole multiples of their length since 1970
		since := func(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }
		from = m.Start.Add(-(since(m.Start) % grain))
		effective = func(t time.Time) time.Time { return t.Add(up(since(t)) - since(t)) }
		lived = effective(m.End).Sub(from)
	}
	to := from.Add(max(up(lived), time.Duration(m.MinimumS)*time.Second))
	if i > 0 {
		from = effective(m.PriceFrom)
	}
	if i+1 < len(rows) {
		to = effective(rows[i+1].PriceFrom)
	}
	exact := big.NewRat(m.PriceNano, 3600*1_000_000_000*1000) // micro-dollars a nanosecond
	exact.Mul(exact, new(big.Rat).SetInt64(int64(to.Sub(from))))
	return halfEven(exact)
}

func halfEven(x *big.Rat) *big.Int {
	twice := new(big.Int).Mul(x.Num(), big.NewInt(2))
	q, r := new(big.Int).QuoRem(twice.Add(twice, x.Denom()), new(big.Int).Mul(x.Denom(), big.NewInt(2)), new(big.Int))
	if r.Sign() == 0 && q.Bit(0) == 1 {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

func TestHalfEvenRoundsTiesToTheEven(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		num, den, want int64
	}{{1, 2, 0}, {3, 2, 2}, {5, 2, 2}, {7, 2, 4}, {7, 3, 2}, {8, 3, 3}, {4, 1, 4}, {0, 1, 0}, {2_499_999, 1_000_000, 2}, {2_500_001, 1_000_000, 3}} {
		if got := halfEven(big.NewRat(tc.num, tc.den)); got.Int64() != tc.want {
			t.Errorf("%d/%d gives %s, want %d", tc.num, tc.den, got, tc.want)
		}
	}
}

// of sums the bills of a job's instances; "" of all.
func of(bills map[string]*big.Int, job string) int64 {
	sum := new(big.Int)
	for id, b := range bills {
		if strings.HasPrefix(id, "i-"+job) {
			sum.Add(sum, b)
		}
	}
	return sum.Int64()
}

// newestDigest is the SHA-256 of the weights in the newest checkpoint below dir:
// of what follows the header of its model.safetensors.
func newestDigest(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "checkpoint-*", "model.safetensors"))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no checkpoint in %s: %w", dir, err)
	}
	step := func(path string) (n int) {
		_, _ = fmt.Sscanf(filepath.Base(filepath.Dir(path)), "checkpoint-%d", &n)
		return n
	}
	b, err := os.ReadFile(slices.MaxFunc(found, func(a, b string) int { return step(a) - step(b) }))
	if err != nil || len(b) < 8 {
		return "", fmt.Errorf("reading the newest checkpoint: %w", err)
	}
	header := binary.LittleEndian.Uint64(b)
	if header > uint64(len(b)-8) {
		return "", fmt.Errorf("a header of %d bytes in a file of %d", header, len(b))
	}
	sum := sha256.Sum256(b[8+header:])
	return hex.EncodeToString(sum[:]), nil
}
