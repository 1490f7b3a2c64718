package gcp

import (
	"context"
	"math"

	"go.uber.org/zap"
	"google.golang.org/api/compute/v1"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// maxAdvice is how many pools are asked about each time the catalog is read.
const maxAdvice = 200

// advise asks how likely each spot pool is to have a machine. It is a hint: what
// goes wrong leaves the rest without one, and a score is no promise.
func (c *Client) advise(ctx context.Context, all []quote) {
	asked := 0
	for n := range all {
		q := &all[n]
		if q.offer.Pool.Capacity != events.Spot {
			continue
		}
		if asked++; asked > maxAdvice {
			c.cfg.Log.Info("more spot pools than advice is asked for; name fewer regions", zap.Int("asked", maxAdvice))
			return
		}
		score, err := c.obtainable(ctx, q.offer.Pool, q.shape)
		if err != nil {
			c.cfg.Log.Info("no advice on capacity", zap.String("pool", q.offer.Pool.String()), zap.Error(err))
			return
		}
		q.offer.Score = score
	}
}

// obtainable is the chance of one machine in hundredths, 0 if it is not told.
func (c *Client) obtainable(ctx context.Context, p events.Pool, s shape) (int, error) {
	selection := compute.CapacityAdviceRequestInstanceFlexibilityPolicyInstanceSelection{MachineTypes: []string{s.name}}
	if s.attached {
		selection.GuestAccelerators = []*compute.AcceleratorConfig{{AcceleratorCount: int64(s.gpus), AcceleratorType: s.gpu}}
	}
	ctx, t := wire.Embark(ctx, wire.Most)
	answer, err := c.compute.Advice.Capacity(c.cfg.Project, p.Region, &compute.CapacityAdviceRequest{
		Size: 1,
		InstanceFlexibilityPolicy: &compute.CapacityAdviceRequestInstanceFlexibilityPolicy{
			InstanceSelections: map[string]compute.CapacityAdviceRequestInstanceFlexibilityPolicyInstanceSelection{"machine": selection},
		},
		InstanceProperties: &compute.CapacityAdviceRequestInstanceProperties{
			Scheduling: &compute.CapacityAdviceRequestInstancePropertiesScheduling{ProvisioningModel: "SPOT"},
		},
		DistributionPolicy: &compute.CapacityAdviceRequestDistributionPolicy{
			TargetShape: "ANY_SINGLE_ZONE",
			Zones:       []*compute.CapacityAdviceRequestDistributionPolicyZoneConfiguration{{Zone: "zones/" + p.Zone}},
		},
	}).Context(ctx).Do()
	if err == nil && answer == nil {
		err = errNoAnswer
	}
	if err != nil {
		return 0, failed(provider.OpOffers, t.Sent(), err)
	}
	for _, r := range answer.Recommendations {
		if r != nil && r.Scores != nil && r.Scores.Obtainability > 0 && r.Scores.Obtainability <= 1 {
			return int(math.Ceil(r.Scores.Obtainability * 100)), nil
		}
	}
	return 0, nil
}
