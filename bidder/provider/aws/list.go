package aws

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// List implements provider.Provider. It looks into every region; one that does
// not answer, or only in part, makes the list incomplete.
func (c *Client) List(ctx context.Context) (provider.Listing, error) {
	if ctx.Err() != nil {
		return provider.Listing{}, provider.HeldBack(ctx, provider.OpList)
	}
	l := provider.Listing{Complete: true, At: c.cfg.Now().Control}
	before := c.known()
	found := make([][]provider.Instance, len(c.regions))
	errs := c.everywhere(func(n int, r *region) error {
		var err error
		found[n], err = c.listIn(ctx, r)
		return err
	})
	l.Instances = slices.Concat(found...)
	for n, err := range errs {
		l.Complete = l.Complete && err == nil
		c.remember(c.regions[n], found[n]...)
	}
	if err := c.settle(provider.OpList, errs); err != nil {
		if len(l.Instances) == 0 {
			return provider.Listing{}, classify(provider.OpList, err)
		}
		c.log.Warn("list incomplete", zap.Int("machines", len(l.Instances)), zap.Error(err))
	}
	if l.Complete {
		listed := map[events.InstanceID]bool{}
		for _, i := range l.Instances {
			listed[i.ID] = true
		}
		c.forget(before, listed)
	}
	return l, nil
}

// listIn returns the region's machines with our mark, and an error if there may be more.
func (c *Client) listIn(ctx context.Context, r *region) ([]provider.Instance, error) {
	z, err := c.zoneMap(ctx, r)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var machines []provider.Instance
	listing := r.describe(ctx, filters("tag:"+tagMark, c.cfg.Mark), func(i types.Instance) {
		id := aws.ToString(i.InstanceId)
		if readTags(i.Tags).mark != c.cfg.Mark || !usable(id) || seen[id] {
			return // not ours, whatever was asked for; or told twice
		}
		seen[id] = true
		machines = append(machines, c.machine(r, z, i))
	})
	machines, pricing := c.price(ctx, r, z, machines)
	if listing != nil {
		return machines, listing
	}
	return machines, pricing
}

// describe hands every machine that passes the filters to each, page by page.
func (r *region) describe(ctx context.Context, by []types.Filter, each func(types.Instance)) error {
	return pages(func(token *string) (*string, error) {
		out, err := r.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
			Filters: by, MaxResults: aws.Int32(perPage), NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, reservation := range out.Reservations {
			for _, i := range reservation.Instances {
				each(i)
			}
		}
		return out.NextToken, nil
	})
}

// perPage is the largest page of machines that EC2 gives.
const perPage = 1000

// Terminate implements provider.Provider. A machine that does not carry our mark
// is not touched.
func (c *Client) Terminate(ctx context.Context, id events.InstanceID) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, provider.OpTerminate)
	}
	if !usable(string(id)) {
		return &provider.Error{Kind: provider.Invalid, Op: provider.OpTerminate, Code: "InvalidInstanceID.Malformed", Message: fmt.Sprintf("%.140q is no machine's id", id)}
	}
	r := c.known()[id]
	if r == nil {
		var err error
		if r, err = c.search(ctx, id); r == nil {
			return err
		}
	}
	_, err := r.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{string(id)}})
	if err == nil {
		c.log.Info("machine given back", zap.String("instance", string(id)), zap.String("region", r.Name))
		return nil
	}
	if e := classify(provider.OpTerminate, err); e.Kind != provider.NotFound {
		return e
	}
	return nil
}

// search finds in which region a machine of ours is. It returns nil and no error
// if all of them say that there is none.
func (c *Client) search(ctx context.Context, id events.InstanceID) (*region, error) {
	found := make([]*types.Instance, len(c.regions))
	errs := c.everywhere(func(n int, r *region) error {
		return r.describe(ctx, filters("instance-id", string(id)), func(i types.Instance) {
			if aws.ToString(i.InstanceId) == string(id) {
				found[n] = &i
			}
		})
	})
	for n, i := range found {
		if i == nil {
			continue
		}
		if mark := readTags(i.Tags).mark; mark != c.cfg.Mark {
			return nil, &provider.Error{
				Kind: provider.Invalid, Op: provider.OpTerminate, Code: "NotOurs",
				Message: fmt.Sprintf("machine %s carries the mark %q and not %q: it is left alone", id, short(mark), c.cfg.Mark),
			}
		}
		return c.regions[n], nil
	}
	for _, err := range errs {
		if err != nil {
			return nil, classify(provider.OpTerminate, err)
		}
	}
	return nil, nil
}
