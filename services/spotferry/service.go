package main

import (
	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/programs"
)

// serviceCommand is the separate programs in this one binary. They read their own
// flags: `spotferry service gateway --help`.
func serviceCommand(e *environment) *cobra.Command {
	c := group(&cobra.Command{Use: "service", Hidden: true, Short: "One of the separate programs"})
	for _, p := range programs.All() {
		c.AddCommand(&cobra.Command{
			Use: p.Name, Short: p.Purpose, DisableFlagParsing: true,
			Example: "  spotferry service " + p.Name + " --installation /etc/spotferry/installation.json",
			RunE:    func(cmd *cobra.Command, words []string) error { return p.Run(cmd.Context(), words, e.term.Out) },
		})
	}
	return c
}
