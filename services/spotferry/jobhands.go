package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/console"
)

func jobPauseCommand(e *environment) *cobra.Command {
	return steerCommand(e, console.DoPause, &cobra.Command{
		Use: "pause JOB", Short: "Save a job, give its machine back, and let it rest",
		Long:    "Pause lets the trainer save, stops it, and gives its machine back. Nothing is bought for the job until\n'spotferry job resume' takes it up again from its newest checkpoint.",
		Example: "  spotferry job pause llama-7b --reason 'cluster needed for the release'",
	}, "%s (%s) is %s. '%s' takes it up again.", "resume", "--reason", "WHY")
}

func jobResumeCommand(e *environment) *cobra.Command {
	return steerCommand(e, console.DoResume, &cobra.Command{
		Use: "resume JOB", Short: "Take a paused job up again from its newest checkpoint",
		Long:    "Resume also takes up a job that paused by itself: for want of budget, or for a trouble that would have\ngone on burning money. 'spotferry job show' says which, and what to mend before.",
		Example: "  spotferry job resume llama-7b --reason 'release is out'",
	}, "%s (%s) goes on: %s. '%s' follows it.", "logs", "-f")
}

func jobMigrateCommand(e *environment) *cobra.Command {
	return steerCommand(e, console.DoMigrate, &cobra.Command{
		Use: "migrate JOB", Short: "Move a running job to another machine",
		Long:    "Migrate buys another machine while the job goes on, then saves, moves, and gives the old machine back.\nHold the pool or the seller that it is to leave, or it may be bought from again.",
		Example: "  spotferry pool hold aws/us-east-1a/p3.2xlarge/spot --reason 'slow disks'\n  spotferry job migrate llama-7b --reason 'slow disks'",
	}, "%s (%s) is to move: %s. '%s' shows how it goes.", "show")
}

// steerCommand puts a person's act to one job. The words get the job's name, id
// and status, and the command to type next.
func steerCommand(e *environment, v console.Verb, cmd *cobra.Command, words, next string, more ...string) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = args(1, 1), e.completeJobs
	return act(cmd, func(ctx context.Context, args []string, reason string) error {
		j, err := once[console.Job](ctx, e, false, v, console.JobRequest{Job: args[0], Reason: reason})
		if err != nil {
			return err
		}
		return e.show(view{doc: j, names: []string{string(j.ID)}, page: func(p *page) {
			p.line(words, j.Name, j.ID, j.Status, e.hint(append([]string{"job", next, string(j.ID)}, more...)...))
		}})
	})
}
