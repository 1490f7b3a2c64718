package aws

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// machine is one of ours as EC2 describes it, in our terms; its prices are still
// missing. What its tags say is believed only about what EC2 does not tell.
func (c *Client) machine(r *region, z zones, i types.Instance) provider.Instance {
	t := readTags(i.Tags)
	out := provider.Instance{
		ID: events.InstanceID(aws.ToString(i.InstanceId)), Token: t.lease, State: state(i.State), Labels: map[string]string{},
		Pool: c.pool(r, place{instanceType: string(i.InstanceType)}, events.OnDemand),
	}
	if out.Token == "" {
		out.Token = aws.ToString(i.ClientToken)
	}
	if i.InstanceLifecycle == types.InstanceLifecycleTypeSpot {
		out.Pool.Capacity = events.Spot
	}
	if p := i.Placement; p != nil {
		if out.Pool.Zone = aws.ToString(p.AvailabilityZoneId); out.Pool.Zone == "" {
			out.Pool.Zone = z.idOf[aws.ToString(p.AvailabilityZone)]
		}
	}
	if a := t.asked; a != nil {
		set(&out.Pool.Zone, a.Zone)
		set(&out.Pool.InstanceType, a.Type)
		out.Pool.Gang = a.Gang
		if a.Labels != nil {
			out.Labels = a.Labels
		}
	}
	out.Terms = terms(out.Pool.Capacity)
	if i.LaunchTime != nil {
		out.Started = i.LaunchTime.UTC()
	}
	if out.State == provider.Gone {
		out.Ended, out.EndedBy = c.ended(out, i), endedBy(i.StateReason)
	}
	return out
}

func state(s *types.InstanceState) provider.State {
	if s == nil {
		return provider.Pending
	}
	switch s.Name {
	case types.InstanceStateNameRunning:
		return provider.Running
	case types.InstanceStateNameTerminated:
		return provider.Gone
	case types.InstanceStateNameShuttingDown, types.InstanceStateNameStopping, types.InstanceStateNameStopped:
		return provider.Stopping // a stopped one still pays for its disk
	}
	return provider.Pending
}

// endings are the reasons that say more than their first word.
var endings = map[string]string{
	"Server.SpotInstanceTermination":      "seller",
	"Server.SpotInstanceShutdown":         "seller",
	"Server.InsufficientInstanceCapacity": "seller",
	"Client.InstanceInitiatedShutdown":    "machine",
	"Client.InternalError":                "fault", // the machine could not be started
	"Client.VolumeLimitExceeded":          "fault",
	"Client.InvalidSnapshot.NotFound":     "fault",
}

// endedBy is who ended a machine, by the reason that EC2 gives.
func endedBy(r *types.StateReason) string {
	if r == nil {
		return "fault"
	}
	code := aws.ToString(r.Code)
	if by, ok := endings[code]; ok {
		return by
	}
	if strings.HasPrefix(code, "Client.") {
		return "us"
	}
	return "fault"
}

// ended is when a machine ended. EC2 says so in a text only, "User initiated
// (2026-11-30 12:23:40 GMT)", and not always: then it is when we first saw it ended.
func (c *Client) ended(m provider.Instance, i types.Instance) time.Time {
	at, ok := endOf(aws.ToString(i.StateTransitionReason))
	if !ok {
		at = c.seenEnded(m.ID)
	}
	if at.Before(m.Started) {
		return m.Started
	}
	return at
}

// endOf is the time in a transition's reason.
func endOf(reason string) (time.Time, bool) {
	_, rest, opened := strings.Cut(reason, "(")
	text, _, closed := strings.Cut(rest, ")")
	if !opened || !closed {
		return time.Time{}, false
	}
	at, err := time.Parse("2006-01-02 15:04:05 MST", text)
	return at.UTC(), err == nil
}

// seenEnded is when this process first saw that a machine has ended.
func (c *Client) seenEnded(id events.InstanceID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.ends[id]
	if !ok {
		at = c.cfg.Now().Market
		c.ends[id] = at
		c.log.Warn("machine ended at a time that is not told", zap.String("instance", string(id)), zap.Time("market_seen", at))
	}
	return at
}

// price fills in what machines of one region cost. It returns those whose prices
// are known, and an error if some are not: a machine that has ended is billed by
// what is said of it the first time, so it must not be told without them.
func (c *Client) price(ctx context.Context, r *region, z zones, machines []provider.Instance) ([]provider.Instance, error) {
	var kinds []string
	oldest := c.cfg.Now().Market
	for _, m := range machines {
		if m.Pool.Capacity == events.Spot {
			kinds = append(kinds, m.Pool.InstanceType)
			if m.Started.Before(oldest) {
				oldest = m.Started
			}
		}
	}
	var trouble error
	if len(kinds) > 0 {
		trouble = r.learn(ctx, z, kinds, oldest, c.cfg.Now().Market)
	}
	kept := machines[:0]
	for _, m := range machines {
		m.Prices = c.pricesOf(r, m)
		if trouble == nil || m.State != provider.Gone || m.Pool.Capacity != events.Spot {
			kept = append(kept, m)
		}
	}
	return kept, trouble
}

func (c *Client) pricesOf(r *region, m provider.Instance) []events.PriceFrom {
	if m.Pool.Capacity == events.Spot {
		return r.history.between(place{m.Pool.InstanceType, m.Pool.Zone}, m.Started, m.Ended)
	}
	listed, ok := c.cfg.OnDemand[Listed{r.Name, m.Pool.InstanceType}]
	if !ok {
		return nil
	}
	return []events.PriceFrom{{From: m.Started, Price: listed.Price}}
}
