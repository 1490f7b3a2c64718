package simtest

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// A run makes much garbage and keeps little.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
