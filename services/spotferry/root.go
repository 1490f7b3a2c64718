package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The groups of the first help page.
const (
	groupJobs   = "jobs"
	groupMoney  = "money"
	groupSystem = "system"
)

func rootCommand(e *environment) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "spotferry",
		Short: "Long trainings on machines that can be taken away",
		Long: `Spotferry runs long trainings on spot machines, saves them as they go, and
carries them on elsewhere when a machine is taken away, under a hard budget.

Start the system on this machine with 'spotferry dev', then run a job file.`,
		Example: `  spotferry dev                       # the system, in one process
  spotferry run train.yaml            # plan, confirm, submit, follow
  spotferry job ls                    # what runs
  spotferry failover ls               # what was taken away, and what it cost`,
		SilenceErrors: true, SilenceUsage: true,
	})
	e.globalFlags(root)
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(
		&cobra.Group{ID: groupJobs, Title: "Jobs:"},
		&cobra.Group{ID: groupMoney, Title: "Machines and money:"},
		&cobra.Group{ID: groupSystem, Title: "System:"},
	)
	root.SetHelpCommand(helpCommand(root))
	root.SetHelpCommandGroupID(groupSystem)
	root.SetCompletionCommandGroupID(groupSystem)

	root.AddCommand(in(groupJobs, runCommand(e), planCommand(e), rehearseCommand(e), jobCommand(e), failoverCommand(e), checkpointCommand(e), specCommand(e), eventsCommand(e))...)
	root.AddCommand(in(groupMoney, offersCommand(e), sellerCommand(e), poolCommand(e), instanceCommand(e), freezeCommand(e), unfreezeCommand(e), billCommand(e), budgetCommand(e))...)
	root.AddCommand(in(groupSystem, devCommands(e)...)...)
	root.AddCommand(in(groupSystem, credsCommand(e), doctorCommand(e), versionCommand(e))...)
	root.AddCommand(exitCodesTopic(), trainerCommand(e), serviceCommand(e))
	return root
}

func in(id string, cmds ...*cobra.Command) []*cobra.Command {
	for _, c := range cmds {
		if c.GroupID == "" && !c.Hidden {
			c.GroupID = id
		}
	}
	return cmds
}

// group makes a command that only holds others: alone it shows its help, and a
// word that is none of its commands is refused with the nearest that is.
func group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.AddCommand(below...)
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	return c
}

func unknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			names = append(names, c.Name())
			names = append(names, c.Aliases...)
		}
	}
	remedy := fmt.Sprintf("'%s --help' lists its commands", cmd.CommandPath())
	if best := nearest(word, names); best != "" {
		remedy = fmt.Sprintf("did you mean '%s %s'?", cmd.CommandPath(), best)
	}
	return usagef(remedy, "%s has no command %.40q", cmd.CommandPath(), word)
}

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about a command, and about exit codes",
		Example: "  spotferry help job show\n  spotferry help exit-codes",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd := root
			for _, word := range args {
				next := child(cmd, word)
				if next == nil {
					return unknownCommand(cmd, word)
				}
				cmd = next
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("What spotferry exits with:\n\n")
	for _, c := range exitCodes() {
		fmt.Fprintf(&b, "  %3d  %-15s %s\n", c.code, c.name, c.meaning)
	}
	b.WriteString("\nThose from 100 on are about the job; those below are about the command.")
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}
