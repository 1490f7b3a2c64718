package aws

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"go.uber.org/zap"
)

// fewest is how many types a score has to be asked for: of fewer it is always low.
const fewest = 3

// scoresOf is how likely one more machine is to be had in each of the region's
// zones, by the seller's own guess, in hundredths. It is a hint: without it
// offers have none.
func (c *Client) scoresOf(ctx context.Context, r *region, machines map[string]hardware) map[string]int {
	if !c.cfg.Scores || len(machines) < fewest {
		return nil
	}
	scores, err := r.scores.get(ctx, c.cfg.Now().Control, scoresHold, func(ctx context.Context) (map[string]int, error) {
		return r.loadScores(ctx, slices.Sorted(maps.Keys(machines)))
	})
	if err != nil {
		c.log.Debug("no placement scores", zap.String("region", r.Name), zap.Error(err))
	}
	return scores
}

func (r *region) loadScores(ctx context.Context, instanceTypes []string) (map[string]int, error) {
	scores := map[string]int{}
	err := pages(func(token *string) (*string, error) {
		out, err := r.ec2.GetSpotPlacementScores(ctx, &ec2.GetSpotPlacementScoresInput{
			InstanceTypes: instanceTypes, TargetCapacity: aws.Int32(1), RegionNames: []string{r.Name},
			SingleAvailabilityZone: aws.Bool(true), NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, s := range out.SpotPlacementScores {
			if n := aws.ToInt32(s.Score); n >= 1 && n <= 10 {
				scores[aws.ToString(s.AvailabilityZoneId)] = int(n) * 10
			}
		}
		return out.NextToken, nil
	})
	return scores, err
}
