// Package natsbustest lets tests of other packages run the real bus under
// virtual time.
package natsbustest

import (
	"os"
	"runtime"
	"testing"
	"testing/synctest"
)

// Bubble is synctest.Test for code that uses nats.go and nats-server.
//
// Both keep things for the whole process that must not pass from one bubble to
// another: a pool of timers (taken when a connection flushes, as it does after
// each reconnect) and a goroutine that all file stores share. The pool is
// emptied before and after; for the goroutine, no server may run in this
// process outside the bubble meanwhile, so a test that calls Bubble must not be
// parallel, and bubbles follow each other.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	emptyPools()
	defer emptyPools()
	synctest.Test(t, f)
}

// emptyPools drops what any sync.Pool holds: it survives one collection, not two.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// Dir is a directory for one test, in memory where there is such a place: the
// bus waits for the disk at every append.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "natsbus")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
