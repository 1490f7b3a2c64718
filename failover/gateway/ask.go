package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// ask is one request being answered.
type ask struct {
	g     *Gateway
	ctx   context.Context
	job   events.JobID
	epoch int
	body  []byte
}

func (a ask) read(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return invalid("body: %v", err)
	}
	return nil
}

// holder returns the job if the asker is its current agent, or the refusal.
func (a ask) holder(lease events.LeaseID) (failover.Job, error) {
	j, s, err := a.g.job(a.ctx, a.job, a.epoch, lease)
	if err == nil && s != current {
		err = errFenced
	}
	return j, err
}

func (a ask) apply(in failover.Input) (failover.Job, error) {
	j, evs, err := a.g.cfg.Book.Apply(a.ctx, a.job, in)
	failover.LogTransitions(a.g.cfg.Logger, evs)
	return j, err
}

func (a ask) join() (any, error) {
	var r events.JoinRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	if job, epoch, _, err := r.Lease.Parts(); err != nil || job != a.job || epoch != a.epoch {
		return nil, invalid("lease %.80q is not one of job %s, epoch %d", r.Lease, a.job, a.epoch)
	}
	if r.Key == "" || len(r.Key) > maxWord {
		return nil, invalid("key: want the public half of an nkey")
	}
	j, err := a.apply(failover.Joined{JobJoined: events.JobJoined{Epoch: a.epoch, Lease: r.Lease, Key: r.Key, Host: host(r.Host)}})
	if err != nil {
		return nil, err
	}
	var m *failover.Machine
	switch standingOf(j, a.epoch, r.Lease) {
	case next:
		m = j.Next
	case current:
		m = j.Current // a repeat after the placement
	default:
		if unheard(j, a.epoch, r.Lease) {
			return nil, &events.Refusal{Code: events.RefusedUnavailable, Message: "the purchase of this machine is not recorded yet", Remedy: "ask again"}
		}
		return nil, errFenced
	}
	if m.Key != r.Key {
		return nil, &events.Refusal{Code: events.RefusedFenced, Message: "the token has been used by another agent"}
	}
	jwt, err := a.g.cfg.Accounts.User(a.job, a.epoch, r.Key)
	if err != nil {
		return nil, err
	}
	sealed, err := a.secretsFor(j, r)
	if err != nil {
		return nil, err
	}
	store := a.g.grantFor(j)
	if store.Key, err = a.keyFor(j, r); err != nil {
		return nil, err
	}
	return events.JoinReply{Secrets: sealed, JWT: jwt, Org: j.Attribution.Org, Spec: j.Spec, Store: store, Timers: a.g.cfg.Timers, Resume: firstFive(j.Resume())}, nil
}

// firstFive are as many checkpoints as an agent is given to try.
func firstFive(best []events.Checkpoint) []events.Checkpoint { return best[:min(len(best), 5)] }

// unheard says whether a lease may still be on its way into the job's record: a
// machine can boot faster than the news of its purchase travels.
func unheard(j failover.Job, epoch int, lease events.LeaseID) bool {
	return !j.Over() && epoch >= j.NextEpoch && !slices.Contains(j.Leases, lease)
}

func (g *Gateway) grantFor(j failover.Job) events.StoreGrant {
	grant := g.cfg.Grant
	grant.Tenant = string(j.Attribution.Org)
	return grant
}

func (a ask) notice() (any, error) {
	var r events.NoticeRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	j, st, err := a.g.job(a.ctx, a.job, a.epoch, r.Lease)
	switch {
	case err != nil:
		return nil, err
	case st == strange: // the next machine can be going before it was placed
		return nil, errFenced
	case st == restarted:
		a.epoch = j.Epoch // the machine is going, whatever runs on it
	}
	if r.Withdrawn {
		_, err := a.apply(failover.Withdrawn{JobNoticeWithdrawn: events.JobNoticeWithdrawn{Epoch: a.epoch, Lease: r.Lease}})
		return events.Reply{}, err
	}
	if r.Left < 0 || r.Left > time.Hour || r.Ago < 0 || r.Ago > time.Hour {
		return nil, invalid("left %s, ago %s: want 0 to 1h", r.Left, r.Ago)
	}
	now := a.g.cfg.Now().Control
	_, err = a.apply(failover.Noticed{JobNoticed: events.JobNoticed{
		Epoch: a.epoch, Lease: r.Lease, Action: bounded(r.Action, maxWord), Source: bounded(r.Source, maxWord),
		Seen: now.Add(-r.Ago), Deadline: now.Add(r.Left), SignalMS: signalled(r.SignalMS),
	}})
	return events.Reply{}, err
}

// trouble takes an agent's word on what is wrong with its machine or its trainer.
// A machine is broken whoever runs on it: that is heard from the next one and
// under an older epoch as well.
func (a ask) trouble() (any, error) {
	var r events.TroubleRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	if !failover.KnownTrouble(r.Kind) {
		return nil, invalid("kind %.40q is no trouble that is known", r.Kind)
	}
	j, st, err := a.g.job(a.ctx, a.job, a.epoch, r.Lease)
	if err != nil {
		return nil, err
	}
	if st == strange {
		return nil, errFenced
	}
	_, err = a.apply(failover.Troubled{JobTroubled: events.JobTroubled{
		Epoch: a.epoch, Lease: r.Lease, Kind: r.Kind, Step: r.Step,
		Detail: bounded(r.Detail, maxText), Remedy: bounded(r.Remedy, maxText), Evidence: evidence(r.Lines),
	}})
	if err == nil {
		a.g.cfg.Logger.Warn("trouble reported", zap.String("job", string(a.job)), zap.Int("epoch", a.epoch), zap.String("kind", string(r.Kind)),
			zap.String("lease", string(r.Lease)), zap.String("status", j.Status()))
	}
	return events.Reply{}, err
}

func (a ask) done() (any, error) {
	var r events.DoneRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	r.Reason, r.Signal = bounded(r.Reason, maxText), bounded(r.Signal, maxWord)
	if _, err := a.holder(r.Lease); err != nil {
		return nil, err
	}
	_, err := a.apply(failover.Exited{Epoch: a.epoch, DoneRequest: r})
	return events.Reply{}, err
}

func (a ask) log() (any, error) {
	var b events.LogBatch
	if err := a.read(&b); err != nil {
		return nil, err
	}
	j, ok := a.g.cfg.Book.Cached(a.job)
	if !ok || a.epoch > j.NextEpoch { // nothing is refused on the word of a cache
		var err error
		if j, err = a.g.cfg.Book.Job(a.ctx, a.job); err != nil {
			return nil, err
		}
	}
	if a.epoch > j.NextEpoch {
		return nil, errFenced
	}
	b.Epoch = a.epoch // a dead epoch's last lines are still wanted
	return events.Reply{}, a.g.cfg.Signals.AppendLog(a.ctx, j.Attribution.Org, a.job, b)
}
