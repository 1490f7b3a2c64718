// Package machine is what runs on a machine: the agent, and, for a machine that
// is processes of this one, its landlord. The one binary and the programs of their own call it.
package machine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider/local"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Host is a local machine's landlord, until the machine ends; the local seller starts it.
func Host(ctx context.Context, args []string) error {
	f := pflag.NewFlagSet("host", pflag.ContinueOnError)
	dir := f.String("dir", "", "directory of the machine")
	if err := f.Parse(args); err != nil || *dir == "" {
		return fmt.Errorf("host: --dir is missing: %w", process.ErrUsage)
	}
	return local.RunHost(ctx, *dir)
}

// AgentConfig says where an agent finds what it is told.
type AgentConfig struct {
	UserData string // file with the bootstrap; "": the machine's metadata service is asked
	Dir      string // for the job; "": $SPOTFERRY_MACHINE_DIR
	Getenv   func(string) string
	Log      *zap.Logger

	// Adjust, if set, has the last word on what the agent is made of: a test stands
	// between it and its store or the gateway.
	Adjust func(*agent.Config)
}

// Agent supervises one trainer until its machine or its job ends. It is nil too when
// another machine has the job: the end that was meant.
func Agent(ctx context.Context, c AgentConfig) error {
	if c.Dir == "" {
		c.Dir = c.Getenv("SPOTFERRY_MACHINE_DIR")
	}
	ch, err := openChannel(ctx, c)
	if err != nil {
		return err
	}
	defer ch.close()
	boot := ch.boot
	processes, err := agent.NewLinux()
	if err != nil {
		return err
	}
	bus, err := agent.OpenBus(agent.BusConfig{Bootstrap: boot, Entropy: rand.Reader, Log: c.Log})
	if err != nil {
		return err
	}
	defer bus.Close()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	// Looks at the machine keep pace with heartbeats, so that a system with short timers notices in time.
	beat := boot.Timers.Heartbeat
	cfg := agent.Config{
		Bootstrap: boot, Dir: c.Dir, Control: bus, Metadata: ch.metadata, Processes: processes, Executable: exe, Env: os.Environ(),
		NoticeEvery: ch.every(beat),
		NoticeCap:   ch.notice,
		WatchEvery:  between(20*time.Millisecond, beat/10, 150*time.Millisecond),
		Changes:     agent.DirChanges,
		Quiet:       between(50*time.Millisecond, 2*beat/5, 2*time.Second),
		LogEvery:    between(50*time.Millisecond, beat/2, 250*time.Millisecond),
		Grace:       between(2*time.Second, 6*beat, 30*time.Second),
		Probe:       agent.ProbeDisk,
		ProbeEvery:  between(time.Second, 6*beat, 30*time.Second),
		KernelLog:   cmp.Or(c.Getenv("SPOTFERRY_KERNEL_LOG"), agent.KernelLogPath),
		NvidiaSMI:   nvidiaSMI(c.Getenv),
		SharedGPUs:  c.Getenv(agent.MetadataEndpointVariable) != "" && c.Getenv(nvidiaSMIVariable) == "", // a local machine is processes of ours
		InputCache:  c.Getenv("SPOTFERRY_INPUT_CACHE"),
		InputLimit:  gigabytes(c.Getenv("SPOTFERRY_INPUT_CACHE_GB")),
		Log:         c.Log,
	}
	ctx, cancel := ch.outlast(ctx, &cfg)
	defer cancel()
	if c.Getenv(agent.MetadataEndpointVariable) == "" { // a local machine shares its cores with others
		cfg.Load = agent.ReadLoad
	}
	if c.Adjust != nil {
		c.Adjust(&cfg)
	}
	LittleMemory()
	err = agent.Run(ctx, cfg)
	c.Log.Info("agent ended", zap.Error(err))
	if errors.Is(err, agent.ErrFenced) {
		return nil
	}
	return err
}

// LittleMemory keeps what the process has freed small beside what it uses: the
// memory belongs to the trainer. Nearly all that is used are the buffers of
// checkpoints, which cost the collector nothing to look at.
func LittleMemory() { debug.SetGCPercent(25) }

// gigabytes reads a number of them; 0: none that could be meant.
func gigabytes(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return n * 1e9
}

const nvidiaSMIVariable = "SPOTFERRY_NVIDIA_SMI"

// nvidiaSMI is where the driver's own program is, "" on a machine without.
func nvidiaSMI(getenv func(string) string) string {
	if path := getenv(nvidiaSMIVariable); path != "" {
		return path
	}
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return ""
	}
	return path
}

func between(least, d, most time.Duration) time.Duration { return min(max(d, least), most) }
