package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/chunk"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	signedstore "github.com/spotferry/spotferry/checkpoint/store/signed"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
)

// reader reads one job's checkpoints from this machine.
type reader struct {
	engine *checkpoint.Engine
	read   *atomic.Int64 // bytes so far
	close  func() error
}

// openReader asks how a job's checkpoints are reached, and opens that.
func (e *environment) openReader(ctx context.Context, l *link, job string) (*reader, error) {
	j, err := ask[console.Job](ctx, l, console.GetJob, console.Query{Job: job})
	if err != nil {
		return nil, err
	}
	mine, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, err
	}
	public, err := mine.PublicKey()
	if err != nil {
		return nil, err
	}
	access, err := ask[gateway.Access](ctx, l, console.GetCheckpointAccess, console.CheckpointQuery{Job: job, SealTo: public})
	if err != nil {
		return nil, err
	}
	r := &reader{read: new(atomic.Int64)}
	cfg := checkpoint.Config{Tenant: access.Store.Tenant, Job: string(j.ID), Now: e.now}
	if cfg.Key, err = openKey(j.ID, mine, access.Store.Key); err != nil {
		return nil, err
	}
	store, err := openStore(l, job, access.Store)
	if err != nil {
		return nil, err
	}
	r.close = store.Close
	cfg.Store = &counted{store, r.read}
	r.engine, err = checkpoint.New(cfg)
	return r, err
}

// openKey opens the key that checkpoints are encrypted with, if there is one.
func openKey(job events.JobID, mine nkeys.KeyPair, sealed *events.Sealed) (key chunk.Key, err error) {
	if sealed == nil {
		return key, nil
	}
	clear, err := mine.Open(sealed.Box, sealed.From)
	if err != nil {
		return key, errors.New("the key of the checkpoints was not sealed to this command: ask again")
	}
	values, err := events.UnpackSecrets(job, clear)
	if err != nil {
		return key, err
	}
	b, err := hex.DecodeString(values[gateway.CheckpointKey].Reveal())
	if err != nil || len(b) != len(key) {
		return key, errors.New("the key of the checkpoints is not one")
	}
	copy(key[:], b)
	return key, nil
}

type closing interface {
	checkpoint.Store
	Close() error
}

func openStore(l *link, job string, g events.StoreGrant) (closing, error) {
	switch g.Kind {
	case "dir":
		if info, err := os.Stat(g.Path); err != nil || !info.IsDir() {
			return nil, &failure{exit: exitUnreachable, What: fmt.Sprintf("the checkpoint store is the directory %s, which is not on this machine", g.Path),
				Remedy: "run this where the system runs, or mount the directory here under the same name"}
		}
		return dir.Open(dir.Config{Path: g.Path})
	case "signed":
		return signedstore.Open(signedstore.Config{Granter: granter{l, job}})
	}
	return nil, &failure{exit: exitUsage, What: fmt.Sprintf("this command line does not know stores of kind %.40q", g.Kind), Remedy: "use one of the system's own version"}
}

// granter has accesses signed by the gateway.
type granter struct {
	link *link
	job  string
}

func (g granter) Grant(ctx context.Context, verb checkpoint.Verb, objects []checkpoint.Object) ([]checkpoint.Access, error) {
	q := console.CheckpointQuery{Job: g.job, Verb: string(verb)}
	for _, o := range objects {
		q.Names = append(q.Names, events.GrantObject{Name: o.Name})
	}
	got, err := ask[gateway.Access](ctx, g.link, console.GetCheckpointAccess, q)
	if err != nil {
		return nil, err
	}
	out := make([]checkpoint.Access, 0, len(got.Access))
	for _, a := range got.Access {
		out = append(out, checkpoint.Access{Method: a.Method, URL: a.URL, Header: a.Header, Until: time.Now().Add(a.Life)})
	}
	return out, nil
}

// counted counts what is read. A store that cannot list shows nothing, as one that is late.
type counted struct {
	checkpoint.Store
	read *atomic.Int64
}

func (c *counted) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := c.Store.Get(ctx, name)
	return c.counting(r), err
}

func (c *counted) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r, err := c.Store.Range(ctx, name, off, n)
	return c.counting(r), err
}

func (c *counted) counting(r io.ReadCloser) io.ReadCloser {
	if r == nil {
		return nil
	}
	return &countedReader{r, c.read}
}

func (c *counted) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	list, err := c.Store.List(ctx, prefix)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	return list, err
}

type countedReader struct {
	io.ReadCloser
	read *atomic.Int64
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.read.Add(int64(n))
	return n, err
}

func refOf(c events.Checkpoint) checkpoint.Ref {
	return checkpoint.Ref{Name: c.Name, Epoch: c.Epoch, Step: c.Step, Digest: c.Digest, Bytes: c.Bytes, Files: c.Files}
}

// watching shows how far r has come, until the function it returns is called.
func (e *environment) watching(ctx context.Context, l *link, r *reader, job string, c console.Checkpoint, doing string) func() {
	var total int64
	if u, err := ask[gateway.Usage](ctx, l, console.GetCheckpointUse, console.CheckpointQuery{Job: job}); err == nil {
		for _, x := range u.Checkpoints {
			if x.Name == c.Name {
				total = x.Stored
			}
		}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause(ctx, e.poll) == nil {
			e.term.Progress(min(r.read.Load(), total), total, doing)
		}
	}()
	return func() { stop(); <-done; e.term.Done() }
}
