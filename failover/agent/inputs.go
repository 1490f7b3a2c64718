package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/input"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
	"github.com/spotferry/spotferry/events"
)

// inputs brings what the job reads. It belongs to whoever fetches, and there is
// one at a time: the errand that was sent at the join, and after its end a start.
type inputs struct {
	grant     string // the cache of the machine's region, if it has one
	near      bool   // the store is as near as a cache
	cache     *input.Cache
	bringer   *input.Bringer
	transport *http.Transport
}

// open is done once: what was fetched before a trouble is known after it.
func (a *agent) openInputs() error {
	in := &a.inputs
	if in.bringer != nil {
		return nil
	}
	log := a.cfg.Log.Named("inputs")
	dir := a.cfg.InputCache
	if dir == "" {
		dir = in.grant
	}
	if dir != "" {
		var err error
		in.cache, err = input.OpenCache(input.CacheConfig{Dir: dir, Tenant: a.tenant, Limit: a.cfg.InputLimit, Links: os.Geteuid() != 0, Now: a.cfg.Now, Log: log})
		if err != nil {
			log.Info("no cache for inputs on this machine", zap.Error(err))
		}
	}
	var err error
	in.bringer, err = input.New(input.Config{Scratch: a.place.scratch, Cache: in.cache, Log: log})
	in.transport = wire.Transport()
	return err
}

// closeInputs lets go of what inputs hold on this machine.
func (a *agent) closeInputs() {
	if c := a.inputs.cache; c != nil {
		c.Close()
	}
}

// fetchInputs brings everything before setup, or goes on with it.
func (a *agent) fetchInputs(ctx context.Context) error {
	if err := a.openInputs(); err != nil {
		return err
	}
	defer a.inputs.transport.CloseIdleConnections()
	if err := a.linkCaches(); err != nil {
		return err
	}
	if a.spec.Workdir != nil {
		err := a.tryUntil(ctx, "fetching the working directory", errArchive, func() error {
			return fetchArchive(ctx, a.inputs.bringer, a.stored(*a.spec.Workdir), a.place.work)
		})
		if err != nil {
			return err
		}
	}
	if err := a.fetchMounts(ctx); err != nil {
		return err
	}
	if err := a.inputs.bringer.Close(); err != nil {
		a.cfg.Log.Warn("after the inputs", zap.Error(err))
	}
	return nil
}

// hasInputs says whether anything is to be brought before setup.
func (a *agent) hasInputs() bool {
	return a.spec.Workdir != nil || len(a.spec.Mounts) > 0 || len(a.spec.Caches) > 0
}

// stored is an archive in the store as a source of one file.
func (a *agent) stored(archive events.Archive) stored {
	return stored{a.store, archive, a.inputs.near}
}

type stored struct {
	store checkpoint.Store
	events.Archive
	near bool
}

// List implements input.Remote.
func (s stored) List(context.Context) ([]input.File, error) {
	if !checkpoint.ObjectName(s.Object) || s.Bytes < 0 {
		return nil, &input.Refusal{What: fmt.Sprintf("%.100q is not an object's name", s.Object), Remedy: "submit the job again"}
	}
	return []input.File{{Size: s.Bytes, Key: "blake3:" + s.Hash, Sum: "blake3:" + s.Hash, Near: s.near}}, nil
}

// Open implements input.Remote.
func (s stored) Open(ctx context.Context, _ input.File, off, n int64) (io.ReadCloser, error) {
	r, err := s.store.Range(ctx, s.Object, off, n)
	return r, lasting(err)
}

// lasting makes a refusal of what trying again does not mend.
func lasting(err error) error {
	if errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, checkpoint.ErrRefused) {
		return &input.Refusal{What: err.Error(), Remedy: "submit the job again"}
	}
	return err
}

// endsJob has a refusal count as what ends the job: an input that cannot be had.
func endsJob(err error) error {
	if _, ok := errors.AsType[*input.Refusal](err); ok {
		return fmt.Errorf("%w: %w", errInput{}, err)
	}
	return err
}

// errInput is an input that is not as the job says, and will not be.
type errInput struct{}

func (errInput) Error() string { return "an input of the job cannot be had" }

// Is makes it one of the errors that end the attempts.
func (errInput) Is(target error) bool { return target == errArchive }

// fetchSource brings the files of a mount from where they are.
func (a *agent) fetchSource(ctx context.Context, m events.Mount) error {
	from, err := input.Parse(m.Source)
	if err != nil {
		return endsJob(err)
	}
	remote, err := a.cfg.OpenSource(from, input.OpenConfig{Getenv: a.ownVariable, Transport: a.inputs.transport})
	if err != nil {
		return endsJob(err)
	}
	base, at, err := a.mountPlace(m.Path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return fmt.Errorf("opening %s: %w", base, err)
	}
	defer root.Close()
	began := a.now()
	return a.tryUntil(ctx, "fetching "+m.Path, errArchive, func() error {
		got, err := a.inputs.bringer.Mount(ctx, remote, root, filepath.ToSlash(at))
		if err != nil {
			return endsJob(err)
		}
		a.say(brought(m.Path, got, a.now()-began))
		return nil
	})
}

func brought(path string, b input.Brought, took time.Duration) string {
	text := fmt.Sprintf("%s: %d files, %.1f MB, in %v", path, b.Files, float64(b.Bytes)/1e6, took.Round(10*time.Millisecond))
	if b.Cached > 0 {
		text += fmt.Sprintf("; %.1f MB were in the cache here", float64(b.Cached)/1e6)
	}
	return text
}

// ownVariable is a variable as the job gives it; no other machine's key is ever
// used for what a job asks for.
func (a *agent) ownVariable(name string) string {
	if s, ok := a.secrets[name]; ok {
		return s.Reveal()
	}
	return a.spec.Envs[name]
}

// linkCaches puts directories that outlive the job where its scripts look for
// their caches. Without a cache on this machine they are directories like any other.
func (a *agent) linkCaches() error {
	if a.inputs.cache == nil {
		return nil
	}
	for _, path := range a.spec.Caches {
		rest, below := strings.CutPrefix(path, "~/")
		if !below || !filepath.IsLocal(rest) || filepath.Clean(rest) == "." {
			return fmt.Errorf("%w: the cache %.200q is not below the job's home directory", errArchive, path)
		}
		if err := a.linkCache(filepath.Clean(rest)); err != nil {
			a.cfg.Log.Warn("cache of the job not kept", zap.String("path", path), zap.Error(err))
		}
	}
	return nil
}

func (a *agent) linkCache(name string) error {
	root, err := os.OpenRoot(a.place.home)
	if err != nil {
		return err
	}
	defer root.Close()
	if info, err := root.Lstat(name); err == nil {
		if info.Mode().Type() == os.ModeSymlink {
			return nil // done before
		}
		return fmt.Errorf("something is there")
	}
	kept, err := a.inputs.cache.Keep(name)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return root.Symlink(kept, name)
}
