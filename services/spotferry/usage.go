package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotferry/spotferry/services/internal/jobfile"
)

func usagef(remedy, format string, args ...any) error {
	return &failure{exit: exitUsage, What: fmt.Sprintf(format, args...), Remedy: remedy}
}

// args refuses any other number of arguments than those that the command's Use names.
func args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		remedy := "usage: " + cmd.UseLine()
		switch n := len(given); {
		case n < least:
			return usagef(remedy, "%s needs %s", cmd.CommandPath(), argument(cmd, n))
		case n > most:
			return usagef(remedy, "%s does not take %.40q", cmd.CommandPath(), given[most])
		}
		return nil
	}
}

// argument is the name of the n-th argument in the command's Use.
func argument(cmd *cobra.Command, n int) string {
	if words := strings.Fields(cmd.Use)[1:]; n < len(words) {
		return strings.Trim(words[n], "[]")
	}
	return "an argument"
}

// flagError is a flag that could not be read, with the nearest that is known.
func flagError(cmd *cobra.Command, err error) error {
	remedy := fmt.Sprintf("'%s --help' lists its flags", cmd.CommandPath())
	word, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if unknown {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if best := nearest(word, names); best != "" {
			remedy = "did you mean --" + best + "?"
		}
		return usagef(remedy, "%s has no flag --%s", cmd.CommandPath(), word)
	}
	return usagef(remedy, "%s", err)
}

// nearest is the name that word was most likely meant to be, or "".
func nearest(word string, names []string) string {
	best := jobfile.Nearest(word, names)
	if best != "" || len(word) < 2 {
		return best
	}
	for _, n := range names {
		if strings.HasPrefix(n, word) {
			return n
		}
	}
	return ""
}
