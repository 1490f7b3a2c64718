package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func checkpointCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "checkpoint", Short: "Look at, keep, restore and drop what a job has saved",
		Long: `A job keeps its newest checkpoints (policy.checkpoint.keep, 3 unless it says otherwise)
and whatever is pinned; the rest is dropped, and deleted a while later. An ended job
keeps its newest, its result, until somebody drops it.`,
		Example: "  spotferry checkpoint ls llama-7b\n  spotferry checkpoint restore llama-7b newest ./result",
	}, checkpointListCommand(e), checkpointShowCommand(e), checkpointVerifyCommand(e), checkpointRestoreCommand(e),
		checkpointPinCommand(e), checkpointUnpinCommand(e), checkpointDropCommand(e), checkpointCollectCommand(e))
}

// checkpointRow is a checkpoint with its part of the store, as far as that could be asked.
type checkpointRow struct {
	console.Checkpoint
	State string                   `json:"state"`
	Why   string                   `json:"why,omitempty"`
	Usage *gateway.CheckpointUsage `json:"usage,omitempty"`
}

// checkpointList is what ls prints.
type checkpointList struct {
	Items   []checkpointRow `json:"items"`
	Dropped int             `json:"dropped"` // of them or beside them
	Store   *gateway.Usage  `json:"store,omitempty"`
	unasked string          // why the store could not be asked
}

func checkpointListCommand(e *environment) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "ls JOB", Aliases: []string{"list"}, Short: "List a job's checkpoints, and what they take", Args: args(1, 1),
		Long: `NEW is what a checkpoint added to the store, SHARED what it has in common with older kept ones.
Together they are less than SIZE where the files have holes or were compressed.`,
		Example: "  spotferry checkpoint ls llama-7b\n  spotferry checkpoint ls llama-7b --all -o wide",
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := e.checkpointList(cmd.Context(), args[0], all)
			if err != nil {
				return err
			}
			v := view{doc: list, page: func(p *page) { writeCheckpoints(e, p, args[0], list, all) }}
			for _, c := range list.Items {
				v.names = append(v.names, c.Name)
			}
			return e.show(v)
		},
		ValidArgsFunction: e.completeJobs,
	}
	cmd.Flags().BoolVar(&all, "all", false, "also what was dropped")
	return cmd
}

func (e *environment) checkpoints(ctx context.Context, job string) ([]console.Checkpoint, error) {
	return once[[]console.Checkpoint](ctx, e, true, console.GetCheckpoints, console.Query{Job: job})
}

func (e *environment) checkpointList(ctx context.Context, job string, all bool) (checkpointList, error) {
	out := checkpointList{Items: []checkpointRow{}}
	l, err := e.connect(ctx, true)
	if err != nil {
		return out, err
	}
	defer l.Close()
	known, err := ask[[]console.Checkpoint](ctx, l, console.GetCheckpoints, console.Query{Job: job})
	if err != nil || len(known) == 0 {
		return out, err
	}
	usage, err := ask[gateway.Usage](ctx, l, console.GetCheckpointUse, console.CheckpointQuery{Job: job})
	if err != nil {
		out.unasked = failureOf(ctx, err).What
	} else {
		out.Store = &usage
	}
	out.Items, out.Dropped = rowsOf(known, usage, all)
	return out, nil
}

// rowsOf joins checkpoints with what they take. It counts what is dropped, and lists it if all are wanted.
func rowsOf(known []console.Checkpoint, usage gateway.Usage, all bool) (rows []checkpointRow, dropped int) {
	by := map[string]*gateway.CheckpointUsage{}
	for i, u := range usage.Checkpoints {
		by[u.Name] = &usage.Checkpoints[i]
	}
	rows = []checkpointRow{}
	for _, c := range known {
		if c.Dropped != nil {
			dropped++
		}
		if c.Dropped == nil || all {
			rows = append(rows, checkpointRow{Checkpoint: c, State: c.State(), Why: c.Why(), Usage: by[c.Name]})
		}
	}
	return rows, dropped
}

func writeCheckpoints(e *environment, p *page, job string, list checkpointList, all bool) {
	if len(list.Items) == 0 && list.Dropped == 0 {
		p.line("Nothing has been committed yet.")
		return
	}
	p.table(checkpointsTable(p, list.Items, e.now()))
	if list.Dropped > 0 && !all {
		p.line("%s dropped; '%s' lists them as well.", wereMany(list.Dropped, "more was", "more were"), e.hint("checkpoint", "ls", shellWord(job), "--all"))
	}
	u := list.Store
	if u == nil {
		p.line("What they take in the store is not known: %s", list.unasked)
		return
	}
	p.line("In the store: %s in %s, for %s of checkpoints: %s saved.", size(u.Bytes), count(u.Objects, "object"), size(u.Held), size(u.Saved))
	if u.Waiting > 0 {
		p.line("%s to be deleted, from %s on.", wereMany(u.Waiting, "dropped checkpoint waits", "dropped checkpoints wait"), p.stamp(u.NextDue))
	}
	if u.Blocked != "" {
		p.line("Nothing is deleted: %s", u.Blocked)
	}
}

func wereMany(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func checkpointsTable(p *page, rows []checkpointRow, now time.Time) terminal.Table {
	asked := slices.ContainsFunc(rows, func(c checkpointRow) bool { return c.Usage != nil })
	names := []string{">STEP", ">EPOCH", ">AGE", ">SIZE"}
	if asked {
		names = append(names, ">NEW", ">SHARED")
	}
	names = append(names, "STATE", "NAME")
	if p.wide {
		names = append(names, ">FILES", ">SAVE", ">UPLOAD", "COMMITTED", "DIGEST", "WEIGHTS")
	}
	t := terminal.Table{Columns: terminal.Columns(names...)}
	for _, c := range rows {
		row := []string{fmt.Sprint(c.Step), fmt.Sprint(c.Epoch), short(now.Sub(c.Committed)), size(c.Bytes)}
		switch u := c.Usage; {
		case asked && u != nil:
			row = append(row, size(u.New), size(u.Shared))
		case asked:
			row = append(row, "", "")
		}
		row = append(row, c.State+labelled(": ", c.Why), c.Name)
		if p.wide {
			row = append(row, fmt.Sprint(c.Files), ms(c.SaveMS), ms(c.UploadMS), p.stamp(c.Committed), c.Digest, c.Weights)
		}
		t.Row(row...)
	}
	return t
}

// pick finds the newest checkpoint that which names: by name, with or without its
// ending, by its hash or the beginning of it, by step, or as the newest. What is
// dropped is found by its name only.
func pick(list []console.Checkpoint, job, which string) (console.Checkpoint, error) {
	for _, c := range slices.Backward(list) {
		_, hash, _ := cutLast(strings.TrimSuffix(c.Name, ".manifest"), "-")
		byName := c.Name == which || strings.TrimSuffix(c.Name, ".manifest") == which
		loosely := fmt.Sprint(c.Step) == which || which == "newest" && c.Newest || len(which) >= 6 && strings.HasPrefix(hash, which)
		if byName || loosely && c.Dropped == nil {
			return c, nil
		}
	}
	return console.Checkpoint{}, &failure{
		exit: exitNotFound, What: fmt.Sprintf("job %.80q has no checkpoint %.80q", job, which),
		Remedy: fmt.Sprintf("'spotferry checkpoint ls %s' lists them", shellWord(job)),
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// completeCheckpoints completes a job, then the names of its checkpoints.
func (e *environment) completeCheckpoints(cmd *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(given) == 0 {
		return e.completeJobs(cmd, given, typed)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	list, err := e.checkpoints(ctx, given[0])
	if err != nil || len(given) > 1 && cmd.Name() != "rm" {
		return nil, cobra.ShellCompDirectiveDefault // a directory, where one is meant
	}
	out := []cobra.Completion{}
	if cmd.Name() != "unpin" && cmd.Name() != "rm" {
		out = append(out, cobra.CompletionWithDesc("newest", "whichever that is"))
	}
	for _, c := range slices.Backward(list) {
		if c.Dropped == nil && !slices.Contains(given, c.Name) && (cmd.Name() != "unpin" || len(c.Pins) > 0) {
			out = append(out, cobra.CompletionWithDesc(terminal.Safe(c.Name), fmt.Sprintf("step %d, %s, %s", c.Step, size(c.Bytes), c.State())))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
