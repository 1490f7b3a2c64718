package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Preship sends the large pieces of files that are finished while others of the
// tree are still being written, so that the Upload of the whole finds them in
// the store and has only the tail to send. paths are files of the tree of req.
//
// It promises nothing about them: a file that changes, vanishes or is not a
// file is left out, and what was sent of it is wasted; one that changes later is
// noticed by Upload. Pieces below 1 MiB are left to Upload, which packs them.
// The files that were sent whole are returned. An error means that the store
// could not take more.
//
// Files should be held, if they are, before they are preshipped: a hard link
// made later has Upload read them again, though not send them; see cache.
func (e *Engine) Preship(ctx context.Context, req SaveRequest, paths []string) (done []string, err error) {
	if req.Epoch < 0 || int64(req.Epoch) > maxEpoch {
		return nil, fmt.Errorf("preshipping: %w: epoch %d", ErrManifest, req.Epoch)
	}
	root, err := req.open()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("preshipping: opening %s in %s: %w", quote(req.Sub), req.Dir, err)
	}
	defer root.Close()
	files := e.finished(root, paths)
	if len(files) == 0 {
		return nil, nil
	}
	if err := e.entering(ctx, req.Epoch); err != nil {
		return nil, fmt.Errorf("preshipping: %w", err)
	}
	s := newSending(ctx, e, root, req.Epoch, true)
	s.early = true
	if err := s.all(files); err != nil {
		return nil, fmt.Errorf("preshipping: %w", err)
	}
	for _, f := range files {
		if !f.unsteady {
			done = append(done, f.Path)
		}
	}
	e.remember()
	return done, nil
}

// finished looks at files by name and leaves out what an upload would not send
// as an object of its own.
func (e *Engine) finished(root *os.Root, paths []string) []*found {
	var files []*found
	for _, p := range paths {
		f, err := look(root, p)
		if err == nil && f.Kind == Regular && f.Size >= small && f.Size/e.cfg.ChunkSize <= maxPieces {
			files = append(files, &f)
		}
	}
	return files
}

// Forecast is what an upload of a tree would have to do.
type Forecast struct {
	Files  int   // regular ones
	Bytes  int64 // of their content
	Unread int64 // bytes that would be read, because they were not yet or have changed
	// Unsent is at most how many bytes would be sent: what the store is known not
	// to have, and all that is unread. Compression is not accounted for.
	Unsent int64
}

// Predict says what an upload of the tree would have to do, without reading any
// file's content or asking the store.
func (e *Engine) Predict(req SaveRequest) (Forecast, error) {
	root, err := req.open()
	if err != nil {
		return Forecast{}, fmt.Errorf("looking at %s in %s: %w", quote(req.Sub), req.Dir, saving(err))
	}
	defer root.Close()
	files, err := scan(root, e.cfg.MaxFiles)
	if err != nil {
		return Forecast{}, err
	}
	var out Forecast
	for _, f := range files {
		if f.Kind != Regular {
			continue
		}
		out.Files++
		out.Bytes += f.Size
		pieces, ok := e.cache.get(f.info)
		if !ok {
			n := stored(f.info)
			out.Unread += n
			out.Unsent += n
			continue
		}
		for _, p := range pieces {
			if _, ok := e.known.at(p.hash, p.size); !ok && p.hash != "" {
				out.Unsent += p.size
			}
		}
	}
	return out, nil
}
