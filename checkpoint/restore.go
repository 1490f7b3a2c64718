package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"
)

// RestoreRequest says what to restore, and where.
type RestoreRequest struct {
	// Refs are the committed checkpoints to try, in order: newest first, as the
	// job's record has them.
	Refs []Ref
	// Dir is the directory the job keeps its checkpoints in, on trust. It is
	// made if it is missing. The tree appears in it under As or, if that is
	// empty, under the name it had. A tree already there is replaced.
	Dir string
	As  string
}

// Restored says what a restore did.
type Restored struct {
	Ref      Ref
	Manifest Manifest
	Name     string // of the tree in the request's Dir
	Path     string // Dir and Name joined, to hand to the trainer
	// Rejected are the checkpoints that were tried before and are bad, in the
	// order of the request. Each is worth an event: it is lost work.
	Rejected []Rejection
}

// Restore puts the first checkpoint of the request that is good into place. All
// its bytes are verified, written to a hidden directory beside the final one and
// made durable before the tree appears, whole, by a rename.
//
// A bad checkpoint, one with an object missing or with wrong bytes, is passed
// over and reported. When all are bad the error is ErrNoneRestorable, and
// Restored still has the reasons. When there are none to begin with it is
// ErrNoRefs. Any other error (the store does not answer, the disk is full, the
// manifest is of a newer schema) gives up nothing: repeat it.
func (e *Engine) Restore(ctx context.Context, req RestoreRequest) (Restored, error) {
	var out Restored
	if len(req.Refs) == 0 {
		return out, fmt.Errorf("restoring into %s: %w", req.Dir, ErrNoRefs)
	}
	if err := os.MkdirAll(req.Dir, 0o755); err != nil {
		return out, fmt.Errorf("restoring into %s: %w", req.Dir, full(err))
	}
	dir, err := os.OpenRoot(req.Dir)
	if err != nil {
		return out, fmt.Errorf("restoring: %w", err)
	}
	defer dir.Close()
	if err := tidy(dir); err != nil {
		return out, fmt.Errorf("restoring into %s: %w", req.Dir, err)
	}
	return e.restoreFirst(ctx, dir, req)
}

func (e *Engine) restoreFirst(ctx context.Context, dir *os.Root, req RestoreRequest) (Restored, error) {
	var out Restored
	start := e.cfg.Now()
	for _, ref := range req.Refs {
		m, name, err := e.restoreOne(ctx, dir, ref, req.As)
		if bad, ok := errors.AsType[*Rejection](err); ok {
			e.cfg.Log.Warn("checkpoint rejected", zap.String("checkpoint", ref.Name), zap.String("file", bad.Path), zap.Error(bad.Err))
			out.Rejected = append(out.Rejected, *bad)
			continue
		}
		if err != nil {
			return out, fmt.Errorf("restoring into %s: %w", req.Dir, err)
		}
		out.Ref, out.Manifest, out.Name, out.Path = ref, m, name, req.Dir+string(os.PathSeparator)+name
		e.cfg.Log.Info("checkpoint restored", zap.String("checkpoint", ref.Name), zap.Int64("step", ref.Step),
			zap.Int64("bytes", ref.Bytes), zap.Int("rejected", len(out.Rejected)), zap.Duration("took", e.cfg.Now().Sub(start)))
		return out, nil
	}
	newest := &out.Rejected[0]
	return out, fmt.Errorf("restoring into %s: %w: %d tried, of which the newest: %w", req.Dir, ErrNoneRestorable, len(req.Refs), newest)
}

// restoreOne stages one checkpoint and, if it is good, puts it into place. A bad
// one is a *Rejection and leaves nothing behind.
func (e *Engine) restoreOne(ctx context.Context, dir *os.Root, ref Ref, as string) (Manifest, string, error) {
	m, err := readManifest(ctx, e.cfg.Store, e.cfg.Tenant, e.cfg.Job, ref)
	if err != nil {
		return m, "", judge(ref, "", err)
	}
	if as == "" {
		as = m.Dir
	}
	if err := treeName(as); err != nil {
		return m, "", fmt.Errorf("restoring as %s: %w", quote(as), err)
	}
	staging := incoming + ref.Name
	if err := e.stage(ctx, dir, staging, ref, m); err != nil {
		return m, "", errors.Join(err, discard(dir, staging))
	}
	if err := expose(dir, staging, as); err != nil {
		return m, "", errors.Join(err, discard(dir, staging))
	}
	return m, as, nil
}
