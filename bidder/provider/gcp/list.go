package gcp

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"
	"google.golang.org/api/compute/v1"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

var errNoAnswer = errors.New("the answer is null")

// List implements provider.Provider. It looks at the machines of every zone at once,
// then at the operations, so that one that ends between the two looks is in one of them.
// Zones that did not answer make the list incomplete.
//
// A machine that is stopped counts as gone, since its use is not billed any more;
// its disk is, until Terminate deletes both.
func (c *Client) List(ctx context.Context) (provider.Listing, error) {
	if ctx.Err() != nil {
		return provider.Listing{}, provider.HeldBack(ctx, provider.OpList)
	}
	now := c.cfg.Now()
	l := look{c: c, found: map[events.InstanceID]provider.Instance{}, lives: lives{}, complete: true}
	for _, read := range []func(context.Context) (*wire.Trip, error){l.machines, l.ends} {
		if t, err := read(ctx); err != nil {
			return provider.Listing{}, failed(provider.OpList, t.Sent(), err)
		}
	}
	out := provider.Listing{Complete: l.complete, At: now.Control}
	for id, i := range l.found {
		if i.State == provider.Gone {
			i = closed(i, l.lives[id])
		}
		c.memory.saw(i, now.Market)
		out.Instances = append(out.Instances, i)
	}
	for id, life := range l.lives {
		if _, there := l.found[id]; !there && !life.ended.IsZero() && now.Market.Sub(life.ended) < remembered {
			out.Instances = append(out.Instances, c.gone(id, life))
		}
	}
	c.memory.forget(now.Market)
	slices.SortFunc(out.Instances, func(a, b provider.Instance) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// look is one look at everything.
type look struct {
	c        *Client
	found    map[events.InstanceID]provider.Instance
	lives    lives
	complete bool
}

func (l *look) machines(ctx context.Context) (*wire.Trip, error) {
	c := l.c
	ctx, t := wire.Embark(ctx, wire.Most)
	return t, pages(func(token string) (string, error) {
		p, err := c.compute.Instances.AggregatedList(c.cfg.Project).
			Filter("labels." + markLabel + "=" + markValue(c.cfg.Mark)).
			MaxResults(100).PageToken(token).Context(ctx).Do(partial)
		if err != nil {
			return "", err
		}
		if p == nil {
			return "", errNoAnswer
		}
		if p.Warning != nil {
			l.warned(p.Warning.Code)
		}
		l.missing(p.Unreachables)
		for scope, in := range p.Items {
			if in.Warning != nil {
				l.warned(in.Warning.Code)
			}
			for _, raw := range in.Instances {
				l.add(last(scope), raw)
			}
		}
		return p.NextPageToken, nil
	})
}

// add takes a machine that is ours. A filter that was not heeded shows others'.
func (l *look) add(zone string, raw *compute.Instance) {
	c := l.c
	if raw == nil || !plainName.MatchString(zone) || !c.names.Ours(raw.Name) || raw.Labels[markLabel] != markValue(c.cfg.Mark) {
		return
	}
	i := c.instance(zone, raw)
	if len(i.Prices) == 0 {
		c.cfg.Log.Warn("a machine of ours has lost its metadata", zap.String("instance", string(i.ID)))
	}
	if _, twice := l.found[i.ID]; !twice {
		l.found[i.ID] = i
	}
}

func (l *look) ends(ctx context.Context) (*wire.Trip, error) {
	c := l.c
	ctx, t := wire.Embark(ctx, wire.Most)
	return t, pages(func(token string) (string, error) {
		p, err := c.compute.GlobalOperations.AggregatedList(c.cfg.Project).
			Filter(about(c.names.Pattern())).
			MaxResults(500).PageToken(token).Context(ctx).Do(partial)
		if err != nil {
			return "", err
		}
		if p == nil {
			return "", errNoAnswer
		}
		if p.Warning != nil {
			l.warned(p.Warning.Code)
		}
		l.missing(p.Unreachables)
		for _, in := range p.Items {
			if in.Warning != nil {
				l.warned(in.Warning.Code)
			}
			for _, op := range in.Operations {
				if op != nil && c.names.Ours(last(op.TargetLink)) {
					l.lives.add(op)
				}
			}
		}
		return p.NextPageToken, nil
	})
}

// warned notes a warning. That a zone has nothing is one, too.
func (l *look) warned(code string) {
	if code != "" && code != "NO_RESULTS_ON_PAGE" {
		l.complete = false
	}
}

func (l *look) missing(zones []string) {
	if len(zones) > 0 {
		l.complete = false
		l.c.cfg.Log.Info("zones did not answer", zap.Strings("zones", zones[:min(len(zones), 20)]))
	}
}
