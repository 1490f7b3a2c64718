package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/deploy/examples"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/dev"
	"github.com/spotferry/spotferry/services/internal/jobfile"
)

const (
	demoScale  = 240 // market seconds in a second: four seconds are a quarter of an hour
	demoDivide = 10  // of the default timers
	demoLimit  = 5 * time.Minute
)

// demo is one demonstration: a system of its own, a few jobs, and what came of them.
type demo struct {
	e        *environment
	dir      string
	seed     uint64
	evidence string
	files    []string // job files of the user; none: the examples
	market   string   // directory of recorded markets; "": a market made for the purpose
	trouble  bool     // three trainings that go wrong instead
	limit    time.Duration

	session    session
	jobs       []demoJob
	references sync.WaitGroup // of the jobs run without Spotferry
	timeline   *follower
}

type demoJob struct {
	id        events.JobID
	file      string
	job       jobfile.Job
	reference chan reference
}

func demoCommand(e *environment) *cobra.Command {
	d := &demo{e: e}
	c := &cobra.Command{
		Use: "demo", Args: args(0, 0), GroupID: groupSystem,
		Short: "Watch real trainings survive real kills",
		Long: `Runs a system of its own with three jobs on a market that takes machines away
all the time, shows what happens, and accounts for it. It is 'dev' and 'run' with
the job files of deploy/examples; nothing in it is a special case.

With --market DIR one job of 48 hours runs on recorded prices instead, 288 times
as fast as they were, and its cost is set beside known policies.

With --trouble three trainings go wrong as they do in the field: one begins anew
after its machine was taken, one hangs, one crashes twice at the same step. Each
is stopped, told apart and paid for no longer than it has to be.`,
		Example: "  spotferry demo\n  spotferry demo --seed 7 --state ./state     # look at it afterwards with --state ./state\n  spotferry demo --job train.yaml -o json\n  spotferry demo --trouble",
		RunE:    func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	f := c.Flags()
	f.Uint64Var(&d.seed, "seed", 1, "of the market; the same seed draws the same reclaims")
	f.StringVar(&d.evidence, "evidence", "", "directory in which the trainers, the machines and the meter leave their own records")
	f.StringArrayVar(&d.files, "job", nil, "job file to run instead of the examples; may be repeated")
	f.StringVar(&d.market, "market", "", "directory of recorded markets")
	f.BoolVar(&d.trouble, "trouble", false, "show three trainings that go wrong, and what stops them")
	c.MarkFlagsMutuallyExclusive("trouble", "market")
	c.MarkFlagsMutuallyExclusive("trouble", "job")
	return c
}

func (d *demo) run(ctx context.Context) error {
	d.e.term.Note("%s", d.title())
	clean, err := d.prepare()
	if err != nil {
		return err
	}
	defer clean()
	ctx, end := context.WithCancel(ctx)
	defer func() { end(); d.references.Wait() }()
	logger, err := fileLogger(filepath.Join(d.dir, "dev.log"))
	if err != nil {
		return err
	}
	defer func() { _ = logger.Sync() }()

	system, stop := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	cfg := d.config()
	cfg.Logger, cfg.Ready = logger, func() { close(ready) }
	go func() { ended <- d.e.runSystem(system, cfg) }()
	defer func() { stop(); <-ended }()
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		return err
	}
	d.session, err = d.e.open(ctx, d.dir, false)
	if err != nil {
		return err
	}
	defer d.session.close()
	if d.trouble {
		return d.runTrouble(ctx, ended)
	}
	if err := d.submit(ctx); err != nil {
		return err
	}
	wctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	if err := d.watch(wctx, ended); err != nil {
		return err
	}
	return d.report(ctx)
}

func (d *demo) title() string {
	if d.trouble {
		return "Spotferry: three trainings that go wrong, and what each of them costs."
	}
	return "Spotferry: three trainings, a market that takes machines away, and every cent accounted."
}

// prepare makes the directories; what the user did not name goes away afterwards.
func (d *demo) prepare() (clean func(), err error) {
	clean = func() {}
	d.limit = demoLimit
	if d.market != "" {
		d.limit = 20 * time.Minute
		if d.market, err = filepath.Abs(d.market); err != nil {
			return clean, err
		}
	}
	if d.e.stateSet {
		d.dir, err = d.e.stateDir()
	} else {
		d.dir, err = os.MkdirTemp("", "spotferry-demo-")
		clean = func() { discard(d.dir) }
	}
	if err != nil {
		return clean, err
	}
	d.e.state = d.dir // whatever asks for the state from here on means this one
	if d.evidence == "" {
		d.evidence = filepath.Join(d.dir, "evidence")
	}
	if d.evidence, err = filepath.Abs(d.evidence); err != nil {
		return clean, err
	}
	for _, dir := range []string{d.dir, d.evidence} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return clean, fmt.Errorf("making %s: %w", dir, err)
		}
	}
	return clean, nil
}

// discard removes dir and what is in it. Machines that were still there write
// into it until they see that it goes.
func discard(dir string) {
	for range 50 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (d *demo) config() dev.Config {
	cfg := dev.Config{
		Dir: d.dir, Version: d.e.version, Now: d.e.now, EvidenceDir: d.evidence,
		Scale: demoScale, Divide: demoDivide, Market: trace.Spec{Kind: "demo", Seed: d.seed},
	}
	switch {
	case d.market != "":
		d.recorded(&cfg)
	case d.trouble:
		d.troubled(&cfg)
	}
	return cfg
}

// submit reads, shows and submits the jobs, as 'run' does.
func (d *demo) submit(ctx context.Context) error {
	files := d.files
	if d.market != "" && len(files) == 0 {
		f, err := d.recordedJob()
		if err != nil {
			return err
		}
		files = []string{f}
	}
	if len(files) == 0 {
		dir := filepath.Join(d.dir, "examples")
		names, err := examples.Unpack(dir)
		if err != nil {
			return fmt.Errorf("unpacking the examples: %w", err)
		}
		for _, n := range names {
			files = append(files, filepath.Join(dir, n))
		}
	}
	clock, err := console.Ask[console.Clock](ctx, d.session.client, console.GetClock, console.Query{})
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := d.submitFile(ctx, f, events.Moment{Control: clock.Control, Market: clock.Market}); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) submitFile(ctx context.Context, file string, now events.Moment) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the job file: %w", err)
	}
	job, err := jobfile.Read(file, src, jobfile.Options{Now: now, Dir: filepath.Dir(file), Stat: os.Stat})
	if err != nil {
		return err
	}
	d.e.term.Note("\n# %s\n%s", file, src)
	if job.Workdir != "" {
		archive, err := d.e.pack(ctx, job.Workdir)
		if err != nil {
			return err
		}
		job.Spec.Workdir = &archive
	}
	r := console.SubmitRequest{ID: d.e.mint(), Attribution: events.Attribution{Labels: job.Labels}, Spec: job.Spec}
	v, err := console.Ask[console.Job](ctx, d.session.client, console.DoSubmit, r)
	if err != nil {
		return err
	}
	d.e.term.Note("submitted %s as %s, budget %s", v.Name, v.ID, v.Budget.Dollars())
	j := demoJob{id: v.ID, file: file, job: job, reference: make(chan reference, 1)}
	if d.market == "" && !d.trouble {
		d.references.Go(func() { j.reference <- d.uninterrupted(ctx, j) })
	} else {
		j.reference <- reference{}
	}
	d.jobs = append(d.jobs, j)
	return nil
}

// watch shows what happens until every job is closed.
func (d *demo) watch(ctx context.Context, ended chan error) error {
	d.timeline = &follower{demo: d, began: d.e.now()}
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := d.timeline.look(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			return errors.Join(errors.New("the system ended before its jobs"), err)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("the jobs did not finish within %s; %s says why", d.limit, filepath.Join(d.dir, "dev.log"))
			}
			return ctx.Err()
		}
	}
}
