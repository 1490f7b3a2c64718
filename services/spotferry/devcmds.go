package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/services/internal/dev"
)

// devCommands are the commands that run the system or a part of it.
func devCommands(e *environment) []*cobra.Command {
	return []*cobra.Command{devCommand(e), demoCommand(e), hostCommand(), agentCommand(e)}
}

// devCommand runs every service in one process.
func devCommand(e *environment) *cobra.Command {
	var (
		seed     uint64
		market   string
		start    int
		evidence string
		cfg      dev.Config
	)
	c := &cobra.Command{
		Use: "dev", Args: args(0, 0), GroupID: groupSystem,
		Short: "The whole system in one process, on this machine",
		Long: `Runs every service in one process with an embedded bus, one state directory, and a
seller whose machines are processes here. Killed at any moment, it goes on where it
was when it is started again; machines and trainings go on without it meanwhile.`,
		Example: "  spotferry dev\n  spotferry dev --state ./state --scale 60       # an hour of market in a minute",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := e.stateDir()
			if err != nil {
				return err
			}
			cfg.Dir, cfg.Version, cfg.Now = dir, e.version, e.now
			if cfg.Logger, err = fileLogger(filepath.Join(dir, "dev.log")); err != nil {
				return err
			}
			defer func() { _ = cfg.Logger.Sync() }()
			if evidence != "" {
				if cfg.EvidenceDir, err = filepath.Abs(evidence); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("seed") {
				cfg.Market = trace.Spec{Kind: "model", Seed: seed}
			}
			if market != "" {
				if market, err = filepath.Abs(market); err != nil {
					return err
				}
				cfg.Market = trace.Spec{Kind: "files", Files: &trace.Files{Dir: market, StartTick: start}}
			}
			cfg.Ready = func() {
				e.term.Note("serving on %s; Ctrl-C stops, machines go on; log in %s", dir, filepath.Join(dir, "dev.log"))
			}
			if err := e.runSystem(cmd.Context(), cfg); err != nil {
				return fmt.Errorf("running the system: %w", err)
			}
			return nil
		},
	}
	f := c.Flags()
	f.Uint64Var(&seed, "seed", 1, "of the made-up market")
	f.StringVar(&market, "market", "", "directory of recorded markets, instead of a made-up one")
	f.IntVar(&start, "market-start", 0, "first tick of the recorded market")
	f.Int64Var(&cfg.Scale, "scale", 0, "market seconds in a second; fixed when the state is made (default 1)")
	f.IntVar(&cfg.Divide, "divide", 0, "divide every timer by this; fixed when the state is made (default 1)")
	f.StringVar(&cfg.Store, "store", "", "where checkpoints go: a directory, or s3://BUCKET/PREFIX?endpoint=URL; fixed when the state is made (default: a directory of the state)")
	f.BoolVar(&cfg.Encrypt, "encrypt", false, "encrypt checkpoints from now on, by a key that is kept in the state")
	f.StringVar(&cfg.Admin, "admin", "", "host:port of /metrics, /livez and /readyz; port 0: any, which the log tells")
	f.StringVar(&evidence, "evidence", "", "directory in which trainers, machines and the meter leave their own records")
	return c
}
