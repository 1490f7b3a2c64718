package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// run is what one child process took. Every contender is one, so that all are
// measured alike.
type run struct {
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu"`  // user and system, of the child and its children
	RSS  int64         `json:"rss"`  // its peak, bytes
	Sent int64         `json:"sent"` // bytes that reached the target, where that is known
	Out  []byte        `json:"-"`
}

// timed runs argv and then flushes the file system of dir: a write that is not
// on the disk has not been made.
func timed(ctx context.Context, env []string, dir string, argv ...string) (run, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	if err == nil && dir != "" {
		err = syncfs(dir)
	}
	r := run{Wall: time.Since(began), Out: out.Bytes()}
	if err != nil {
		return r, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, errs.Bytes())
	}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.RSS = u.Maxrss << 10
	}
	r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, nil
}

// syncfs writes everything of the file system that dir is on.
func syncfs(dir string) error {
	return exec.Command("sync", "-f", dir).Run()
}

// median of each figure on its own.
func median(runs []run) run {
	pick := func(of func(run) int64) int64 {
		v := make([]int64, len(runs))
		for i, r := range runs {
			v[i] = of(r)
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return run{
		Wall: time.Duration(pick(func(r run) int64 { return int64(r.Wall) })),
		CPU:  time.Duration(pick(func(r run) int64 { return int64(r.CPU) })),
		RSS:  pick(func(r run) int64 { return r.RSS }),
		Sent: pick(func(r run) int64 { return r.Sent }),
	}
}
