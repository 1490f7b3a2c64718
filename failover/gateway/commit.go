package gateway

import (
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

func (a ask) commit() (any, error) {
	var r events.CommitRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	j, err := a.holder(r.Lease)
	if err != nil {
		return nil, err
	}
	c := r.Checkpoint
	if c.Epoch != a.epoch {
		return nil, invalid("checkpoint.epoch is %d on the subject of epoch %d", c.Epoch, a.epoch)
	}
	if floor := j.Floor(); c.Step < floor {
		return nil, belowRestored(c.Step, floor)
	}
	if n := j.Newest(); n != nil && n.Epoch == c.Epoch && c.Step < n.Step {
		return nil, &events.Refusal{Code: events.RefusedStale, Message: fmt.Sprintf("step %d is committed already", n.Step)}
	}
	j, err = a.verified(j, r)
	if err != nil {
		return nil, err
	}
	switch {
	case slices.ContainsFunc(j.Commits, func(x events.Checkpoint) bool { return x.Name == c.Name }):
		return events.Reply{}, nil
	case j.Epoch == a.epoch && c.Step < j.Floor(): // the first step was told between the look and the append
		return nil, belowRestored(c.Step, j.Floor())
	}
	return nil, errFenced // the epoch moved on between the look and the append
}

// verified looks at a checkpoint and appends its commit. When checkpoints were
// dropped between the two, what was seen proves nothing any more.
func (a ask) verified(j failover.Job, r events.CommitRequest) (failover.Job, error) {
	c := r.Checkpoint
	c.Weights = bounded(c.Weights, maxWord)
	for range maxLooks {
		if err := a.g.look(a.ctx, j, refOf(c)); err != nil {
			var bad *checkpoint.Rejection
			if !errors.As(err, &bad) {
				return j, err // the store could not be asked: that says nothing about the checkpoint
			}
			a.g.cfg.Logger.Warn("commit refused", zap.String("job", string(a.job)), zap.String("checkpoint", c.Name), zap.Error(err))
			return j, invalid("checkpoint %s does not verify: %v", c.Name, err)
		}
		after, err := a.apply(failover.Verified{Drops: len(j.Drops), Committed: failover.Committed{JobCommitted: events.JobCommitted{
			Epoch: a.epoch, Lease: r.Lease, Checkpoint: c, SaveMS: millis(r.SaveMS), UploadMS: millis(r.UploadMS), Final: r.Final,
		}}})
		if err != nil || len(after.Drops) == len(j.Drops) {
			return after, err
		}
		j = after
	}
	return j, errDropping
}

// belowRestored refuses what a trainer saves that did not go on from what was
// restored: as the newest it would throw away the work it ignores.
func belowRestored(step, floor int64) *events.Refusal {
	return &events.Refusal{Code: events.RefusedStale, Message: fmt.Sprintf("step %d is below step %d, which was restored", step, floor),
		Remedy: "have the trainer resume from the checkpoint that was restored"}
}

func (a ask) reject() (any, error) {
	var r events.RejectRequest
	if err := a.read(&r); err != nil {
		return nil, err
	}
	if _, err := a.holder(r.Lease); err != nil {
		return nil, err
	}
	_, err := a.apply(failover.Rejected{JobCheckpointRejected: events.JobCheckpointRejected{
		Epoch: a.epoch, Lease: r.Lease, Checkpoint: r.Checkpoint, Path: bounded(r.Path, maxText), Detail: bounded(r.Detail, maxText),
	}})
	return events.Reply{}, err
}
