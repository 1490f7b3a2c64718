package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func checkpointCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "checkpoint", Short: "Look at what a job has saved",
		Example: "  spotferry checkpoint ls llama-7b\n  spotferry checkpoint show llama-7b newest",
	}, checkpointListCommand(e), checkpointShowCommand(e))
}

func checkpointListCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "ls JOB", Aliases: []string{"list"}, Short: "List a job's committed checkpoints", Args: args(1, 1),
		Example: "  spotferry checkpoint ls llama-7b\n  spotferry checkpoint ls llama-7b -o wide",
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := e.checkpoints(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			v := view{doc: list, list: true, page: func(p *page) {
				if len(list) == 0 {
					p.line("Nothing has been committed yet.")
					return
				}
				p.table(checkpointsTable(p, list))
			}}
			for _, c := range list {
				v.names = append(v.names, c.Name)
			}
			return e.show(v)
		},
		ValidArgsFunction: e.completeJobs,
	}
}

func (e *environment) checkpoints(ctx context.Context, job string) ([]console.Checkpoint, error) {
	return once[[]console.Checkpoint](ctx, e, true, console.GetCheckpoints, console.Query{Job: job})
}

func checkpointsTable(p *page, list []console.Checkpoint) terminal.Table {
	names := []string{">STEP", ">EPOCH", ">SIZE", ">FILES", "COMMITTED", "STATE", "NAME"}
	if p.wide {
		names = append(names, "DIGEST", "WEIGHTS")
	}
	t := terminal.Table{Columns: terminal.Columns(names...)}
	for _, c := range list {
		row := []string{fmt.Sprint(c.Step), fmt.Sprint(c.Epoch), size(c.Bytes), fmt.Sprint(c.Files), p.stamp(c.Committed), standing(c), c.Name}
		if p.wide {
			row = append(row, c.Digest, c.Weights)
		}
		t.Row(row...)
	}
	return t
}

// standing is where a checkpoint stands: what a restore would take, or why not.
func standing(c console.Checkpoint) string {
	switch {
	case c.Rejected != "":
		return "bad"
	case c.Newest:
		return "newest"
	}
	return "good"
}

func checkpointShowCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "show JOB [CHECKPOINT]", Short: "Show one checkpoint, by name, by step, or the newest", Args: args(1, 2),
		Example: "  spotferry checkpoint show llama-7b\n  spotferry checkpoint show llama-7b 1200",
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := e.checkpoints(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			which := "newest"
			if len(args) == 2 {
				which = args[1]
			}
			c, err := pick(list, args[0], which)
			if err != nil {
				return err
			}
			return e.show(view{doc: c, names: []string{c.Name}, page: func(p *page) { writeCheckpoint(p, c) }})
		},
		ValidArgsFunction: e.completeJobs,
	}
}

// pick finds the newest checkpoint that which names.
func pick(list []console.Checkpoint, job, which string) (console.Checkpoint, error) {
	for _, c := range slices.Backward(list) {
		if c.Name == which || fmt.Sprint(c.Step) == which || (which == "newest" && c.Newest) {
			return c, nil
		}
	}
	return console.Checkpoint{}, &failure{
		exit: exitNotFound, What: fmt.Sprintf("job %.80q has no checkpoint %.80q", job, which),
		Remedy: fmt.Sprintf("'spotferry checkpoint ls %s' lists them", shellWord(job)),
	}
}

func writeCheckpoint(p *page, c console.Checkpoint) {
	p.head("%s", c.Name)
	p.field("state", "%s", standing(c)+labelled(": ", c.Rejected))
	p.field("step", "%d, of epoch %d", c.Step, c.Epoch)
	p.field("committed", "%s", p.stamp(c.Committed))
	p.field("size", "%s in %s", size(c.Bytes), count(c.Files, "file"))
	p.field("digest", "%s", c.Digest)
	p.field("weights", "%s", c.Weights)
}
