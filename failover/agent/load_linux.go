package agent

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ReadLoad returns the load of the machine that this process runs on; false if
// the kernel does not tell.
func ReadLoad() (Load, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Load{}, false
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	f := bytes.Fields(line) // cpu user nice system idle iowait …, in ticks
	if len(f) < 6 || string(f[0]) != "cpu" {
		return Load{}, false
	}
	var idle int64
	for _, n := range f[4:6] {
		v, err := strconv.ParseInt(string(n), 10, 64)
		if err != nil {
			return Load{}, false
		}
		idle += v
	}
	var own unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &own) != nil {
		return Load{}, false
	}
	const tick = time.Second / 100 // USER_HZ on every architecture that Go runs on
	return Load{Cores: runtime.NumCPU(), Idle: time.Duration(idle) * tick, Own: time.Duration(own.Nano())}, true
}
