package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain makes the test's program the program under test, too: a machine is
// started from a copy of the running executable, as host, agent and trainer, so
// the copy must know these words. What `go test` gives begins with a dash.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
	}
	os.Exit(m.Run())
}
