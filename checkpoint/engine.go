package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

// Config says whose checkpoints an Engine handles, and with what.
type Config struct {
	Store  Store
	Tenant string
	Job    string

	// Committer makes checkpoints true. Without one the engine uploads,
	// verifies and restores, and Commit is an error.
	Committer Committer

	Now func() time.Time // the wall clock; nil means time.Now
	Log *zap.Logger      // nil means silence

	// MaxBytes and MaxFiles limit the tree of a save. 0 means no limit in bytes
	// and 300,000 entries, which is about what a manifest holds; a larger tree is
	// ErrTooLarge before anything is sent. A sparse file counts as large as it
	// looks.
	MaxBytes int64
	MaxFiles int

	// ChunkSize is how long the pieces of large files are; 0 means chunk.Size,
	// 4 MiB. Changing it makes the next save send everything.
	ChunkSize int64
	// Key seals what is stored; the zero Key means that it is stored as it is.
	Key chunk.Key

	// Workers is how many chunks an upload works on at once, 0 for 8, and Memory
	// the most that their buffers take, 0 for 48 MiB. A chunk takes one buffer of
	// ChunkSize and another if it is compressed. One more holds small files until
	// they fill a pack. With the defaults a process that does nothing else stays
	// below 100 MB, plus 1 KB for each file of the tree and 1 KB for each chunk.
	Workers int
	Memory  int64
	// BoostWorkers and BoostMemory are the same for a Boost; 0 means 32 and
	// 256 MiB. Fetching has the same memory and FetchWorkers, 0 for 16.
	BoostWorkers int
	FetchWorkers int
	BoostMemory  int64
	// Rate limits uploads, in bytes a second; 0 means no limit. See SetRate.
	Rate int64

	// Compress says whether chunks are encoded; see Compression. Cores is how
	// many of the machine's the codec may use, 0 for half of them.
	Compress Compression
	Cores    int

	// CacheDir is a directory of ours, on a disk of this machine, for a file that
	// remembers which files were read and, for a store that cannot be listed,
	// what was sent; empty means that a new process reads everything once and, if
	// it cannot list, sends it. See cache. Every Rehash-th upload reads everything
	// nevertheless; 0 means 32, and 1 means always.
	CacheDir string
	Rehash   int
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
	for _, n := range []struct {
		what string
		is   int64
	}{
		{"max bytes", c.MaxBytes}, {"max files", int64(c.MaxFiles)}, {"workers", int64(c.Workers)}, {"memory", c.Memory},
		{"boost workers", int64(c.BoostWorkers)}, {"fetch workers", int64(c.FetchWorkers)}, {"boost memory", c.BoostMemory},
		{"rate", c.Rate}, {"cores", int64(c.Cores)}, {"rehash", int64(c.Rehash)},
	} {
		if n.is < 0 {
			return fmt.Errorf("checkpoint: %s of %d is negative", n.what, n.is)
		}
	}
	if c.ChunkSize != 0 && (c.ChunkSize < chunk.MinSize || c.ChunkSize > chunk.MaxSize) {
		return fmt.Errorf("checkpoint: chunk size %d, want %d to %d", c.ChunkSize, chunk.MinSize, chunk.MaxSize)
	}
	return c.Compress.validate()
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&c.Workers, 8)
	set(&c.BoostWorkers, 32)
	set(&c.FetchWorkers, 16)
	set(&c.MaxFiles, 300_000)
	set(&c.Rehash, 32)
	set(&c.Cores, max(1, runtime.GOMAXPROCS(0)/2))
	if c.Memory == 0 {
		c.Memory = 48 << 20
	}
	if c.BoostMemory == 0 {
		c.BoostMemory = 256 << 20
	}
	if c.ChunkSize == 0 {
		c.ChunkSize = chunk.Size
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	c.Log = c.Log.With(zap.String("tenant", c.Tenant), zap.String("job", c.Job))
	return c
}

// Engine saves, verifies and restores the checkpoints of one job. It is safe for
// concurrent use, except that one directory is restored into by one caller at a
// time. Between calls it holds no buffers, files or goroutines; it remembers
// which chunks the store has and which files it has read.
type Engine struct {
	cfg Config
	counters
	known    *knowledge
	cache    *cache
	gain     gains
	gate     *gate // for uploads
	fetching *gate // for restores and deep verification
	limiter  *rate.Limiter

	proving sync.Mutex

	mu      sync.Mutex
	workers int
	pace    int64
	boosted bool
}

// New returns an engine, or what is wrong with the configuration.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	e := &Engine{cfg: cfg, known: newKnowledge(), workers: cfg.Workers, pace: cfg.Rate,
		gate:     newGate(cfg.Workers, cfg.Memory, cfg.ChunkSize),
		fetching: newGate(cfg.FetchWorkers, cfg.BoostMemory, cfg.ChunkSize),
		limiter:  rate.NewLimiter(rate.Inf, stride)}
	e.cache = openCache(cfg)
	e.apply()
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
		if proves(err) {
			e.Distrust()
		}
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

// Adopt tells the engine which checkpoint is the newest that is committed, so
// that an upload sends only what that one does not have. A Restore has told it
// already. What an adopted manifest names is read once before an upload relies
// on it, which costs as much as fetching it.
func (e *Engine) Adopt(ctx context.Context, ref Ref) error {
	m, err := ReadManifest(ctx, e.cfg.Store, e.cfg.Tenant, e.cfg.Job, ref)
	if err != nil {
		return fmt.Errorf("adopting %s: %w", ref.Name, err)
	}
	e.known.adopt(m, false)
	return nil
}

// Distrust makes the engine forget what the store has: the next upload sends
// everything, or reads it back. It is for a commit that was refused because an
// object is missing or damaged.
func (e *Engine) Distrust() {
	e.known.forget()
	e.cache.forget()
}

// keyID tells which key seals the chunks, without giving it away.
func (e *Engine) keyID() string {
	if e.cfg.Key == (chunk.Key{}) {
		return ""
	}
	return e.cfg.Key.Name([]byte("which key"))[:shortHash]
}
