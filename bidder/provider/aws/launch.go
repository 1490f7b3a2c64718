package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// leastCap is the lowest highest price that EC2 takes for a spot machine.
const leastCap = events.DollarPerHour / 1000

// maxUserData is EC2's bound, before it is written in base 64.
const maxUserData = 16 << 10

// Launch implements provider.Provider.
func (c *Client) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	if ctx.Err() != nil {
		return provider.Instance{}, provider.HeldBack(ctx, provider.OpLaunch)
	}
	r, z, in, err := c.prepare(ctx, spec, token)
	if err != nil {
		return provider.Instance{}, err
	}
	got, err := r.run(ctx, in)
	if err != nil {
		e := classify(provider.OpLaunch, err)
		if e.Code == "IdempotentInstanceTerminated" {
			return c.former(ctx, r, z, spec, token, e)
		}
		e.Pool = &spec.Pool
		return provider.Instance{}, e
	}
	return c.answer(ctx, r, z, spec, got)
}

// Rehearse asks EC2 whether it would launch this: rights, image, network and
// limits are checked, and nothing is bought.
func (c *Client) Rehearse(ctx context.Context, spec provider.LaunchSpec) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, provider.OpLaunch)
	}
	r, _, in, err := c.prepare(ctx, spec, "rehearsal")
	if err != nil {
		return err
	}
	in.DryRun, in.ClientToken = aws.Bool(true), nil
	switch _, err := r.ec2.RunInstances(ctx, in); {
	case err == nil:
		return provider.Unanswered(provider.OpLaunch, errors.New("a dry run was answered as if it had bought: list, and give back what is there"))
	case wouldHaveWorked(err):
		return nil
	default:
		return classify(provider.OpLaunch, err)
	}
}

// prepare checks a request and turns it into EC2's. Its errors are ours: nothing
// was sent.
func (c *Client) prepare(ctx context.Context, spec provider.LaunchSpec, token string) (*region, zones, *ec2.RunInstancesInput, error) {
	r, err := c.check(spec, token)
	if err != nil {
		return nil, zones{}, nil, err
	}
	z, err := c.zoneMap(ctx, r)
	if err != nil {
		return nil, zones{}, nil, notSent(spec.Pool, err)
	}
	if z.nameOf[spec.Pool.Zone] == "" {
		return nil, zones{}, nil, refusal(provider.OfferGone, spec.Pool, "NoSuchZone", "region %s has no zone with the id %q: ask for offers again", r.Name, spec.Pool.Zone)
	}
	in, err := c.request(r, z, spec, token)
	if err != nil {
		return nil, zones{}, nil, refusal(provider.Invalid, spec.Pool, "InvalidRequest", "%v", err)
	}
	return r, z, in, nil
}

func (c *Client) check(spec provider.LaunchSpec, token string) (*region, error) {
	no := func(k provider.Kind, code, format string, args ...any) (*region, error) {
		return nil, refusal(k, spec.Pool, code, format, args...)
	}
	if err := events.CheckToken("token", token); err != nil {
		return no(provider.Invalid, "InvalidToken", "%v", err)
	}
	r := c.region(spec.Pool.Region)
	switch {
	case spec.MaxPrice <= 0:
		return no(provider.Invalid, "InvalidPrice", "max_price is %s: name the most that an hour may cost", spec.MaxPrice)
	case len(spec.UserData) > maxUserData:
		return no(provider.Invalid, "UserDataTooLong", "user_data has %d bytes, and EC2 takes %d", len(spec.UserData), maxUserData)
	case spec.Pool.Gang > 1:
		return no(provider.Invalid, "NoGangs", "gang_size is %d: only single machines are bought here", spec.Pool.Gang)
	case r == nil || spec.Pool.Seller != c.cfg.Seller:
		return no(provider.OfferGone, "NoSuchRegion", "%s is not among this seller's regions: ask for offers again", spec.Pool)
	}
	switch spec.Pool.Capacity {
	case events.Spot:
		if spec.MaxPrice < leastCap {
			return no(provider.PriceTooLow, "SpotMaxPriceTooLow", "max_price is %s, and EC2 takes none below %s", spec.MaxPrice, leastCap)
		}
	case events.OnDemand:
		listed, ok := c.cfg.OnDemand[Listed{r.Name, spec.Pool.InstanceType}]
		if !ok {
			return no(provider.OfferGone, "NotListed", "%s has no on-demand price: ask for offers again", spec.Pool)
		}
		if listed.Price > spec.MaxPrice {
			return no(provider.PriceTooLow, "PriceAboveMaximum", "on demand it costs %s, at most %s is allowed", listed.Price, spec.MaxPrice)
		}
	default:
		return no(provider.OfferGone, "NoSuchCapacity", "capacity_type is %q, and EC2 sells spot and on-demand", spec.Pool.Capacity)
	}
	return r, nil
}

// request is EC2's form of a request. It is a function of the arguments and the
// configuration, since a repeat that differs in anything is refused.
func (c *Client) request(r *region, z zones, spec provider.LaunchSpec, token string) (*ec2.RunInstancesInput, error) {
	tags, err := tagsOf(c.cfg.Mark, spec, token)
	if err != nil {
		return nil, err
	}
	in := &ec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ClientToken: &token,
		ImageId: &r.Image, InstanceType: types.InstanceType(spec.Pool.InstanceType), SecurityGroupIds: r.SecurityGroups,
		UserData: optional(base64.StdEncoding.EncodeToString(spec.UserData)),
		// The agent's last resort is to shut the machine down; then it must be gone.
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate,
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpTokens: types.HttpTokensStateRequired, HttpEndpoint: types.InstanceMetadataEndpointStateEnabled,
			HttpPutResponseHopLimit: aws.Int32(2), // containers are one hop further
		},
	}
	if subnet := r.Subnets[spec.Pool.Zone]; subnet != "" {
		in.SubnetId = &subnet
	} else {
		in.Placement = &types.Placement{AvailabilityZone: aws.String(z.nameOf[spec.Pool.Zone])}
	}
	if c.cfg.RootDevice != "" {
		in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: &c.cfg.RootDevice, Ebs: &types.EbsBlockDevice{
			VolumeSize: aws.Int32(int32(c.cfg.DiskGB)), VolumeType: types.VolumeTypeGp3, DeleteOnTermination: aws.Bool(true),
		}}}
	}
	tagged := []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface}
	if spec.Pool.Capacity == events.Spot {
		in.InstanceMarketOptions = spotOptions(spec.MaxPrice)
		tagged = append(tagged, types.ResourceTypeSpotInstancesRequest)
	}
	for _, what := range tagged {
		in.TagSpecifications = append(in.TagSpecifications, types.TagSpecification{ResourceType: what, Tags: tags})
	}
	return in, nil
}

// spotOptions buy once: a request that stays would buy again by itself. The
// highest price is told, rounded down, because what has been agreed is a bound on
// what is paid, and a spot price moves.
func spotOptions(most events.PerInstanceHour) *types.InstanceMarketOptionsRequest {
	micros := int64(most) / 1000
	return &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot, SpotOptions: &types.SpotMarketOptions{
		MaxPrice: aws.String(fmt.Sprintf("%d.%06d", micros/1_000_000, micros%1_000_000)), SpotInstanceType: types.SpotInstanceTypeOneTime,
		InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate,
	}}
}

// run makes the call and insists on the one machine that was asked for.
func (r *region) run(ctx context.Context, in *ec2.RunInstancesInput) (types.Instance, error) {
	out, err := r.ec2.RunInstances(ctx, in)
	if err != nil {
		return types.Instance{}, err
	}
	if len(out.Instances) != 1 || !usable(aws.ToString(out.Instances[0].InstanceId)) {
		return types.Instance{}, &replyError{fmt.Sprintf("%d machines for one, or one without an id", len(out.Instances))}
	}
	return out.Instances[0], nil
}

// usable says whether an id can be one.
func usable(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, c := range id {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// answer is a machine that was bought, or that the token names.
func (c *Client) answer(ctx context.Context, r *region, z zones, spec provider.LaunchSpec, got types.Instance) (provider.Instance, error) {
	if t := readTags(got.Tags); t.spec != "" && t.spec != spec.Digest() {
		return provider.Instance{}, &provider.Error{
			Kind: provider.Conflict, Op: provider.OpLaunch, Scope: "pool", Pool: &spec.Pool, Code: "IdempotentParameterMismatch",
			Message: fmt.Sprintf("the token is of another request, for machine %s: read that, or use another token", aws.ToString(got.InstanceId)),
		}
	}
	m := c.machine(r, z, got)
	c.remember(r, m)
	one := []provider.Instance{m}
	if _, err := c.price(ctx, r, z, one); err != nil {
		// It is bought, whatever it costs; a list says so later.
		c.log.Warn("price of a new machine not known", zap.String("instance", string(m.ID)), zap.Stringer("pool", m.Pool), zap.Error(err))
	}
	return one[0], nil
}

// former is the machine of a token that EC2 refuses because it has ended.
func (c *Client) former(ctx context.Context, r *region, z zones, spec provider.LaunchSpec, token string, refused *provider.Error) (provider.Instance, error) {
	var got []types.Instance
	if err := r.describe(ctx, filters("client-token", token), func(i types.Instance) { got = append(got, i) }); err != nil {
		return provider.Instance{}, provider.Unanswered(provider.OpLaunch, err)
	}
	for _, i := range got {
		if readTags(i.Tags).mark == c.cfg.Mark {
			return c.answer(ctx, r, z, spec, i)
		}
	}
	refused.Pool = &spec.Pool
	return provider.Instance{}, refused
}
