package main

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// specCommand holds what can be done with job files alone, without any system.
func specCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "spec", Short: "Check, describe and convert job files; no system is needed",
		Long:    "A job file is a SkyPilot task file with one key more, policy. Every key of it is\nread, warned about or refused; none is ignored.",
		Example: "  spotferry spec validate train.yaml",
	}, specValidateCommand(e), specSchemaCommand(e), specConvertCommand(e))
}

func specValidateCommand(e *environment) *cobra.Command {
	var g given
	cmd := &cobra.Command{
		Use: "validate FILE...", Short: "Say everything that is wrong with job files", Args: cobra.ArbitraryArgs,
		Long: `Validate reads job files and says, with file, line and column, all that would be
refused and all that would be warned about. It asks no system: dates are not judged,
nor what can be bought. It exits with 2 when any file would be refused.`,
		Example: "  spotferry spec validate jobs/*.yaml\n  spotferry spec validate sky-task.yaml --budget 120\n  spotferry spec validate train.yaml -o json | jq '.items[].problems'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("usage: "+cmd.UseLine(), "%s needs FILE", cmd.CommandPath())
			}
			return e.validate(args, g)
		},
	}
	g.flags(cmd.Flags())
	return cmd
}

// judged is what there is to say of one file.
type judged struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Problems []jobfile.Problem `json:"problems"`
}

func (e *environment) validate(files []string, g given) error {
	var all []judged
	refused := 0
	for _, f := range files {
		v, err := e.judge(f, g)
		if err != nil {
			return err
		}
		if all = append(all, v); !v.Valid {
			refused++
		}
	}
	v := view{doc: all, list: true, page: func(p *page) { e.writeVerdicts(p, all) }}
	for _, f := range all {
		if f.Valid {
			v.names = append(v.names, f.File)
		}
	}
	if err := e.show(v); err != nil {
		return err
	}
	if refused == 0 {
		return nil
	}
	if e.format.forProgram() {
		return &failure{exit: exitUsage} // the answer says it all
	}
	return usagef("mend what is refused; what is only warned about would run", "%d of %s would be refused", refused, count(len(all), "job file"))
}

func (e *environment) judge(file string, g given) (judged, error) {
	v := judged{File: file, Problems: []jobfile.Problem{}}
	opt, err := e.options(file, g)
	if err != nil {
		return v, err
	}
	src, err := os.ReadFile(file)
	if err != nil {
		v.Problems = append(v.Problems, jobfile.Problem{File: file, Severity: jobfile.Refused, Message: err.Error(), Remedy: "give the path of a job file"})
		return v, nil
	}
	job, err := jobfile.Read(file, src, opt)
	var found *jobfile.Error
	switch {
	case err == nil:
		v.Valid, v.Problems = true, append(v.Problems, job.Warnings...)
	case errors.As(err, &found):
		v.Problems = append(append(v.Problems, found.Problems...), found.Warnings...)
		slices.SortStableFunc(v.Problems, func(a, b jobfile.Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
		})
	default:
		return v, err
	}
	return v, nil
}

// writeVerdicts says what is refused and warned about, and with -o wide also
// what was understood where a file says nothing.
func (e *environment) writeVerdicts(p *page, all []judged) {
	for _, v := range all {
		said := slices.DeleteFunc(slices.Clone(v.Problems), func(q jobfile.Problem) bool {
			return q.Severity == jobfile.Note && e.format != formatWide
		})
		for _, q := range said {
			for line := range strings.SplitSeq(q.String(), "\n") {
				p.line("%s", line)
			}
		}
		if v.Valid {
			p.line("%s: ok%s", terminal.Safe(v.File), labelled(", ", countIf(len(said), "remark")))
		}
	}
}

func countIf(n int, what string) string {
	if n == 0 {
		return ""
	}
	return count(n, what)
}

func specSchemaCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of job files, for editors", Args: args(0, 0),
		Long: `Schema prints the JSON Schema of job files. An editor that knows it completes keys,
explains them and marks mistakes: save it, and begin a job file with

  # yaml-language-server: $schema=./job.schema.json`,
		Example: "  spotferry spec schema > job.schema.json",
		RunE: func(*cobra.Command, []string) error {
			b, err := jobfile.Schema()
			if err != nil {
				return err
			}
			e.term.Print(string(b))
			return nil
		},
	}
}

func specConvertCommand(e *environment) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use: "convert FILE", Short: "Write another system's task as a job file", Args: args(1, 1),
		Long: `Convert prints a job file that does what a dstack task does. What has no counterpart
is said in its comments and on standard error; what dstack does not say, such as a
budget, is left as a ? to be filled in: the result is refused until it is.`,
		Example: "  spotferry spec convert --from dstack train.dstack.yml > train.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			if from != "dstack" {
				return usagef("give --from dstack; task files of SkyPilot need no conversion", "--from is %.40q", from)
			}
			return e.convert(args[0])
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "`SYSTEM` that FILE is of: dstack")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"dstack"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (e *environment) convert(file string) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return usagef("give the path of a dstack task", "reading the task: %v", err)
	}
	out, problems, err := jobfile.FromDstack(file, src)
	var found *jobfile.Error
	if errors.As(err, &found) {
		return &failure{exit: exitUsage, What: terminal.Safe(file) + " cannot be converted", Problems: found.Problems}
	}
	if err != nil {
		return err
	}
	e.warn(problems)
	e.term.Print(strings.TrimRight(out, "\n"))
	return nil
}
