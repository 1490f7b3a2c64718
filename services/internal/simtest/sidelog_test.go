package simtest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// state is a trainer's whole state: a chain of hashes, one link a step. Whatever
// happens to a job, after n steps it is one value and no other.
type state [sha256.Size]byte

func (s state) next(step int64) state {
	return sha256.Sum256(binary.LittleEndian.AppendUint64(s[:], uint64(step)))
}

func beginning(job events.JobID) state { return sha256.Sum256([]byte(job)) }

func (s state) String() string { return hex.EncodeToString(s[:]) }

// stateAfter is what n steps of a job come to.
func stateAfter(job events.JobID, n int64) state {
	s := beginning(job)
	for i := int64(1); i <= n; i++ {
		s = s.next(i)
	}
	return s
}

// run is the life of one trainer process, as it wrote it down itself.
type run struct {
	job   events.JobID
	epoch int
	pid   string // machine and number of the start on it
	from  int64  // step restored
	had   state  // what was restored
	began time.Time
	ended time.Time // zero while it lives
	steps []made
}

type made struct {
	step  int64
	state state
	at    time.Time
}

// sideLog is what trainers write beside everything, for the oracles alone.
type sideLog struct {
	mu   sync.Mutex
	runs []*run
}

func (l *sideLog) add(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, r)
}

// of returns a job's runs in the order in which they began.
func (l *sideLog) of(id events.JobID) []*run {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*run
	for _, r := range l.runs {
		if r.job == id {
			out = append(out, r)
		}
	}
	return out
}

func (l *sideLog) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}
