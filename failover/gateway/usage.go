package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// Usage is what a job's checkpoints take in the store.
type Usage struct {
	Job         events.JobID      `json:"job"`
	Checkpoints []CheckpointUsage `json:"checkpoints"` // kept ones, oldest first
	Objects     int               `json:"objects"`     // there, of whatever checkpoint
	Bytes       int64             `json:"bytes"`
	Needed      int64             `json:"needed_bytes"` // of them, by kept checkpoints
	Held        int64             `json:"held_bytes"`   // what the kept checkpoints hold, were each stored whole
	Saved       int64             `json:"saved_bytes"`  // Held beyond Needed: shared, empty or compressed
	Waiting     int               `json:"waiting"`      // dropped checkpoints whose objects are not deleted yet
	NextDue     time.Time         `json:"next_due,omitzero"`
	Blocked     string            `json:"blocked,omitempty"` // why nothing can be deleted
}

// CheckpointUsage is one checkpoint's part of it.
type CheckpointUsage struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
	Stored  int64  `json:"stored_bytes"` // of all objects that it needs
	New     int64  `json:"new_bytes"`    // of those that no older kept checkpoint needs
	Shared  int64  `json:"shared_bytes"` // of the others
	Unread  string `json:"unread,omitempty"`
}

// Usage says what a job's checkpoints take in the store.
func (g *Gateway) Usage(ctx context.Context, job events.JobID) (Usage, error) {
	j, err := g.cfg.Book.Job(ctx, job)
	if err != nil {
		return Usage{}, err
	}
	s, err := g.survey(ctx, j, g.cfg.Now().Control)
	if err != nil {
		return Usage{}, err
	}
	p := s.plan()
	u := Usage{Job: job, Checkpoints: []CheckpointUsage{}, Objects: p.objects, Bytes: p.bytes, Needed: p.needed, Held: p.logical,
		Saved: max(p.logical-p.needed, 0), Waiting: p.waiting, NextDue: p.dueAt, Blocked: p.blocked}
	seen := map[string]bool{}
	for _, c := range j.Kept() {
		v := CheckpointUsage{Name: c.Name}
		if err := s.bad[c.Name]; err != nil {
			v.Unread = err.Error()
		}
		for _, o := range s.needs[c.Name].objects {
			v.Objects++
			v.Stored += o.Size
			if seen[o.Name] {
				v.Shared += o.Size
			} else {
				v.New += o.Size
			}
			seen[o.Name] = true
		}
		u.Checkpoints = append(u.Checkpoints, v)
	}
	return u, nil
}

// Contents is what one checkpoint holds, by its manifest.
type Contents struct {
	Job       events.JobID        `json:"job"`
	Name      string              `json:"name"`
	Schema    int                 `json:"schema"`
	Framework string              `json:"framework,omitempty"`
	Dir       string              `json:"dir"`
	Created   time.Time           `json:"created"`
	SaveMS    int64               `json:"save_ms,omitempty"`
	Sealed    bool                `json:"sealed"` // encrypted
	Files     []ContentFile       `json:"files"`
	Objects   []checkpoint.Object `json:"objects"`
	// MoreFiles and MoreObjects are how many were left out: an answer has an end.
	MoreFiles   int `json:"more_files,omitempty"`
	MoreObjects int `json:"more_objects,omitempty"`
}

// ContentFile is one file of a checkpoint.
type ContentFile struct {
	Path   string          `json:"path"`
	Kind   checkpoint.Kind `json:"kind"`
	Size   int64           `json:"size"`
	Chunks int             `json:"chunks,omitempty"`
	Stored int64           `json:"stored_bytes"` // of the chunks, as they are stored
	Zeros  int64           `json:"zero_bytes,omitempty"`
	Reused int64           `json:"reused_bytes,omitempty"` // of the chunks that an earlier epoch stored
}

// mostListed is how many files, and how many objects, are told of one checkpoint.
const mostListed = 1000

// Contents reads a checkpoint's manifest.
func (g *Gateway) Contents(ctx context.Context, job events.JobID, name string) (Contents, error) {
	j, c, err := g.kept(ctx, job, name)
	if err != nil {
		return Contents{}, err
	}
	m, err := g.manifest(ctx, j, refOf(c))
	if err != nil {
		return Contents{}, fmt.Errorf("reading the manifest of checkpoint %s: %w", name, err)
	}
	out := Contents{Job: job, Name: name, Schema: m.Schema, Framework: m.Framework, Dir: m.Dir, Created: m.Created,
		SaveMS: m.Save.Milliseconds(), Sealed: m.Key != "", Files: []ContentFile{}, Objects: m.Objects()}
	for _, f := range m.Files {
		if f.Kind == checkpoint.Directory {
			continue
		}
		if len(out.Files) == mostListed {
			out.MoreFiles++
			continue
		}
		out.Files = append(out.Files, contentOf(m, f))
	}
	if n := len(out.Objects); n > mostListed {
		out.Objects, out.MoreObjects = out.Objects[:mostListed], n-mostListed
	}
	return out, nil
}

func contentOf(m checkpoint.Manifest, f checkpoint.File) ContentFile {
	v := ContentFile{Path: f.Path, Kind: f.Kind, Size: f.Size, Chunks: len(f.Chunks)}
	if f.Hash != "" {
		v.Stored = f.Size
	}
	for _, c := range f.Chunks {
		if c.Hash == "" {
			v.Zeros += c.Size
			continue
		}
		stored := c.Size
		if c.Stored != 0 {
			stored = c.Stored
		}
		v.Stored += stored
		if c.Epoch != 0 && c.Epoch != m.Epoch {
			v.Reused += c.Size
		}
	}
	return v
}

// errGone is the answer about a checkpoint that there is not, or not any more.
var errGone = &failover.Refused{What: "no such checkpoint is kept", Remedy: "'spotferry checkpoint ls' lists them"}

func (g *Gateway) kept(ctx context.Context, job events.JobID, name string) (failover.Job, events.Checkpoint, error) {
	j, err := g.cfg.Book.Job(ctx, job)
	if err != nil {
		return j, events.Checkpoint{}, err
	}
	for _, c := range j.Kept() {
		if c.Name == name {
			return j, c, nil
		}
	}
	return j, events.Checkpoint{}, errGone
}

// AccessRequest asks, for a person, to read a job's checkpoints.
type AccessRequest struct {
	Job   events.JobID         `json:"job"`
	Verb  string               `json:"verb,omitempty"`  // "get", "head"
	Names []events.GrantObject `json:"names,omitempty"` // none: only where they are
	// SealTo is the asker's public curve key, for the key that they are encrypted with.
	SealTo string `json:"seal_to,omitempty"`
}

// Access is how a job's checkpoints are read.
type Access struct {
	Store  events.StoreGrant   `json:"store"`
	Access []events.SignedHTTP `json:"access,omitempty"`
}

// Access lets a person read a job's checkpoints: it says where they are or, in
// a store that is reached by signed requests, signs some.
func (g *Gateway) Access(ctx context.Context, r AccessRequest) (Access, error) {
	j, err := g.cfg.Book.Job(ctx, r.Job)
	if err != nil {
		return Access{}, err
	}
	out := Access{Store: g.grantFor(j)}
	out.Store.Cache = ""
	if r.SealTo != "" {
		valid := func() error {
			if !nkeys.IsValidPublicCurveKey(r.SealTo) {
				return invalid("seal_to: want a public curve key")
			}
			return nil
		}
		if out.Store.Key, err = g.sealedKey(ctx, j, r.SealTo, valid); err != nil {
			return Access{}, err
		}
	}
	if len(r.Names) == 0 {
		return out, nil
	}
	if g.cfg.Signer == nil || len(r.Names) > events.MaxGrants {
		return Access{}, invalid("%d names for a store of kind %q: want at most %d, and a store reached by signed requests", len(r.Names), out.Store.Kind, events.MaxGrants)
	}
	a := ask{g: g, ctx: ctx, job: r.Job}
	for _, o := range r.Names {
		verb := checkpoint.Verb(r.Verb)
		if verb == checkpoint.VerbPut {
			return Access{}, invalid("people do not write checkpoints")
		}
		if err := a.grantable(j, next, verb, o); err != nil {
			return Access{}, err
		}
	}
	out.Access, err = g.sign(ctx, checkpoint.Verb(r.Verb), r.Names)
	return out, err
}
