package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider/local"
	onmachine "github.com/spotferry/spotferry/services/internal/machine"
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
			return onmachine.Agent(cmd.Context(), onmachine.AgentConfig{UserData: userData, Dir: dir, Getenv: e.getenv, Log: agentLogger()})
		},
	}
	c.Flags().StringVar(&userData, "user-data", "", "file with the bootstrap; default: the machine's metadata service")
	c.Flags().StringVar(&dir, "dir", "", "directory for the job; default $SPOTFERRY_MACHINE_DIR")
	return c
}

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
