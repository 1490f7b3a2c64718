package rehearse

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
)

// follower reads what trainers tell on the machines of a local seller.
type follower struct {
	seller string
	now    func() time.Time

	mu     sync.Mutex
	told   []Telling
	leases map[events.LeaseID]bool // followed
	wg     sync.WaitGroup
}

func newFollower(seller string, now func() time.Time) *follower {
	return &follower{seller: seller, now: now, leases: map[events.LeaseID]bool{}}
}

// follow takes up a lease's machine, once, until ctx ends.
func (f *follower) follow(ctx context.Context, lease events.LeaseID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leases[lease] {
		return
	}
	f.leases[lease] = true
	f.wg.Go(func() { f.read(ctx, lease) })
}

// all returns what was told so far, oldest first.
func (f *follower) all() []Telling {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

const (
	progressFile = "progress.json"
	lookEvery    = 10 * time.Millisecond // where the kernel does not tell of changes
	lookAnyway   = 250 * time.Millisecond
)

// read reads a machine's progress file whenever it changes.
func (f *follower) read(ctx context.Context, lease events.LeaseID) {
	dir := machineOf(f.seller, lease)
	every := time.Duration(lookAnyway)
	changed, err := agent.DirChanges(ctx, dir)
	if err != nil {
		every = lookEvery // the machine's directory comes a moment later, or there is no inotify
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last os.FileInfo
	for {
		select {
		case <-ctx.Done():
			for range changed { // ends soon
			}
			return
		case _, more := <-changed:
			if !more {
				changed = nil
			}
		case <-tick.C:
			if changed == nil && ctx.Err() == nil {
				if changed, err = agent.DirChanges(ctx, dir); err == nil {
					tick.Reset(lookAnyway)
				}
			}
		}
		last = f.look(lease, filepath.Join(dir, progressFile), last)
	}
}

// look reads the file if it is another than last, and returns what it is.
func (f *follower) look(lease events.LeaseID, path string, last os.FileInfo) os.FileInfo {
	info, err := os.Lstat(path)
	if err != nil || last != nil && os.SameFile(info, last) && info.ModTime().Equal(last.ModTime()) {
		return last
	}
	at := f.now()
	t, ok := readTelling(path)
	if !ok {
		return last
	}
	t.Lease, t.At = lease, at
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.told); n > 0 && f.told[n-1].Lease == lease && f.told[n-1].Step == t.Step && (t.Loss == nil || f.told[n-1].Loss != nil) {
		return info
	}
	f.told = append(f.told, t)
	return info
}

// readTelling returns what the file says now. It is the job's, which may have put
// anything there: half a file and nonsense tell nothing.
func readTelling(path string) (Telling, bool) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Telling{}, false
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, 64<<10))
	if err != nil {
		return Telling{}, false
	}
	said := struct {
		Step int64    `json:"step"`
		Loss *float64 `json:"loss"`
	}{Step: -1}
	if json.Unmarshal(b, &said) != nil || said.Step < 0 {
		return Telling{}, false
	}
	if said.Loss != nil && (math.IsNaN(*said.Loss) || math.IsInf(*said.Loss, 0)) {
		said.Loss = nil
	}
	return Telling{Step: said.Step, Loss: said.Loss}, true
}
