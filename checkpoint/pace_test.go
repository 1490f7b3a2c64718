package checkpoint_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// busy counts how many puts there are at once, each a second long.
type busy struct {
	checkpoint.Store
	mu        sync.Mutex
	now, most int
	sizes     []int64
}

func (b *busy) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	b.mu.Lock()
	b.now++
	b.most, b.sizes = max(b.most, b.now), append(b.sizes, size)
	b.mu.Unlock()
	time.Sleep(time.Second)
	b.mu.Lock()
	b.now--
	b.mu.Unlock()
	return b.Store.Put(ctx, name, r, size)
}

// TestWorkersAndMemory: the number of chunks under way follows what is set,
// also while they are, and memory limits it.
func TestWorkersAndMemory(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"w": chunky(24, "w")})
	for _, tc := range []struct {
		name string
		cfg  checkpoint.Config
		set  func(*checkpoint.Engine)
		most int
	}{
		{"the default", checkpoint.Config{}, nil, 8},
		{"one", checkpoint.Config{Workers: 1}, nil, 1},
		{"as many as there is memory for", checkpoint.Config{Workers: 10, Memory: 3 << 20}, nil, 3},
		{"one when there is no memory for any", checkpoint.Config{Workers: 10, Memory: 1}, nil, 1},
		{"one buffer each when sealed", checkpoint.Config{Workers: 10, Memory: 6 << 20, Key: [32]byte{1}}, nil, 6},
		{"two when compressed", checkpoint.Config{Workers: 10, Memory: 6 << 20, Compress: checkpoint.CompressOn}, nil, 3},
		{"more, set while it runs", checkpoint.Config{}, func(e *checkpoint.Engine) { e.SetWorkers(11) }, 11},
		{"what was configured, set back", checkpoint.Config{}, func(e *checkpoint.Engine) { e.SetWorkers(2); e.SetWorkers(0) }, 8},
		{"a boost", checkpoint.Config{BoostWorkers: 12}, func(e *checkpoint.Engine) { e.Boost(true) }, 12},
		{"a boost within its memory", checkpoint.Config{BoostWorkers: 12, Memory: 4 << 20, BoostMemory: 9 << 20}, func(e *checkpoint.Engine) { e.Boost(true) }, 9},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &busy{Store: mem.New(mem.Config{})}
			e := variant(t, s, tc.cfg)
			if tc.set != nil {
				go func() { time.Sleep(time.Second / 2); tc.set(e) }()
			}
			_, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
			must(t, err)
			if s.most != tc.most {
				t.Errorf("%s: %d puts at once, want %d", tc.name, s.most, tc.most)
			}
			synctest.Wait()
		})
	}
}

// TestRate: uploads keep to the rate that is set, and a notice lifts it at once,
// for what is under way too.
func TestRate(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"w": chunky(8, "w")})
	for _, tc := range []struct {
		name     string
		set      func(*checkpoint.Engine)
		from, to time.Duration
	}{
		{"eight mebibytes at one a second", func(*checkpoint.Engine) {}, 7900 * time.Millisecond, 8100 * time.Millisecond},
		{"a notice after two seconds", func(e *checkpoint.Engine) { e.Boost(true) }, 2 * time.Second, 2500 * time.Millisecond},
		{"no limit any more", func(e *checkpoint.Engine) { e.SetRate(0) }, 2 * time.Second, 2500 * time.Millisecond},
		{"twice the rate after two seconds", func(e *checkpoint.Engine) { e.SetRate(2 << 20) }, 4900 * time.Millisecond, 5200 * time.Millisecond},
		{"a boost that is over", func(e *checkpoint.Engine) { e.Boost(true); e.Boost(false) }, 7900 * time.Millisecond, 8100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := variant(t, mem.New(mem.Config{}), checkpoint.Config{Rate: 1 << 20, Compress: checkpoint.CompressOff})
			start := time.Now()
			go func() { time.Sleep(2 * time.Second); tc.set(e) }()
			var halfway checkpoint.Progress
			go func() { time.Sleep(1500 * time.Millisecond); halfway = e.Progress() }()
			_, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
			must(t, err)
			took := time.Since(start)
			synctest.Wait()
			if took < tc.from || took > tc.to {
				t.Errorf("%s: took %v, want %v to %v", tc.name, took, tc.from, tc.to)
			}
			if halfway.Sent < 1<<20 || halfway.Sent > 2<<20 || halfway.Left < 6<<20 {
				t.Errorf("%s: after 1.5 s Progress = %+v, want about 1.5 MiB sent", tc.name, halfway)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := variant(t, mem.New(mem.Config{}), checkpoint.Config{Rate: 1000})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := e.Upload(ctx, checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Minute {
			t.Errorf("Upload = %v after %v, want it stopped by its deadline", err, time.Since(start))
		}
	})
}
