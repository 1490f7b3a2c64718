package rehearse

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spotferry/spotferry/bidder/provider/local"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
)

// Config of a rehearsal. Every field is required but those that say so.
type Config struct {
	Client    *console.Client // of the private system
	Seller    string          // directory of its local seller
	Job       events.JobID    // submitted already
	Spec      events.JobSpec  // as submitted, see Spec
	Limit     time.Duration
	Notice    time.Duration // of the machine that is taken with one
	Tolerance float64
	Poll      time.Duration
	Now       func() time.Time

	// Ended is given the system's error if it ends by itself.
	Ended <-chan error
	// Show, if set, is told what goes on: how far it is, and now and then a line.
	Show func(s Sign)
}

// Sign is what there is to show of a rehearsal.
type Sign struct {
	Elapsed time.Duration
	Stage   Stage
	Step    int64  // the newest told; -1: none
	Line    string // what has just happened; "": nothing
}

// rehearsal is one run of a Config.
type rehearsal struct {
	Config
	began   time.Time
	story   *Story
	history History
	after   uint64
	follow  *follower
	memory  *memory
	drill   local.Drill
	look    Look

	measured time.Time
}

// Play rehearses a job that was submitted to a private system, and returns what
// was seen. The job still runs when it returns.
func Play(ctx context.Context, cfg Config) (Run, error) {
	r := &rehearsal{
		Config: cfg, began: cfg.Now(), follow: newFollower(cfg.Seller, cfg.Now), memory: newMemory(cfg.Job),
	}
	r.story = NewStory(r.began, cfg.Limit)
	fctx, end := context.WithCancel(ctx)
	defer func() { end(); r.follow.wg.Wait() }()
	if err := r.watch(fctx); err != nil {
		return Run{}, err
	}
	return r.result(ctx), nil
}

// watch carries out the story.
func (r *rehearsal) watch(ctx context.Context) error {
	tick := time.NewTicker(r.Poll)
	defer tick.Stop()
	for {
		act, err := r.turn(ctx)
		if err != nil || act == Finish {
			return err
		}
		select {
		case <-tick.C:
		case err := <-r.Ended:
			return errors.Join(errors.New("the rehearsal's own system ended"), err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// turn looks, decides and acts once.
func (r *rehearsal) turn(ctx context.Context) (Act, error) {
	before := r.news()
	if err := r.read(ctx); err != nil {
		return "", err
	}
	r.measure()
	seen := Seen{History: r.history, Lives: Lives(r.history, r.follow.all()), Listed: r.Spec.Policy.RestartOnExit}
	l := newest(seen)
	if l.Lease != "" {
		r.lookAt(l.Lease, before != r.news())
	}
	act := r.story.Next(seen, r.Now())
	r.show(l, "")
	switch act {
	case TakeNoticed:
		r.show(l, fmt.Sprintf("taking the machine away with a notice of %s", span(r.Notice)))
		return act, r.take(l.Lease, r.Notice)
	case TakeSuddenly:
		r.show(l, "taking the machine away without a word")
		return act, r.take(l.Lease, 0)
	case Finish:
		if l.Lease != "" && !r.history.Over() { // afterwards its disk may be gone
			r.lookAt(l.Lease, true)
		}
	}
	return act, nil
}

// news counts the events after which the machine's disk looks otherwise.
func (r *rehearsal) news() int {
	return len(r.history.Lives) + len(r.history.Commits) + len(r.history.Exits)
}

// lookAt looks at a machine's disk: for checkpoints when something has happened,
// else only whether the script has been started.
func (r *rehearsal) lookAt(lease events.LeaseID, thoroughly bool) {
	machine, was := machineOf(r.Seller, lease), r.look.Trainer
	if thoroughly {
		r.look = LookAt(machine, r.Spec.Policy.Checkpoint)
	} else if was.IsZero() {
		r.look.Trainer = trainerSince(machine)
	}
	if r.look.Trainer.IsZero() {
		r.look.Trainer = was // on the machine before
	}
}

// measureEvery is how often memory is looked at: the whole process table is read.
const measureEvery = 400 * time.Millisecond

func (r *rehearsal) measure() {
	if now := r.Now(); now.Sub(r.measured) >= measureEvery {
		r.measured = now
		r.memory.sample()
	}
}

func (r *rehearsal) show(l Life, line string) {
	if r.Show != nil {
		r.Show(Sign{Elapsed: r.Now().Sub(r.began), Stage: r.story.Stage, Step: l.Last(), Line: line})
	}
}

// take has the seller take a machine back.
func (r *rehearsal) take(lease events.LeaseID, notice time.Duration) error {
	r.drill.Reclaim = append(r.drill.Reclaim, local.Reclaim{
		ID: fmt.Sprintf("rehearsal-%d", len(r.drill.Reclaim)+1), Token: string(lease), NoticeS: notice.Seconds(),
	})
	return local.WriteDrill(r.Seller, r.drill)
}

// readLag is how long a job that was submitted may take to be known to the console.
const readLag = 5 * time.Second

// page is a console.Page with its facts as they were sent.
type page struct {
	Entries []Happened `json:"entries"`
	Next    uint64     `json:"next"`
	More    bool       `json:"more"`
}

// read takes the job's new events, and follows its new machines.
func (r *rehearsal) read(ctx context.Context) error {
	for {
		p, err := console.Ask[page](ctx, r.Client, console.GetEvents, console.Query{Job: string(r.Job), After: r.after})
		var refused *console.Problem
		if errors.As(err, &refused) && refused.Code == "not-found" && r.after == 0 && r.Now().Sub(r.began) < readLag {
			return nil // the console has not read of it yet
		}
		if err != nil {
			return err
		}
		for _, e := range p.Entries {
			if err := r.history.Take(e); err != nil {
				return err
			}
		}
		if r.after = p.Next; !p.More {
			break
		}
	}
	for _, l := range r.history.Lives {
		r.follow.follow(ctx, l.Lease)
	}
	return nil
}

// mostLines is how many last lines of a script are kept.
const mostLines = 15

// result is what was seen.
func (r *rehearsal) result(ctx context.Context) Run {
	return Run{
		Name: r.Spec.Name, Spec: r.Spec, Began: r.began, Ended: r.Now(), Limit: r.Limit, Notice: r.Notice, Tolerance: r.Tolerance,
		History: r.history, Lives: Lives(r.history, r.follow.all()), Taken: r.story.Taken, Reached: r.story.Reached, Complete: r.story.Complete,
		Look: r.look, Lines: r.lines(ctx), PeakBytes: r.memory.peak,
	}
}

// lines are the script's last. Without them a verdict still stands.
func (r *rehearsal) lines(ctx context.Context) (out []string) {
	p, err := console.Ask[console.LogPage](ctx, r.Client, console.GetLogs, console.Query{Job: string(r.Job), Tail: 4 * mostLines})
	if err != nil {
		return nil
	}
	for _, b := range p.Batches {
		for _, l := range b.Lines {
			if l.Stream != "agent" {
				out = append(out, l.Text)
			}
		}
	}
	return out[max(len(out)-mostLines, 0):]
}

// Clear takes all machines of a rehearsal away at once, and waits until no process
// of the job is left.
func Clear(ctx context.Context, seller string, job events.JobID, leases []events.LeaseID) error {
	d := local.Drill{}
	for _, l := range leases {
		d.Reclaim = append(d.Reclaim, local.Reclaim{ID: "end of the rehearsal", Token: string(l)})
	}
	if err := local.WriteDrill(seller, d); err != nil {
		return err
	}
	m := newMemory(job)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for m.sample() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("processes of the rehearsal are left, below %s: %w", filepath.Dir(seller), ctx.Err())
		}
	}
	return nil
}
