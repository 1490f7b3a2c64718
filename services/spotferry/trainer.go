package main

import (
	"flag"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/trainer"
)

// trainerCommand is the training that demo and tests run. It is a job like any
// other: it knows nothing of the system but the environment it is started in.
func trainerCommand(e *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use: "trainer", Short: "Train a small network on text", Hidden: true, Args: args(0, 0),
		Example: "  spotferry trainer --steps 400 --save-every 50 --output out\n  spotferry trainer --steps 800 --output out --resume auto",
	}
	var cfg trainer.Config
	flags := flag.NewFlagSet("trainer", flag.ContinueOnError)
	cfg.Flags(flags)
	cmd.Flags().AddGoFlagSet(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := trainer.Run(cmd.Context(), cfg, e.getenv, e.term.Out)
		if err == nil {
			return nil
		}
		return &failure{exit: exit(trainer.ExitCode(err)), What: fmt.Sprintf("training: %v", err)}
	}
	return cmd
}
