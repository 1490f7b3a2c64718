package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// act makes a command one that changes something: it is not carried out without a
// reason, which is kept in the record beside the name of whoever gives it.
func act(cmd *cobra.Command, run func(ctx context.Context, args []string, reason string) error) *cobra.Command {
	return actUnless(cmd, func() bool { return false }, run)
}

// actUnless is act for a command that can also be only tried.
func actUnless(cmd *cobra.Command, tried func() bool, run func(ctx context.Context, args []string, reason string) error) *cobra.Command {
	var reason string
	cmd.Flags().StringVar(&reason, "reason", "", "`WHY`, kept in the record with your name (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if reason = strings.TrimSpace(reason); reason == "" && !tried() {
			return usagef("say why with --reason 'WHY': it is kept in the record with your name", "%s needs a reason", cmd.CommandPath())
		}
		return run(cmd.Context(), args, reason)
	}
	return cmd
}
