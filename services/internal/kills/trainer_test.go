package kills

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/checkpoint/framework/frameworktest"
)

// work is what a trainer is to do.
type work struct {
	Layout string        `json:"layout"`
	Seed   uint64        `json:"seed"`
	Pace   time.Duration `json:"pace"` // of a step
	Last   int64         `json:"last"` // step to end with; 0: with the first save after the plan is through
}

// every is how many steps there are between saves.
const every = 8

// tornExit is what a trainer exits with whose checkpoint is not what it should be.
const tornExit = 3

// training is one trainer process.
type training struct {
	work
	shape  shape
	strike *striker
	dir    string // of checkpoints
	job    string
	epoch  int
	self   [2]uint64
	log    string
	tell   string // progress file

	asked atomic.Bool // to save, by a signal
	step  atomic.Int64
	state state
	saved int64 // newest step that it saved itself; 0: none
}

// runTrainer is the trainer's program.
func runTrainer(ctx context.Context, args []string) (int, error) {
	t, err := newTraining(args, os.Getenv)
	if err != nil {
		return 2, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for range signals {
			t.asked.Store(true)
		}
	}()
	if err := t.resume(os.Getenv("SPOTFERRY_RESUME_FROM")); err != nil {
		return tornExit, err
	}
	if err := t.train(ctx); err != nil {
		return 1, err
	}
	return 0, nil
}

func newTraining(args []string, getenv func(string) string) (*training, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("trainer: want the file that says what to do, have %q", args)
	}
	w, ok := get[work](args[0])
	if !ok {
		return nil, fmt.Errorf("trainer: %s cannot be read", args[0])
	}
	sh, err := shapeByName(w.Layout)
	if err != nil {
		return nil, err
	}
	g, me := groundOf(getenv), procOf(os.Getpid())
	t := &training{work: w, shape: sh, dir: getenv("SPOTFERRY_CHECKPOINT_DIR"), job: getenv("SPOTFERRY_JOB_ID"), log: g.evidence(trainerFile), tell: getenv("SPOTFERRY_PROGRESS_FILE")}
	t.self = [2]uint64{uint64(me.PID), me.Start}
	t.epoch, _ = strconv.Atoi(getenv("SPOTFERRY_EPOCH"))
	machine := filepath.Dir(getenv("HOME"))
	t.strike = &striker{ground: g, job: t.job, by: "trainer", machine: machine, epoch: func() int { return t.epoch }, step: t.step.Load}
	if t.epoch == 0 { // nobody's
		return t, nil
	}
	return t, put(filepath.Join(machine, trainerCrew), crew{Trainer: me, Shell: procOf(os.Getppid())})
}

func (t *training) row(phase, detail string) error {
	digest := ""
	if phase == rowStep || phase == rowResumed {
		digest = t.state.String()
	}
	return jot(t.log, trained{Job: t.job, Layout: t.Layout, Epoch: t.epoch, PID: int(t.self[0]), PIDStart: t.self[1], Step: t.step.Load(), Digest: digest,
		Time: time.Now().UTC(), Phase: phase, Detail: detail})
}

// resume compares what was restored, all of it.
func (t *training) resume(from string) error {
	t.strike.at(comparing, 0, "before it reads "+filepath.Base(from))
	t.state = newState(t.Seed)
	if from == "" {
		return t.row(rowFresh, "")
	}
	step, st, err := t.shape.load(t.dir, from, t.Seed)
	t.step.Store(step)
	t.state = st
	if err != nil {
		if e := t.row(rowTorn, err.Error()); e != nil {
			return e
		}
		return fmt.Errorf("the checkpoint of step %d in %s is torn: %w", step, from, err)
	}
	if err := t.row(rowResumed, ""); err != nil {
		return err
	}
	t.strike.at(comparing, 1, "after it has read "+filepath.Base(from))
	return nil
}

func (t *training) train(ctx context.Context) error {
	for k := 0; ; k++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(t.Pace):
		}
		t.strike.at(stepping, k%every, fmt.Sprintf("before step %d", t.step.Load()+1))
		t.state = t.state.next(t.step.Add(1))
		if err := t.told(); err != nil {
			return err
		}
		step, asked := t.step.Load(), t.asked.Swap(false)
		if step%every != 0 && !asked && step != t.Last {
			continue
		}
		t.await(ctx)
		last := step == t.Last || t.Last == 0 && step%every == 0 && exists(t.strike.ground.job(t.job, finishFile))
		if err := t.save(); err != nil {
			return err
		}
		if last || asked && t.leaves() {
			return nil
		}
	}
}

// told writes down a step, for us and for the agent.
func (t *training) told() error {
	if err := t.row(rowStep, ""); err != nil || t.tell == "" {
		return err
	}
	return put(t.tell, map[string]int64{"step": t.step.Load()})
}

// leaves says whether the framework ends a training that it was asked to save.
func (t *training) leaves() bool { return t.Layout == "hf-jit" || t.Layout == "megatron" }

// patience is how long a trainer waits for the checkpoint before to be away.
const patience = time.Minute

// await keeps the trainer from being more than one save ahead of what is committed:
// asynchronous savers wait for the save before, too.
func (t *training) await(ctx context.Context) {
	for end := time.Now().Add(patience); t.saved > 0 && t.epoch > 0 && ctx.Err() == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if step, ok := get[int64](t.strike.ground.job(t.job, committedFile)); ok && step >= t.saved {
			return
		}
	}
}

// save writes a checkpoint, and carries out what is planned for an operation of it.
func (t *training) save() error {
	step := t.step.Load()
	if err := t.row(rowSaveBegin, ""); err != nil {
		return err
	}
	a, armed := t.strike.armed()
	var c counter
	err := t.shape.save(t.dir, step, t.state, func(point string) error {
		p, k := c.next(point)
		if point == frameworktest.Complete {
			t.saved = step
			if err := t.row(rowSaveEnd, ""); err != nil {
				return err
			}
		}
		if armed && a.Phase == p && a.K == k {
			t.strike.strike(a, point)
		}
		return nil
	})
	if err == nil && armed && (a.Phase == judged || a.Phase == rotating) {
		t.strike.strike(a, "after the save")
	}
	return err
}
