package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Config says whose checkpoints an Engine handles, and with what.
type Config struct {
	Store  Store
	Tenant string
	Job    string

	// Committer makes checkpoints true. Without one the engine uploads,
	// verifies and restores, and Commit is an error.
	Committer Committer

	Now     func() time.Time // the wall clock; nil means time.Now
	Workers int              // files handled at once; 0 means 4
	Log     *zap.Logger      // nil means silence

	// MaxBytes and MaxFiles limit the tree of a save. 0 means no limit in bytes
	// and 300,000 files, which is about what a manifest holds. A sparse file
	// counts as large as it looks.
	MaxBytes int64
	MaxFiles int
}

// Validate reports what is missing or out of range.
func (c Config) Validate() error {
	if c.Store == nil {
		return errors.New("checkpoint: no store")
	}
	if err := token("tenant", c.Tenant); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := token("job", c.Job); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if c.Workers < 0 || c.MaxBytes < 0 || c.MaxFiles < 0 {
		return fmt.Errorf("checkpoint: workers %d, max bytes %d, max files %d: none may be negative",
			c.Workers, c.MaxBytes, c.MaxFiles)
	}
	return nil
}

// Engine saves, verifies and restores the checkpoints of one job. It is safe for
// concurrent use, except that one directory is restored into by one caller at a
// time. It holds no resources between calls.
type Engine struct {
	cfg     Config
	buffers sync.Pool // of *[]byte, copyBuffer long

	mu sync.Mutex
	// proven are the objects this engine has itself written or read back. An
	// object found in the store is read once before a checkpoint relies on it:
	// otherwise one flipped bit in a file that never changes would be in every
	// checkpoint from then on.
	proven map[string]bool
}

// copyBuffer is large enough for the hash to work in parallel and for the store
// to write in few calls.
const copyBuffer = 1 << 20

// New returns an engine, or what is wrong with the configuration.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Workers == 0 {
		cfg.Workers = 4
	}
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = 300_000
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	cfg.Log = cfg.Log.With(zap.String("tenant", cfg.Tenant), zap.String("job", cfg.Job))
	e := &Engine{cfg: cfg, proven: map[string]bool{}}
	e.buffers.New = func() any { b := make([]byte, copyBuffer); return &b }
	return e, nil
}

// Commit asks the Committer to make ref true; only then is there a checkpoint.
// It may be repeated after an answer was lost. ErrFenced means that another
// machine has the job, and is final.
func (e *Engine) Commit(ctx context.Context, ref Ref) error {
	if e.cfg.Committer == nil {
		return errors.New("committing: no committer configured")
	}
	if err := ref.Validate(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	if err := e.cfg.Committer.Commit(ctx, ref); err != nil {
		return fmt.Errorf("committing %s: %w", ref.Name, err)
	}
	e.cfg.Log.Info("checkpoint committed", zap.String("checkpoint", ref.Name), zap.Int("epoch", ref.Epoch),
		zap.Int64("step", ref.Step), zap.Int64("bytes", ref.Bytes), zap.Int("files", ref.Files))
	return nil
}

// Save uploads a tree and commits it. Whatever fails, what was committed before
// is untouched, and repeating sends only what the store does not have yet.
func (e *Engine) Save(ctx context.Context, req SaveRequest) (Ref, error) {
	ref, err := e.Upload(ctx, req)
	if err != nil {
		return Ref{}, err
	}
	if err := e.Commit(ctx, ref); err != nil {
		return Ref{}, err
	}
	return ref, nil
}

// Verify checks a checkpoint of this job; see the function of that name.
func (e *Engine) Verify(ctx context.Context, ref Ref, deep bool) error {
	return e.verify(ctx, ref, deep)
}

func (e *Engine) isProven(hash string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proven[hash]
}

func (e *Engine) prove(hash string, good bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if good {
		e.proven[hash] = true
	} else {
		delete(e.proven, hash)
	}
}
