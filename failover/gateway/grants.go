package gateway

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

const (
	// grantLife is how long an access to one object may be used. It outlives the
	// fencing of whoever has it, and then reaches only what nobody relies on.
	grantLife = 15 * time.Minute
	// maxPut is the largest object that a single request puts.
	maxPut = 5 << 30
)

// InputPrefix is what the names of an organisation's inputs begin with: base
// weights, data and code, by content, read by all of its jobs.
func InputPrefix(tenant string) string { return "v1/" + tenant + "/inputs/" }

// grant gives accesses to objects, or says where checkpoints go to whoever names none.
func (a ask) grant() (any, error) {
	var r events.GrantRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	j, s, err := a.g.job(a.ctx, a.job, a.epoch, r.Lease)
	switch {
	case err != nil:
		return nil, err
	case len(r.Names) == 0 && r.Verb == "" && s != strange:
		return a.g.grantFor(j), nil
	case s != current && s != next || j.Over() || s == current && j.Epoch != a.epoch:
		return nil, errFenced // an epoch that is over reads and writes nothing
	case a.g.cfg.Signer == nil:
		return nil, invalid("this store is not reached by signed requests")
	case len(r.Names) == 0 || len(r.Names) > events.MaxGrants:
		return nil, invalid("%d names: want 1 to %d", len(r.Names), events.MaxGrants)
	}
	for _, o := range r.Names {
		if err := a.grantable(j, s, checkpoint.Verb(r.Verb), o); err != nil {
			return nil, err
		}
	}
	access, err := a.g.sign(a.ctx, checkpoint.Verb(r.Verb), r.Names)
	return events.GrantReply{Access: access}, err
}

// grantable says why an agent may not do this with an object, or nil. It writes
// in its own epoch alone, and reads its own job's objects and its organisation's inputs.
func (a ask) grantable(j failover.Job, s standing, verb checkpoint.Verb, o events.GrantObject) error {
	tenant, job := string(j.Attribution.Org), string(a.job)
	if !checkpoint.ObjectName(o.Name) {
		return invalid("%.80q is no object name", o.Name)
	}
	of, ok := dataEpoch(tenant, job, o.Name)
	if !ok {
		of, ok = manifestEpoch(tenant, job, o.Name)
	}
	switch verb {
	case checkpoint.VerbPut:
		if !ok || of != a.epoch || s != current {
			return invalid("%.200q is not for epoch %d to write", o.Name, a.epoch)
		}
		if o.Size <= 0 || o.Size > maxPut {
			return invalid("%.200q: a size of %d: want 1 to %d", o.Name, o.Size, int64(maxPut))
		}
	case checkpoint.VerbGet, checkpoint.VerbHead:
		if !ok && !strings.HasPrefix(o.Name, InputPrefix(tenant)) {
			return invalid("%.200q is not for job %s to read", o.Name, job)
		}
	default:
		return invalid("verb %.40q: want put, get or head", verb)
	}
	return nil
}

// sign makes an access for each name, in their order.
func (g *Gateway) sign(ctx context.Context, verb checkpoint.Verb, names []events.GrantObject) ([]events.SignedHTTP, error) {
	out := make([]events.SignedHTTP, 0, len(names))
	for _, o := range names {
		size := o.Size
		if verb != checkpoint.VerbPut {
			size = 0
		}
		access, err := g.cfg.Signer.Sign(ctx, verb, o.Name, size, grantLife)
		if err != nil {
			return nil, fmt.Errorf("signing a %s of %s: %w", verb, o.Name, err)
		}
		life := min(access.Until.Sub(g.cfg.Now().Control), grantLife) // by the signer's clock; it may have given less
		if access.Until.IsZero() || life <= 0 {
			life = grantLife
		}
		out = append(out, events.SignedHTTP{Method: access.Method, URL: access.URL, Header: access.Header, Life: life})
	}
	return out, nil
}

// CheckpointKey is under what name a tenant's key is sealed, as a secret of the job (events.PackSecrets), in hex.
const CheckpointKey = "checkpoint-key"

// keyFor seals the key of an organisation's checkpoints for one agent; nil if they are not encrypted.
func (a ask) keyFor(j failover.Job, r events.JoinRequest) (*events.Sealed, error) {
	sealed, err := a.g.sealedKey(a.ctx, j, r.SealTo, func() error { return proven(r) })
	if err != nil {
		a.g.cfg.Logger.Warn("checkpoint key not handed out", zap.String("job", string(j.ID)), zap.Error(err))
	}
	return sealed, err
}

func (g *Gateway) sealedKey(ctx context.Context, j failover.Job, to string, check func() error) (*events.Sealed, error) {
	if g.cfg.TenantKey == nil {
		return nil, nil
	}
	key, has, err := g.cfg.TenantKey(ctx, j.Attribution.Org)
	if err != nil || !has {
		return nil, err
	}
	if err := check(); err != nil {
		return nil, err
	}
	clear, err := events.PackSecrets(j.ID, map[string]events.Secret{CheckpointKey: events.NewSecret(hex.EncodeToString(key[:]))})
	if err != nil {
		return nil, err
	}
	sealed, err := g.cfg.Keys.SealSecrets(clear, to)
	return &sealed, err
}
