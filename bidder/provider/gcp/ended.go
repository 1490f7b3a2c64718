package gcp

import (
	"context"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// life is what operations tell of one machine.
type life struct {
	born  time.Time
	ended time.Time // zero while it lives
	by    string
}

// enders are the operations that end a machine, and who is behind them.
var enders = map[string]string{
	"delete":                      "us",
	"stop":                        "us",
	"compute.instances.preempted": "seller",
	"compute.instances.terminateonhostmaintenance": "seller",
	"compute.instances.hosterror":                  "fault",
	"compute.instances.guestterminate":             "machine",
}

// endedBy says who ends a machine by an operation of this type, "" if it ends
// none. What Google does by a deadline that we set is done by us.
func endedBy(kind string) string {
	kind = strings.ToLower(kind)
	if by, ok := enders[kind]; ok {
		return by
	}
	if strings.HasPrefix(kind, "compute.instances.") && (strings.Contains(kind, "delete") || strings.Contains(kind, "terminate")) {
		return "us"
	}
	return ""
}

// lives is what operations tell of every machine that they are about. The first
// end is the end: what is deleted after a preemption was preempted.
type lives map[events.InstanceID]life

func (all lives) add(op *compute.Operation) {
	if op == nil || op.Status != "DONE" || broken(op) {
		return
	}
	zone, name, ok := target(op.TargetLink)
	if !ok {
		return
	}
	id := instanceID(zone, name)
	l := all[id]
	at := moment(op.EndTime)
	if at.IsZero() {
		at = moment(op.InsertTime)
	}
	by := endedBy(op.OperationType)
	switch {
	case op.OperationType == "insert":
		if l.born = moment(op.StartTime); l.born.IsZero() {
			l.born = moment(op.InsertTime)
		}
	case by != "" && (l.ended.IsZero() || at.Before(l.ended)):
		l.ended, l.by = at, by
	}
	all[id] = l
}

// target is the machine that an operation is about.
func target(link string) (zone, name string, ok bool) {
	parts := strings.Split(link, "/")
	n := len(parts)
	if n < 4 || parts[n-2] != "instances" || parts[n-4] != "zones" {
		return "", "", false
	}
	return splitID(instanceID(parts[n-3], parts[n-1]))
}

// about is the filter for the operations on machines whose names match.
func about(names string) string { return `targetLink eq ".*/instances/` + names + `"` }

// operations reads what was done to one machine.
func (c *Client) operations(ctx context.Context, zone, name string) (lives, *provider.Error) {
	all := lives{}
	ctx, t := wire.Embark(ctx, wire.Most)
	err := pages(func(token string) (string, error) {
		p, err := c.compute.ZoneOperations.List(c.cfg.Project, zone).Filter(about(name)).MaxResults(500).PageToken(token).Context(ctx).Do()
		if err != nil {
			return "", err
		}
		if p == nil {
			return "", errNoAnswer
		}
		for _, op := range p.Items {
			all.add(op)
		}
		return p.NextPageToken, nil
	})
	if err != nil {
		e := failed(provider.OpList, t.Sent(), err)
		e.Op = provider.OpLaunch
		return nil, e
	}
	return all, nil
}

// buried is the machine of a name that is gone, nil if no operation tells of its end.
func (c *Client) buried(ctx context.Context, spec provider.LaunchSpec, name string) (*provider.Instance, *provider.Error) {
	all, err := c.operations(ctx, spec.Pool.Zone, name)
	switch {
	case err != nil && (err.Kind == provider.NotFound || err.Kind == provider.Invalid):
		return nil, nil // no such zone, so no such machine
	case err != nil:
		return nil, err
	}
	id := instanceID(spec.Pool.Zone, name)
	if all[id].ended.IsZero() {
		return nil, nil
	}
	i := c.gone(id, all[id])
	i.Pool, i.Labels = spec.Pool, spec.Labels
	return &i, nil
}

// gone is a machine that exists no more, as far as it is known what it was.
func (c *Client) gone(id events.InstanceID, l life) provider.Instance {
	zone, name, _ := splitID(id)
	i, known := c.memory.of(id)
	if !known {
		i = provider.Instance{
			ID: id, Token: c.names.Token(name), Started: l.born,
			Pool: events.Pool{Seller: c.cfg.Seller, Region: regionOf(zone), Zone: zone, Gang: 1},
		}
	}
	i.Remains = false
	return closed(i, l)
}

// closed is a machine that has ended, with who ended it and when if that is known.
func closed(i provider.Instance, l life) provider.Instance {
	i.State = provider.Gone
	if !l.ended.IsZero() {
		i.Ended, i.EndedBy = l.ended, l.by
	}
	if i.Ended.Before(i.Started) {
		i.Ended = i.Started
	}
	return i
}
