package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func checkpointPinCommand(e *environment) *cobra.Command {
	return retainCommand(e, console.DoPin, &cobra.Command{
		Use: "pin JOB CHECKPOINT", Short: "Keep a checkpoint whatever the policy says", Args: args(2, 2),
		Example: "  spotferry checkpoint pin llama-7b 1200 --reason 'best loss so far'",
	}, "%s is pinned, until '%s'.", "unpin")
}

func checkpointUnpinCommand(e *environment) *cobra.Command {
	return retainCommand(e, console.DoUnpin, &cobra.Command{
		Use: "unpin JOB CHECKPOINT", Short: "Leave a checkpoint to the policy again", Args: args(2, 2),
		Example: "  spotferry checkpoint unpin llama-7b 1200 --reason 'copied away'",
	}, "%s is kept as long as the policy keeps it; '%s' shows the others.", "ls")
}

func checkpointDropCommand(e *environment) *cobra.Command {
	return retainCommand(e, console.DoDrop, &cobra.Command{
		Use: "rm JOB CHECKPOINT...", Short: "Drop checkpoints for good", Args: args(2, 1+mostDropped),
		Long: `Rm drops checkpoints: nothing is restored from them any more, and what only they needed is
deleted a while later. The newest two of a job that has not ended cannot be dropped, nor can one
that is pinned or being restored.`,
		Example: "  spotferry checkpoint rm llama-7b 1000 --reason 'diverged'\n  spotferry checkpoint rm llama-7b newest -y --reason 'the result is copied away'",
	}, "%s is dropped; what only it needed is deleted a while later. '%s' shows what is left.", "ls")
}

// mostDropped is how many checkpoints the console drops at once.
const mostDropped = 100

// retainCommand puts a person's act to checkpoints of one job. The words get their names, and the command to type next.
func retainCommand(e *environment, v console.Verb, cmd *cobra.Command, words, next string) *cobra.Command {
	cmd.ValidArgsFunction = e.completeCheckpoints
	return act(cmd, func(ctx context.Context, args []string, reason string) error {
		l, err := e.connect(ctx, false)
		if err != nil {
			return err
		}
		defer l.Close()
		r := console.CheckpointRequest{Job: args[0], Reason: reason}
		for _, which := range args[1:] {
			c, err := picked(ctx, l, args[0], which)
			if err != nil {
				return err
			}
			r.Names = append(r.Names, c.Name)
		}
		what := r.Names[0]
		if len(r.Names) > 1 {
			what = count(len(r.Names), "checkpoint")
		}
		if v == console.DoDrop {
			if err := e.confirm(ctx, "dropping "+what, fmt.Sprintf("Drop %s of %s for good?", what, args[0])); err != nil {
				return err
			}
		}
		list, err := ask[[]console.Checkpoint](ctx, l, v, r)
		if err != nil {
			return err
		}
		hint := []string{"checkpoint", next, shellWord(args[0])}
		if next == "unpin" {
			hint = append(hint, r.Names[0], "--reason", "WHY")
		}
		return e.show(view{doc: list, list: true, names: r.Names, page: func(p *page) { p.line(words, what, e.hint(hint...)) }})
	})
}

func checkpointCollectCommand(e *environment) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "gc [JOB]", Short: "Drop and delete what is not kept any longer, now", Args: args(0, 1),
		Long: `The system does this by itself, time and again. What the policy does not keep any longer is dropped
first; what was dropped is deleted when its time of grace is over, which gc does not cut short.`,
		Example:           "  spotferry checkpoint gc --dry-run\n  spotferry checkpoint gc llama-7b --reason 'the disk is full'",
		ValidArgsFunction: e.completeJobs,
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what it would do")
	return actUnless(cmd, func() bool { return dry }, func(ctx context.Context, args []string, reason string) error {
		l, err := e.connect(ctx, dry)
		if err != nil {
			return err
		}
		defer l.Close()
		list, err := e.collect(ctx, l, args, dry, reason)
		if err != nil {
			return err
		}
		v := view{doc: list, list: true, page: func(p *page) { writeCollected(p, list, dry) }}
		for _, c := range list {
			v.names = append(v.names, string(c.Job))
		}
		return e.show(v)
	})
}

// collect asks for a round of each job until it has nothing left to do.
func (e *environment) collect(ctx context.Context, l *link, jobs []string, dry bool, reason string) ([]gateway.Collected, error) {
	if len(jobs) == 0 {
		list, err := ask[[]console.Job](ctx, l, console.GetJobs, nil)
		if err != nil {
			return nil, err
		}
		for _, j := range list {
			jobs = append(jobs, string(j.ID))
		}
	}
	out := []gateway.Collected{}
	for i, job := range jobs {
		e.term.Progress(int64(i), int64(len(jobs)), "looking at "+job)
		c, err := collectJob(ctx, l, job, dry, reason)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	e.term.Done()
	return out, nil
}

func collectJob(ctx context.Context, l *link, job string, dry bool, reason string) (gateway.Collected, error) {
	if dry {
		return ask[gateway.Collected](ctx, l, console.GetCollectable, console.CheckpointQuery{Job: job})
	}
	var all gateway.Collected
	for {
		c, err := ask[gateway.Collected](ctx, l, console.DoCollect, console.CollectRequest{Job: job, Reason: reason})
		if err != nil {
			return all, err
		}
		c.Dropped = append(all.Dropped, c.Dropped...)
		c.Objects += all.Objects
		c.Bytes += all.Bytes
		progress := c.Objects > all.Objects || all.Job == ""
		if all = c; !c.More {
			return all, nil
		}
		if !progress {
			return all, errors.New("the store is too slow: nothing more was deleted in one round; try again later")
		}
	}
}

func writeCollected(p *page, list []gateway.Collected, dry bool) {
	t := terminal.Table{Columns: terminal.Columns("JOB", ">DROPPED", ">DELETED", ">SIZE", ">WAITING", "FROM", "NOTE")}
	var bytes int64
	for _, c := range list {
		bytes += c.Bytes
		if len(c.Dropped)+c.Objects+c.Waiting > 0 || c.Blocked != "" {
			from := ""
			if c.Waiting > 0 {
				from = p.stamp(c.NextDue)
			}
			t.Row(string(c.Job), fmt.Sprint(len(c.Dropped)), fmt.Sprint(c.Objects), size(c.Bytes), fmt.Sprint(c.Waiting), from, c.Blocked)
		}
	}
	if t.Len() == 0 {
		p.line("Nothing is there that is not kept.")
		return
	}
	p.table(t)
	if dry {
		p.line("%s would be deleted. Nothing was changed.", size(bytes))
	}
}
