package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider/local"
	"github.com/spotferry/spotferry/failover/agent"
)

// hostCommand is a local machine's landlord; the seller starts it.
func hostCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "host", Hidden: true, Args: args(0, 0), Short: "A local machine (started by the local seller)",
		RunE: func(cmd *cobra.Command, _ []string) error { return local.RunHost(cmd.Context(), dir) },
	}
	c.Flags().StringVar(&dir, "dir", "", "directory of the machine")
	_ = c.MarkFlagRequired("dir")
	return c
}

// agentCommand supervises one trainer; a machine starts it at boot.
func agentCommand(e *environment) *cobra.Command {
	var userData, dir string
	c := &cobra.Command{
		Use: "agent", Hidden: true, Args: args(0, 0), Short: "The agent on a machine (started by the machine)",
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := agentLogger()
			if dir == "" {
				dir = e.getenv("SPOTFERRY_MACHINE_DIR")
			}
			md, err := agent.NewIMDS(e.getenv(agent.MetadataEndpointVariable))
			if err != nil {
				return err
			}
			defer md.Close()
			boot, err := agent.LoadBootstrap(cmd.Context(), userData, md)
			if err != nil {
				return err
			}
			processes, err := agent.NewLinux()
			if err != nil {
				return err
			}
			bus, err := agent.OpenBus(agent.BusConfig{Bootstrap: boot, Entropy: rand.Reader, Log: log})
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
			err = agent.Run(cmd.Context(), agent.Config{
				Bootstrap: boot, Dir: dir, Control: bus, Metadata: md, Processes: processes, Executable: exe, Env: os.Environ(),
				NoticeEvery: between(20*time.Millisecond, beat/10, 500*time.Millisecond),
				WatchEvery:  between(20*time.Millisecond, beat/10, 150*time.Millisecond),
				Changes:     agent.DirChanges,
				Quiet:       between(50*time.Millisecond, 2*beat/5, 2*time.Second),
				LogEvery:    between(50*time.Millisecond, beat/2, 250*time.Millisecond),
				Grace:       between(2*time.Second, 6*beat, 30*time.Second),
				Log:         log,
			})
			log.Info("agent ended", zap.Error(err))
			if errors.Is(err, agent.ErrFenced) {
				return nil // another machine has the job: the end that was meant
			}
			return err
		},
	}
	c.Flags().StringVar(&userData, "user-data", "", "file with the bootstrap; default: the machine's metadata service")
	c.Flags().StringVar(&dir, "dir", "", "directory for the job; default $SPOTFERRY_MACHINE_DIR")
	return c
}

func between(least, d, most time.Duration) time.Duration { return min(max(d, least), most) }

// agentLogger writes to the machine's console.
func agentLogger() *zap.Logger {
	cfg := zap.NewProductionConfig()
	cfg.OutputPaths, cfg.Sampling, cfg.DisableStacktrace = []string{"stderr"}, nil, true
	log, err := cfg.Build()
	if err != nil {
		return zap.NewNop()
	}
	return log
}

// fileLogger writes one JSON object a line to path, which grows.
func fileLogger(path string) (*zap.Logger, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the log's directory: %w", err)
	}
	cfg := zap.NewProductionConfig()
	cfg.OutputPaths, cfg.ErrorOutputPaths = []string{path}, []string{path}
	cfg.Sampling, cfg.DisableStacktrace = nil, true
	log, err := cfg.Build()
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return log, nil
}
