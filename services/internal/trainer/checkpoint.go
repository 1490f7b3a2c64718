package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The files of a checkpoint, in the order in which they are written. The last
// is what makes the directory a checkpoint.
const (
	modelFile     = "model.safetensors"
	optimizerFile = "optimizer.safetensors"
	schedulerFile = "scheduler.json"
	rngFile       = "rng_state.json"
	argsFile      = "training_args.json"
	stateFile     = "trainer_state.json"
)

// arguments is training_args.json: everything besides the step that the weights
// depend on. A run with other arguments must not continue the checkpoint.
type arguments struct {
	Seed         uint64  `json:"seed"`
	Hidden       int     `json:"hidden"`
	TextSHA256   string  `json:"text_sha256"`
	Vocab        int     `json:"vocab"`
	Context      int     `json:"context"`
	Embedding    int     `json:"embedding"`
	BatchSize    int     `json:"per_device_train_batch_size"`
	LearningRate float64 `json:"learning_rate"`
	Warmup       int     `json:"warmup_steps"`
	Beta1        float64 `json:"adam_beta1"`
	Beta2        float64 `json:"adam_beta2"`
	Epsilon      float64 `json:"adam_epsilon"`
}

func newArguments(cfg Config, c corpus) arguments {
	return arguments{
		Seed: cfg.Seed, Hidden: cfg.Hidden, TextSHA256: c.sha256, Vocab: len(c.alphabet),
		Context: contextLen, Embedding: embedding, BatchSize: batchSize,
		LearningRate: learningRate, Warmup: warmup, Beta1: beta1, Beta2: beta2, Epsilon: epsilon,
	}
}

func (a arguments) shape() shape { return shape{vocab: a.Vocab, hidden: a.Hidden} }

type schedulerState struct {
	BaseLR    []float64 `json:"base_lrs"`
	LastEpoch int       `json:"last_epoch"`
	LastLR    []float64 `json:"_last_lr"`
}

// rngState says where the random stream of batches stands. It follows from seed
// and step; it is kept so that a file put together from two checkpoints shows.
type rngState struct {
	Seed uint64 `json:"seed"`
	Step int    `json:"step"`
	Next uint64 `json:"next_stream"`
}

// trainerState is trainer_state.json. The digests tie the two large files to it.
type trainerState struct {
	Epoch           float64    `json:"epoch"`
	GlobalStep      int        `json:"global_step"`
	LastLoss        float32    `json:"last_loss"`
	LogHistory      []logEntry `json:"log_history"`
	LoggingSteps    int        `json:"logging_steps"`
	MaxSteps        int        `json:"max_steps"`
	SaveSteps       int        `json:"save_steps"`
	TrainBatchSize  int        `json:"train_batch_size"`
	ModelDigest     string     `json:"model_digest"`
	OptimizerDigest string     `json:"optimizer_digest"`
}

func checkpointDir(output string, step int) string {
	return filepath.Join(output, fmt.Sprintf("checkpoint-%d", step))
}

// writer puts the files of one checkpoint into a directory.
type writer struct {
	dir   string
	fsync bool
}

// saveCheckpoint writes st into its checkpoint-N of the output directory. What
// was there before is removed first.
func saveCheckpoint(cfg Config, args arguments, st *state, epoch float64) error {
	w := writer{checkpointDir(cfg.Output, st.step), cfg.Fsync}
	if err := removeCheckpoint(w.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	model, moments := sections(args.shape(), st)
	modelDigest, err := w.tensors(modelFile, st.step, model)
	if err != nil {
		return err
	}
	optimizerDigest, err := w.tensors(optimizerFile, st.step, moments...)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value any
	}{
		{schedulerFile, schedulerState{[]float64{learningRate}, st.step, []float64{rate(st.step)}}},
		{rngFile, rngAt(args.Seed, st.step)},
		{argsFile, args},
		{stateFile, trainerState{
			Epoch: epoch, GlobalStep: st.step, LastLoss: st.loss, LogHistory: st.history,
			LoggingSteps: cfg.LogEvery, MaxSteps: cfg.Steps, SaveSteps: cfg.SaveEvery, TrainBatchSize: batchSize,
			ModelDigest: modelDigest, OptimizerDigest: optimizerDigest,
		}},
	} {
		if err := w.json(f.name, f.value); err != nil {
			return err
		}
	}
	return w.flushDirs(cfg.Output)
}

// sections lays the state out as the contents of the two large files.
func sections(s shape, st *state) (model section, moments []section) {
	t := s.tensors()
	return section{"", t, st.weights.flat}, []section{{"exp_avg.", t, st.m}, {"exp_avg_sq.", t, st.v}}
}

func rngAt(seed uint64, step int) rngState {
	return rngState{Seed: seed, Step: step, Next: uint64(sampler(seed, step+1))}
}

func (w writer) tensors(name string, step int, sections ...section) (string, error) {
	var sum string
	err := w.create(name, func(f io.Writer) (err error) {
		sum, err = writeTensors(f, step, sections...)
		return err
	})
	return sum, err
}

func (w writer) json(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return w.create(name, func(f io.Writer) error {
		_, err := f.Write(append(data, '\n'))
		return err
	})
}

func (w writer) create(name string, fill func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(w.dir, name))
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil && w.fsync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// flushDirs makes the names durable: the files' and the directory's own.
func (w writer) flushDirs(output string) error {
	if !w.fsync {
		return nil
	}
	for _, dir := range []string{w.dir, output} {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}
