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
// manifest is of a newer schema or sealed with another key) gives up nothing:
// repeat it, and what was fetched is not fetched again.
func (e *Engine) Restore(ctx context.Context, req RestoreRequest) (Restored, error) {
	s, err := e.Fetch(ctx, req)
	if err != nil {
		if s != nil {
			return Restored{Rejected: s.Rejected}, err
		}
		return Restored{}, err
	}
	return s.Expose(req.As)
}

// Staged is a checkpoint that is complete, verified and durable beside the place
// where it belongs, and not visible yet.
type Staged struct {
	Ref      Ref
	Manifest Manifest
	Rejected []Rejection // see Restored

	e    *Engine
	dir  string
	name string // of the hidden directory
}

// Fetch does everything of a Restore but the last rename, so that it can begin
// before the place is ready: while the machine boots, or while the job's last
// machine still saves. If it is interrupted, by an error or a kill, the next
// Fetch or Restore of the same checkpoint into the same directory goes on with
// what is there. Fetching another one discards it.
//
// When the error is ErrNoneRestorable there is a Staged all the same, with the
// reasons and nothing else.
func (e *Engine) Fetch(ctx context.Context, req RestoreRequest) (*Staged, error) {
	if len(req.Refs) == 0 {
		return nil, fmt.Errorf("restoring into %s: %w", req.Dir, ErrNoRefs)
	}
	if err := os.MkdirAll(req.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("restoring into %s: %w", req.Dir, full(err))
	}
	dir, err := os.OpenRoot(req.Dir)
	if err != nil {
		return nil, fmt.Errorf("restoring: %w", err)
	}
	defer dir.Close()
	return e.fetchFirst(ctx, dir, req)
}

func (e *Engine) fetchFirst(ctx context.Context, dir *os.Root, req RestoreRequest) (*Staged, error) {
	start, out := e.cfg.Now(), &Staged{e: e, dir: req.Dir}
	for _, ref := range req.Refs {
		m, err := e.fetchOne(ctx, dir, ref, req.As)
		if bad, ok := errors.AsType[*Rejection](err); ok {
			e.cfg.Log.Warn("checkpoint rejected", zap.String("checkpoint", ref.Name), zap.String("file", bad.Path), zap.Error(bad.Err))
			out.Rejected = append(out.Rejected, *bad)
			continue
		}
		if err != nil {
			return out, fmt.Errorf("restoring into %s: %w", req.Dir, err)
		}
		out.Ref, out.Manifest, out.name = ref, m, incoming+ref.Name
		e.cfg.Log.Info("checkpoint fetched", zap.String("checkpoint", ref.Name), zap.Int64("step", ref.Step),
			zap.Int64("bytes", ref.Bytes), zap.Int("rejected", len(out.Rejected)), zap.Duration("took", e.cfg.Now().Sub(start)))
		return out, nil
	}
	newest := &out.Rejected[0]
	return out, fmt.Errorf("restoring into %s: %w: %d tried, of which the newest: %w", req.Dir, ErrNoneRestorable, len(req.Refs), newest)
}

// fetchOne stages one checkpoint. A bad one is a *Rejection and leaves nothing
// behind; what another error leaves is for the next try.
func (e *Engine) fetchOne(ctx context.Context, dir *os.Root, ref Ref, as string) (Manifest, error) {
	m, err := ReadManifest(ctx, e.cfg.Store, e.cfg.Tenant, e.cfg.Job, ref)
	if err != nil {
		return m, judge(ref, "", err)
	}
	if as != "" {
		if err := treeName(as); err != nil {
			return m, fmt.Errorf("restoring as %s: %w", quote(as), err)
		}
	}
	staging := incoming + ref.Name
	if err := tidy(dir, staging); err != nil {
		return m, err
	}
	err = e.stage(ctx, dir, staging, ref, m)
	if _, bad := errors.AsType[*Rejection](err); bad || errors.Is(err, ErrNoSpace) {
		return m, errors.Join(err, discard(dir, staging))
	}
	return m, err
}

// Expose puts the tree into place under a name, or, if that is empty, under the
// one it had. A tree already there is replaced. From then on uploads send only
// what this checkpoint does not have.
func (s *Staged) Expose(as string) (Restored, error) {
	out := Restored{Ref: s.Ref, Manifest: s.Manifest, Rejected: s.Rejected}
	if as == "" {
		as = s.Manifest.Dir
	}
	if err := treeName(as); err != nil {
		return out, fmt.Errorf("restoring as %s: %w", quote(as), err)
	}
	dir, err := os.OpenRoot(s.dir)
	if err != nil {
		return out, fmt.Errorf("restoring: %w", err)
	}
	defer dir.Close()
	if err := expose(dir, s.name, as); err != nil {
		return out, fmt.Errorf("restoring into %s: %w", s.dir, err)
	}
	out.Name, out.Path = as, s.dir+string(os.PathSeparator)+as
	s.e.known.adopt(s.Manifest, true)
	s.e.cfg.Log.Info("checkpoint restored", zap.String("checkpoint", s.Ref.Name), zap.Int64("step", s.Ref.Step), zap.String("as", as))
	return out, nil
}

// Discard removes what was staged.
func (s *Staged) Discard() error {
	dir, err := os.OpenRoot(s.dir)
	if err != nil {
		return fmt.Errorf("discarding %s: %w", s.Ref.Name, err)
	}
	return errors.Join(discard(dir, s.name), dir.Close())
}
