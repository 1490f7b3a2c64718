package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/rehearse"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// rehearsal is one run of the command: a system of its own and one job in it.
type rehearsal struct {
	e    *environment // of the user
	file string

	given     given
	limit     time.Duration
	notice    time.Duration
	tolerance float64
	save      string // file of the record; "": beside the job file
	noSave    bool
	dir       string // of the system; "": a temporary one
}

func rehearseCommand(e *environment) *cobra.Command {
	r := &rehearsal{e: e}
	cmd := &cobra.Command{
		Use: "rehearse FILE", Short: "Run a job here for minutes, take its machine away, see whether it resumes", Args: args(1, 1),
		Long: `Rehearse runs a job file's own setup and run on this machine, as you, in a
system of its own that is taken down afterwards. Nothing is bought, and no other
system is asked. Once the job has saved and trained on, its machine is taken away
with a notice, and later without a word; what it then tells of the steps that it
does again is compared with what it told before. It says whether the job resumes
rightly or what to change in the script, and measures what plans otherwise assume:
step time, memory, checkpoint size, save pause, restore, setup and inputs. They are
kept beside FILE for 'spotferry plan FILE', which takes them.

It runs here for now, not on a rented machine: what it measures is true of this
machine, and it needs what the job needs. For the time of a move, old and new
trainer may both hold memory. $SPOTFERRY_REHEARSAL is 1 in the job's environment,
so that it can leave alone what others see.

To have losses compared, a script writes {"step": N, "loss": X} after each step to
the file $SPOTFERRY_PROGRESS_FILE, to another name first and renamed.

It exits with 0 when the job resumes rightly, 100 when something is to be changed,
101 when that could not be found out in time.`,
		Example: "  spotferry rehearse train.yaml\n  spotferry rehearse train.yaml --for 20m --notice 2m\n  spotferry rehearse train.yaml --env STEPS=500 -o json | jq .verdict",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.file = args[0]
			return r.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&r.given.env, "env", "e", nil, "environment variable `NAME=VALUE`, or NAME to pass this shell's on; may be repeated")
	f.StringArrayVar(&r.given.secrets, "secret", nil, "variable that nobody sees: `NAME` to pass this shell's on, or NAME=VALUE; may be repeated")
	f.DurationVar(&r.limit, "for", 5*time.Minute, "the longest it may take, `TIME`; it ends sooner when it knows enough")
	f.DurationVar(&r.notice, "notice", 30*time.Second, "`TIME` of the notice")
	f.Float64Var(&r.tolerance, "tolerance", 1e-4, "`RELATIVE` difference up to which two losses of a step are the same; 0: to the last digit")
	f.StringVar(&r.save, "save", "", "`FILE` to keep the figures in (default beside the job file: train.yaml has train.rehearsal.json)")
	f.BoolVar(&r.noSave, "no-save", false, "keep no figures")
	f.StringVar(&r.dir, "dir", "", "`DIR` of its system and machines, which stays to be looked at with --state DIR (default a temporary one)")
	return cmd
}

func (r *rehearsal) check() error {
	switch {
	case r.save != "" && r.noSave:
		return usagef("give one of --save and --no-save", "--save and --no-save contradict each other")
	case r.limit < 5*time.Second || r.limit > 24*time.Hour:
		return usagef("give --for a time from 5s to 24h", "--for is %s", r.limit)
	case r.notice < time.Second || r.notice > 10*time.Minute:
		return usagef("give --notice a time from 1s to 10m; sellers give 30s or 2m", "--notice is %s", r.notice)
	case r.tolerance < 0 || r.tolerance >= 1 || math.IsNaN(r.tolerance):
		return usagef("give --tolerance a number from 0 up to 1, such as 1e-4", "--tolerance is %v", r.tolerance)
	}
	return nil
}

func (r *rehearsal) run(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	job, err := r.read()
	if err != nil {
		return err
	}
	dir, clean, err := r.place()
	if err != nil {
		return err
	}
	defer clean()
	r.e.term.Note("rehearsing %s on this machine, for %s at most; its setup and run are run here, as you", terminal.Safe(r.file), short(r.limit))
	seen, err := r.play(ctx, dir, job)
	r.e.term.Done()
	if ctx.Err() != nil {
		return &failure{exit: exitInterrupted, What: "interrupted; the rehearsal was taken down"}
	}
	if err != nil {
		return err
	}
	return r.report(seen, rehearse.Key(job.Spec))
}

// read reads the job file. No market is asked, so no date is judged; and no money
// is spent, so a file without a budget will do.
func (r *rehearsal) read() (jobfile.Job, error) {
	src, err := os.ReadFile(r.file)
	if err != nil {
		return jobfile.Job{}, usagef("give the path of a job file", "reading the job file: %v", err)
	}
	g := r.given
	g.budget = "1"
	opt, err := r.e.options(r.file, g)
	if err != nil {
		return jobfile.Job{}, err
	}
	job, err := jobfile.Read(r.file, src, opt)
	if err != nil {
		return job, err
	}
	r.e.warn(slices.DeleteFunc(job.Warnings, func(p jobfile.Problem) bool { return p.Severity == jobfile.Note })) // those are about money
	return job, nil
}

// place is where its system is, and what removes it afterwards.
func (r *rehearsal) place() (dir string, clean func(), err error) {
	if r.dir != "" {
		dir, err = filepath.Abs(r.dir)
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err != nil {
			return "", nil, usagef("give --dir a directory that can be made", "making %s: %v", r.dir, err)
		}
		return dir, func() { r.e.term.Note("look again: spotferry --state %s job ls", shellWord(dir)) }, nil
	}
	if dir, err = os.MkdirTemp("", "spotferry-rehearsal-"); err != nil {
		return "", nil, fmt.Errorf("making a directory for the rehearsal: %w", err)
	}
	return dir, func() { discard(dir) }, nil
}
