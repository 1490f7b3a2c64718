package aws

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// zones are a region's zones: their names are this account's, their ids everybody's.
type zones struct {
	nameOf map[string]string // by id
	idOf   map[string]string // by name
}

// zoneMap returns the region's zones. Local zones, and those that are closed to
// the account, are not among them.
func (c *Client) zoneMap(ctx context.Context, r *region) (zones, error) {
	return r.zones.get(ctx, c.cfg.Now().Control, zonesHold, r.loadZones)
}

func (r *region) loadZones(ctx context.Context) (zones, error) {
	out, err := r.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return zones{}, err
	}
	z := zones{nameOf: map[string]string{}, idOf: map[string]string{}}
	for _, a := range out.AvailabilityZones {
		name, id, kind := aws.ToString(a.ZoneName), aws.ToString(a.ZoneId), aws.ToString(a.ZoneType)
		open := a.OptInStatus != types.AvailabilityZoneOptInStatusNotOptedIn
		if name != "" && id != "" && open && (kind == "" || kind == "availability-zone") {
			z.nameOf[id], z.idOf[name] = name, id
		}
	}
	if len(z.nameOf) == 0 {
		return zones{}, &replyError{"region " + r.Name + " has no zone"}
	}
	return z, nil
}

// countries are where the regions lie, as AWS publishes it.
var countries = map[string]string{
	"af-south-1": "ZA", "ap-east-1": "HK", "ap-east-2": "TW",
	"ap-northeast-1": "JP", "ap-northeast-2": "KR", "ap-northeast-3": "JP",
	"ap-south-1": "IN", "ap-south-2": "IN",
	"ap-southeast-1": "SG", "ap-southeast-2": "AU", "ap-southeast-3": "ID", "ap-southeast-4": "AU",
	"ap-southeast-5": "MY", "ap-southeast-6": "NZ", "ap-southeast-7": "TH",
	"ca-central-1": "CA", "ca-west-1": "CA",
	"eu-central-1": "DE", "eu-central-2": "CH", "eu-north-1": "SE", "eu-south-1": "IT", "eu-south-2": "ES",
	"eu-west-1": "IE", "eu-west-2": "GB", "eu-west-3": "FR", "eusc-de-east-1": "DE",
	"il-central-1": "IL", "me-central-1": "AE", "me-south-1": "BH", "mx-central-1": "MX", "sa-east-1": "BR",
}

// country is where a region lies, "" if that is not known: residency rules then
// keep jobs away from it.
func (r *region) country() string {
	if r.Country != "" {
		return r.Country
	}
	for _, family := range []struct{ prefix, country string }{{"us-", "US"}, {"cn-", "CN"}} {
		if strings.HasPrefix(r.Name, family.prefix) {
			return family.country
		}
	}
	return countries[r.Name]
}
